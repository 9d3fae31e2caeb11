package spmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/spmdtest"
)

// torch makes the environments of n ranks that meet on a free port.
func torch(t testing.TB, n int) []map[string]string {
	t.Helper()
	port := spmdtest.FreePort(t)
	envs := make([]map[string]string, n)
	for r := range envs {
		envs[r] = map[string]string{
			"RANK": strconv.Itoa(r), "WORLD_SIZE": strconv.Itoa(n), "MASTER_ADDR": "127.0.0.1",
			"MASTER_PORT": strconv.Itoa(port), boot.EnvSecret: "the secret of this job",
		}
	}
	return envs
}

// patient returns a context that ends only where a test would not.
func patient(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), spmdtest.Patience)
}

// enter joins the world as one rank, which logs from the start.
func enter(ctx context.Context, env map[string]string, opts Options) (*World, error) {
	p, err := boot.Join(ctx, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, boot.Watcher{Log: opts.Log})
	if err != nil {
		return nil, err
	}
	return Join(ctx, p, opts)
}

// ranks runs body at all ranks of a world that meets through torchrun's
// variables, in this process. host, if given, names each rank's simulated host.
func ranks(t *testing.T, n int, host func(rank int) string, body func(w *World) error) []error {
	t.Helper()
	envs := torch(t, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			opts := Options{Timeout: 20 * time.Second}
			if host != nil {
				opts.HostID = host(r)
			}
			w, err := enter(t.Context(), envs[r], opts)
			if err != nil {
				errs[r] = err
				return
			}
			err = body(w)
			if err != nil {
				err = w.Fail(err)
			}
			errs[r] = errors.Join(err, w.Close())
		})
	}
	wg.Wait()
	return errs
}

func TestTorchrunWorld(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, n := range []int{1, 2, 5} {
		must.Do(t, ranks(t, n, nil, func(w *World) error {
			if w.Launcher() != "torchrun" || w.Size() != n || !w.OneHost() || w.LocalRank() != w.Rank() {
				return fmt.Errorf("%s, size %d, one host %v, local rank %d", w.Launcher(), w.Size(), w.OneHost(), w.LocalRank())
			}
			all, err := AllGatherValue(w.All(), w.Rank())
			if err != nil || fmt.Sprint(all) != fmt.Sprint(seq(n)) {
				return fmt.Errorf("gathered %v, %v", all, err)
			}
			big := bytes.Repeat([]byte{byte(w.Rank())}, 3<<20)
			got, err := w.All().Broadcast(n-1, big)
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(n - 1)}, 3<<20)) {
				return fmt.Errorf("broadcast of 3 MiB gave %d bytes, %v", len(got), err)
			}
			return w.All().Barrier()
		})...)
	}
}

func TestTorchrunLocalRankIsTheLaunchers(t *testing.T) {
	envs := torch(t, 1)
	envs[0]["LOCAL_RANK"] = "0"
	w, err := enter(t.Context(), envs[0], Options{})
	must.Do(t, err)
	defer w.Close()
	if w.LocalRank() != 0 || w.Err() != nil {
		t.Errorf("local rank %d, %v", w.LocalRank(), w.Err())
	}
}

func TestWrongSecretIsRefusedOnBothSides(t *testing.T) {
	defer goleak.VerifyNone(t)
	envs := torch(t, 2)
	envs[1][boot.EnvSecret] = "the secret of another"
	ctx, cancel := patient(t)
	defer cancel()
	var wg sync.WaitGroup
	var errs [2]error
	waits := make(chan struct{})
	impatient, lose := context.WithCancel(ctx)
	defer lose()
	cues := spmdtest.Cues{"rank joined": func() { close(waits) }, "rejected a connection": lose}
	wg.Go(func() { _, errs[0] = enter(impatient, envs[0], Options{Log: cues.Logger()}) })
	select {
	case <-waits:
	case <-ctx.Done():
	}
	_, errs[1] = enter(ctx, envs[1], Options{})
	wg.Wait()
	if fault.KindOf(errs[1]) != fault.Launch || !strings.Contains(errs[1].Error(), "does not know this job's secret") ||
		!strings.Contains(fault.HintOf(errs[1]), boot.EnvSecret) {
		t.Errorf("rank 1: %v (%s)", errs[1], fault.HintOf(errs[1]))
	}
	if fault.KindOf(errs[0]) != fault.Launch || !strings.Contains(errs[0].Error(), "1 of 2 ranks have not come: 1") ||
		!strings.Contains(fault.HintOf(errs[0]), " connections were turned away") {
		t.Errorf("rank 0: %v (%s)", errs[0], fault.HintOf(errs[0]))
	}
}

func TestMissingRanksAreNamedEverywhere(t *testing.T) {
	defer goleak.VerifyNone(t)
	envs := torch(t, 5)
	ctx, cancel := patient(t)
	defer cancel()
	impatient, lose := context.WithCancel(ctx)
	defer lose()
	present := []int{0, 1, 3}
	errs := make([]error, 5)
	var wg sync.WaitGroup
	for _, r := range present {
		wg.Go(func() {
			if r == 0 { // when all are there who will ever be, it loses its patience
				_, errs[r] = enter(impatient, envs[r], Options{Log: spmdtest.Cues{"present=3 ": lose}.Logger()})
				return
			}
			_, errs[r] = enter(ctx, envs[r], Options{})
		})
	}
	wg.Wait()
	for _, r := range present {
		if fault.KindOf(errs[r]) != fault.Launch || !strings.Contains(errs[r].Error(), "2 of 5 ranks have not come: 2 4") {
			t.Errorf("rank %d: %v", r, errs[r])
		}
	}
}

func TestRankZeroNeverComes(t *testing.T) {
	envs := torch(t, 2)
	ctx, cancel := patient(t)
	defer cancel()
	_, err := enter(ctx, envs[1], Options{Log: spmdtest.Cues{"no rank 0 yet": cancel}.Logger()})
	if fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), "rank 1 cannot reach rank 0 at 127.0.0.1:"+envs[1]["MASTER_PORT"]) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestOccupiedMasterPort(t *testing.T) {
	envs := torch(t, 2)
	l, err := net.Listen("tcp", "127.0.0.1:"+envs[0]["MASTER_PORT"])
	must.Do(t, err)
	defer l.Close()
	_, err = enter(t.Context(), envs[0], Options{})
	if fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), "rank 0 cannot listen on port "+envs[0]["MASTER_PORT"]) ||
		!strings.Contains(fault.HintOf(err), "MASTER_PORT") {
		t.Errorf("got %v (%s)", err, fault.HintOf(err))
	}
	// Rank 0 of the attempt before may be left over.
	again := maps.Clone(envs[0])
	again["TORCHELASTIC_RESTART_COUNT"] = "1"
	if _, err = enter(t.Context(), again, Options{}); !strings.Contains(fault.HintOf(err), "rank 0 of the attempt before") {
		t.Errorf("the second attempt: %v (%s)", err, fault.HintOf(err))
	}
	// The program that has the port speaks another protocol.
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write(bytes.Repeat([]byte("220 smtp.example.org ready "), 4))
			c.Close()
		}
	}()
	ctx, cancel := patient(t)
	defer cancel()
	if _, err := enter(ctx, envs[1], Options{Log: spmdtest.Cues{"no rank 0 yet": cancel}.Logger()}); fault.KindOf(err) != fault.Launch || !strings.Contains(err.Error(), "not a perigee of this version") {
		t.Errorf("got %v", err)
	}
}

func TestTwoProcessesOfOneRank(t *testing.T) {
	defer goleak.VerifyNone(t)
	envs := torch(t, 3)
	envs[2]["RANK"] = "1"
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range envs {
		wg.Go(func() { _, errs[i] = enter(t.Context(), envs[i], Options{}) })
	}
	wg.Wait()
	for _, err := range errs {
		must.Fail(t, err, fault.Launch, "two processes have rank 1")
	}
}

// The job's failure reaches all ranks, wherever they are: in shared memory, at
// a link, or busy with something else.
func TestFailureReachesEverybody(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, culprit := range []int{0, 2} { // the coordinating rank, and another
		for name, host := range map[string]func(int) string{"one host": nil, "two hosts": func(r int) string { return fmt.Sprint(r / 2) }} {
			t.Run(fmt.Sprint(name, " rank ", culprit), func(t *testing.T) {
				errs := ranks(t, 4, host, func(w *World) error {
					w.Phase("rehearsal")
					if w.Rank() == culprit {
						return fault.New(fault.Corrupt, "17 bytes differ").WithHint("check the cables")
					}
					if w.Rank() == 3 {
						<-w.Context().Done() // busy
						spmdtest.Wait(t, func() bool { return atomic.LoadUint32(w.AbortFlag()) != 0 })
						return w.Err()
					}
					return w.All().Barrier()
				})
				for r, err := range errs {
					f, ok := errors.AsType[watch.Failure](err)
					if !ok || f.Rank != culprit || f.Phase != "rehearsal" || f.Cause != "17 bytes differ" ||
						fault.KindOf(err) != fault.Corrupt || fault.HintOf(err) != "check the cables" {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}

func TestTimeoutIsNamed(t *testing.T) {
	envs := torch(t, 2)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for r := range envs {
		wg.Go(func() {
			w, err := enter(t.Context(), envs[r], Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			w.SetTimeout(300 * time.Millisecond)
			if r == 0 {
				errs[r] = w.Fail(w.All().Barrier())
				return
			}
			<-w.Context().Done()
			errs[r] = w.Err()
		})
	}
	wg.Wait()
	for r, err := range errs {
		if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "rank 0 ") || !strings.Contains(err.Error(), "barrier of 2 ranks: not all ranks came in time within 300ms") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// In shared memory a barrier is not a message. All the same no rank waits for
// ever for one that is in another collective.
func TestDisagreementInSharedMemoryIsNamed(t *testing.T) {
	for name, other := range map[string]func(g *Group) error{
		"receives":   func(g *Group) error { _, err := g.Broadcast(0, nil); return err },
		"exchanges":  func(g *Group) error { _, err := g.AllGather(nil); return err },
		"all-to-all": func(g *Group) error { _, err := g.AllToAll(make([][]byte, g.Size())); return err },
	} {
		t.Run(name, func(t *testing.T) {
			errs := ranks(t, 3, nil, func(w *World) error {
				if w.Rank() == 1 {
					return other(w.All())
				}
				return w.All().Barrier()
			})
			for r, err := range errs {
				if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "rank 1 is in ") || !strings.Contains(err.Error(), "in barrier") {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}
