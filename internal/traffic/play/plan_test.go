package play

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// sparse makes patterns in which a few ranks send to a few others.
func sparse(t testing.TB, patterns, ranks int) []load.Load {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]load.Load, patterns)
	for i := range list {
		m := matrix.New(ranks)
		for range 8 {
			must.Do(t, m.Set(rng.IntN(ranks), rng.IntN(ranks), int64(1+rng.IntN(4096))))
		}
		list[i] = load.Pattern{Matrix: m, Shards: 1 + i%3}
	}
	return list
}

// After the first Prepare, further patterns that fit cost one comparison of digests, however many they are.
func TestPreparingCostsNoMessages(t *testing.T) {
	const ranks, count = 64, 1000
	patterns := sparse(t, count, ranks)
	mustRanks(t, ranks, func(w *spmd.World, s *session.Session) error {
		before, _ := w.Sent()
		if _, err := Prepare(s, patterns); err != nil {
			return err
		}
		first, _ := w.Sent()
		// Three barriers, an all-gather and a reduction of 64 ranks are 6 rounds each.
		if spent := first - before; spent > 6*6 {
			return fmt.Errorf("the first call took %d messages", spent)
		}
		if _, err := Prepare(s, patterns); err != nil {
			return err
		}
		if second, _ := w.Sent(); second-first > 6 {
			return fmt.Errorf("%d patterns that fit took %d messages", count, second-first)
		}
		return nil
	})
}

func BenchmarkPrepare1000x64(b *testing.B) {
	patterns := sparse(b, 1000, 64)
	for b.Loop() {
		mustRanks(b, 64, func(w *spmd.World, s *session.Session) error {
			_, err := Prepare(s, patterns)
			return err
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	square := fromRows(t, []int64{0, 1}, []int64{0, 0})
	for _, c := range []struct {
		name    string
		pattern load.Pattern
		kind    fault.Kind
		want    string
	}{
		{"no matrix", load.Pattern{Name: "x", Shards: 1}, fault.Script, "x has no matrix"},
		{"size", load.Pattern{Name: "x", Shards: 1, Matrix: matrix.New(3)}, fault.Input, "x: the matrix is 3 x 3, but there are 2 ranks"},
		{"shards 0", load.Pattern{Matrix: square}, fault.Input, "traffic pattern: shards is 0, want 1 to 1048576"},
		{"shards", load.Pattern{Matrix: square, Shards: load.MaxShards + 1}, fault.Input, "traffic pattern: shards is 1048577, want 1 to 1048576"},
		{"vram", load.Pattern{Matrix: square, Shards: 1, Mem: nixl.VRAM}, fault.Resource, "the shm engine has no vram buffers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, err := range tryRanks(t, 2, func(w *spmd.World, s *session.Session) error {
				_, err := Prepare(s, []load.Load{c.pattern})
				return err
			}) {
				must.Fail(t, err, c.kind, c.want)
			}
		})
	}
}

// recorder notes how often the batches of an agent have run.
type recorder struct {
	nixl.Batch
	runs  *int
	sizes *[]int
	each  time.Duration
}

func (r recorder) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	*r.runs += n
	if r.sizes != nil {
		*r.sizes = append(*r.sizes, n)
	}
	time.Sleep(r.each)
	return r.Batch.Run(ctl, n, times)
}

func TestWarmupReachesEveryPeer(t *testing.T) {
	rows := [][]int64{{0, 1, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}}
	subset := fromRows(t, []int64{0, 1, 0, 0}, []int64{0, 0, 0, 0}, []int64{0, 0, 0, 0}, []int64{0, 0, 0, 0})
	further := fromRows(t, []int64{0, 1, 0, 1}, []int64{0, 0, 0, 0}, []int64{0, 0, 0, 0}, []int64{1, 0, 0, 0})
	full := fromRows(t, rows...)
	patterns := []load.Load{
		load.Pattern{Matrix: full, Shards: 1}, load.Pattern{Matrix: subset, Shards: 1},
		load.Pattern{Matrix: further, Shards: 1}, load.Pattern{Matrix: subset, Op: nixl.Read, Shards: 1},
	}
	want := [4][]int{{5, 0, 5, 0}, {0, 0, 0, 5}, {0, 0, 0, 0}, {5, 0, 0, 0}} // by rank, by plan
	mustRanks(t, 4, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, patterns)
		if err != nil {
			return err
		}
		runs := make([]int, len(plans))
		for i, p := range plans {
			for _, k := range p.parts {
				k.batch = recorder{Batch: k.batch, runs: &runs[i]}
			}
		}
		if err := errors.Join(Warmup(plans, 5), Warmup(plans, 0)); err != nil {
			return err
		}
		if !slices.Equal(runs, want[w.Rank()]) {
			return fmt.Errorf("rank %d ran the plans %v times, want %v", w.Rank(), runs, want[w.Rank()])
		}
		if len(plans[0].TakeLogs()[0]) != 0 {
			return errors.New("the warm-up was recorded")
		}
		if err := Warmup(plans, -1); w.Rank() == 0 && err == nil {
			return errors.New("a negative number of runs was accepted")
		}
		return nil
	})
}

// The state of a plan is the same at all ranks, whether they take part or not.
func TestPlanStates(t *testing.T) {
	m := fromRows(t, []int64{0, 5, 0}, []int64{0, 0, 0}, []int64{0, 0, 0})
	mustRanks(t, 3, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Name: "p", Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		p := plans[0]
		refused := func(what, want string, err error) error {
			if err == nil || err.Error() != want || fault.KindOf(err) != fault.Script {
				return fmt.Errorf("%s: got %v, want %s", what, err, want)
			}
			return nil
		}
		doneErr := func() error { _, err := p.Done(); return err }
		const posted, notPosted, released = "p: the plan has been posted and not waited for", "p: the plan has not been posted", "p: the plan has been released"
		err = errors.Join(
			refused("wait", notPosted, p.Wait(true)),
			refused("done", notPosted, doneErr()),
			refused("run", "p: -1 runs, want at least 0", p.Run(-1, true)),
			p.Post(),
			refused("post", posted, p.Post()), refused("run", posted, p.Run(1, true)),
			doneErr(), p.Wait(false), refused("wait", notPosted, p.Wait(true)),
			p.Post(), p.Release(), p.Release(),
			refused("post", released, p.Post()), refused("run", released, p.Run(0, true)),
			refused("wait", notPosted, p.Wait(true)), refused("done", notPosted, doneErr()),
			p.Barrier(), p.InitiatorsBarrier(),
		)
		if err != nil {
			return err
		}
		if p.TakesPart() != (w.Rank() < 2) || p.Initiates() != (w.Rank() == 0) {
			return fmt.Errorf("rank %d: takes part %v, initiates %v", w.Rank(), p.TakesPart(), p.Initiates())
		}
		return nil
	})
}

// Many runs go to the engine in pieces, which are small while a timeout could
// otherwise hit many short runs at once.
func TestRunInPieces(t *testing.T) {
	m := fromRows(t, []int64{5})
	for _, c := range []struct {
		timeout, each time.Duration
		n             int
		want          []int
	}{
		{0, 0, 3, []int{3}},
		{0, 0, mostStamps/4 + 2, []int{mostStamps / 4, 2}},
		{time.Hour, 0, 10, []int{1, 2, 4, 3}},
		{time.Second, 150 * time.Millisecond, 3, []int{1, 1, 1}},
		{time.Hour, 0, 0, nil},
	} {
		mustRanks(t, 1, func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: m, Shards: 1}})
			if err != nil {
				return err
			}
			w.SetTimeout(c.timeout)
			p, runs, sizes := plans[0], 0, []int(nil)
			p.parts[0].batch = recorder{p.parts[0].batch, &runs, &sizes, c.each}
			if err := p.Run(c.n, true); err != nil {
				return err
			}
			if !slices.Equal(sizes, c.want) || len(p.parts[0].log) != c.n {
				return fmt.Errorf("%d runs with timeout %v: pieces %v and %d stamps, want %v", c.n, c.timeout, sizes, len(p.parts[0].log), c.want)
			}
			if _, _, ok := p.Last(); ok != (c.n > 0) {
				return fmt.Errorf("%d runs: there is a last one: %v", c.n, ok)
			}
			return nil
		})
	}
}
