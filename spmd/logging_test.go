package spmd

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/spmd/boot"
	"perigee/spmd/wire"
)

// journal collects the lines of one rank.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// logged runs body at three ranks on as many simulated hosts, and returns what each
// has logged.
func logged(t *testing.T, secret string, body func(w *World) error) []*journal {
	t.Helper()
	envs := torch(t, 3)
	journals := make([]*journal, len(envs))
	var wg sync.WaitGroup
	for r, env := range envs {
		env[boot.EnvSecret] = secret
		j := &journal{}
		journals[r] = j
		wg.Go(func() {
			w, err := enter(t.Context(), env, Options{Timeout: 20 * time.Second, HostID: fmt.Sprint(r), Log: j.logger()})
			if err != nil {
				t.Error(err)
				return
			}
			if err := body(w); err != nil {
				w.Fail(err)
			}
			w.Close()
		})
	}
	wg.Wait()
	return journals
}

// A job that meets on several hosts, is visited by a stranger and fails leaves an
// account of that, and not a trace of its secret.
func TestLogs(t *testing.T) {
	for range 5 {
		raw := make([]byte, 24)
		rand.Read(raw)
		secret := hex.EncodeToString(raw)
		journals := logged(t, secret, func(w *World) error {
			w.Phase("visit")
			if w.Rank() == 0 {
				// Like that of a rank of another job, which was told the same address.
				_, err := wire.Dial(t.Context(), w.roster.addresses(0)[0], []byte("another secret"), 1, 0)
				if !errors.Is(err, wire.ErrProof) {
					t.Errorf("a stranger: got %v", err)
				}
			}
			if err := w.All().Barrier(); err != nil {
				return err
			}
			w.Phase("work")
			if err := w.All().Barrier(); err != nil { // all have begun to work
				return err
			}
			if w.Rank() == 2 {
				return errors.New("on purpose")
			}
			return w.All().Barrier()
		})
		for r, j := range journals {
			wanted := []string{"msg=listening", "msg=linked", "msg=\"joined the world\" size=3 hosts=3", "msg=\"measured the clocks\" offset_ns=",
				"msg=phase phase=visit\n", "msg=phase phase=work\n", "on purpose", "msg=closing phase=work\n"}
			switch r {
			case 0:
				wanted = append(wanted, "msg=\"rejected a connection\"", wire.ErrProof.Error(),
					"msg=\"all ranks joined\" part=coordinator size=3", "msg=\"job failed\"")
			case 1:
				wanted = append(wanted, "msg=\"looking for rank 0\"", "msg=\"found rank 0\" address=", "msg=\"this rank's waits end\"")
			case 2:
				wanted = append(wanted, "level=ERROR msg=\"this rank has failed\" kind=internal reason=\"on purpose\" phase=work\n")
			}
			for _, want := range wanted {
				if !strings.Contains(j.String(), want) {
					t.Errorf("rank %d did not log %q:\n%s", r, want, j)
				}
			}
			for how, form := range map[string]string{
				"as it is": secret, "decoded": string(raw),
				"in hexadecimal": hex.EncodeToString([]byte(secret)), "in base64": base64.RawStdEncoding.EncodeToString([]byte(secret)),
				"as numbers": strings.Trim(fmt.Sprint([]byte(secret)), "[]"), "quoted": fmt.Sprintf("%q", secret),
			} {
				if strings.Contains(j.String(), form) {
					t.Errorf("rank %d logged the secret %s:\n%s", r, how, j)
				}
			}
		}
	}
}

// The phase is that in which a line is written, whatever has been added to the logger.
func TestPhaseOfLines(t *testing.T) {
	worlds, _ := NewInMemory(1)
	w, j := worlds[0], &journal{}
	defer w.Close()
	log := w.withPhase(j.logger()).With("a", 1).WithGroup("g")
	w.Phase("one")
	log.Info("x", "b", 2)
	w.Phase("two")
	log.Info("y")
	if got := j.String(); !strings.Contains(got, "msg=x a=1 g.b=2 g.phase=one\n") || !strings.Contains(got, "msg=y a=1 g.phase=two\n") {
		t.Errorf("got %s", got)
	}
	w.Log().Error("this is discarded")
}
