package spmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

// A rank that is stopped after it has come, and before it is linked to the others, is the one
// that is named, as after any other timeout.
func TestStoppedBeforeItsLinks(t *testing.T) {
	envs := torch(t, 3)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, fault.New(fault.Launch, "not all ranks came within 2s"))
	defer cancel()
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() {
			w, err := enter(ctx, envs[r], Options{})
			if errs[r] = err; err == nil {
				w.Close()
			}
		})
	}
	stopped := sayHello(t, ctx, envs[2])
	defer stopped.Close()
	wg.Wait()
	for r, err := range errs {
		f, ok := errors.AsType[watch.Failure](err)
		if !ok || f.Rank != 2 || f.Host != "node2" || f.Kind != fault.Timeout {
			t.Errorf("rank %d: %#v, want a timeout of rank 2", r, err)
		}
	}
}

// sayHello is a rank that says hello, and nothing after that, like a stopped process.
func sayHello(t *testing.T, ctx context.Context, env map[string]string) net.Conn {
	t.Helper()
	address := net.JoinHostPort(env["MASTER_ADDR"], env["MASTER_PORT"])
	secret := boot.MeetingSecret([]byte(env[boot.EnvSecret]), "torchrun :"+env["MASTER_PORT"])
	for {
		conn, err := wire.Dial(ctx, address, secret, 2, 0)
		if err == nil {
			if _, err := bufio.NewReader(conn).ReadBytes('\n'); err != nil { // the secret
				t.Fatal(err)
			}
			hello := map[string]any{"is": "hello", "rank": 2, "size": 3, "host": "node2", "build": version.Get(), "card": card{Host: "node2"}.encode()}
			must.Do(t, json.NewEncoder(conn).Encode(hello))
			return conn
		}
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("rank 0 is not there: %w", err))
		}
		time.Sleep(5 * time.Millisecond)
	}
}
