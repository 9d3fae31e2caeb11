package spmd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// step is a collective with its root.
type step struct {
	name string
	root int
}

func (s step) String() string { return fmt.Sprint(s.name, " ", s.root) }

func (s step) call(g *Group) error {
	var err error
	switch s.name {
	case "barrier":
		err = g.Barrier()
	case "broadcast":
		_, err = g.Broadcast(s.root, []byte("x"))
	case "gather":
		_, err = g.Gather(s.root, []byte("x"))
	case "all-gather":
		_, err = g.AllGather([]byte("x"))
	case "all-to-all":
		_, err = g.AllToAll(make([][]byte, g.Size()))
	case "reduce":
		_, err = AllReduce(g, []int{1}, Sum)
	}
	return err
}

var stepNames = []string{"barrier", "broadcast", "gather", "all-gather", "all-to-all", "reduce"}

// together runs a program per rank, as jobs do: with an end that all must reach, and
// where one fails all fail. It returns the first error, and whether the programs were
// ended from without.
func together(worlds []*World, programs [][]step) (first error, stuck bool) {
	var once sync.Once
	failAll := func(err error) {
		once.Do(func() {
			first = err
			for _, w := range worlds {
				w.Fail(err)
			}
		})
	}
	tooLong := fault.New(fault.Timeout, "stuck")
	watchdog := time.AfterFunc(spmdtest.Patience, func() { failAll(tooLong) })
	defer watchdog.Stop()
	everywhere(worlds, func(w *World) error {
		for _, s := range programs[w.Rank()] {
			if err := s.call(w.All()); err != nil {
				failAll(err)
				return err
			}
		}
		if err := w.All().End(); err != nil {
			failAll(err)
		}
		return nil
	})
	return first, first == tooLong
}

// TestEveryDisagreementIsFound lets each rank run its own program, and checks that the
// ranks succeed if all do the same, and that otherwise some rank finds out.
func TestEveryDisagreementIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "ranks")
		aStep := rapid.Custom(func(t *rapid.T) step {
			s := step{name: rapid.SampledFrom(stepNames).Draw(t, "collective")}
			if s.name == "broadcast" || s.name == "gather" {
				s.root = rapid.IntRange(0, n-1).Draw(t, "root")
			}
			return s
		})
		common := rapid.SliceOfN(aStep, 0, 5).Draw(t, "program")
		programs, same := make([][]step, n), true
		for r := range programs {
			programs[r] = common
			if rapid.IntRange(0, 2).Draw(t, "other") == 0 {
				programs[r] = rapid.SliceOfN(aStep, 0, 5).Draw(t, fmt.Sprint("program of rank ", r))
			}
			same = same && fmt.Sprint(programs[r]) == fmt.Sprint(programs[0])
		}
		worlds, _ := NewInMemory(n)
		for _, w := range worlds {
			w.detector.after = time.Millisecond
		}
		err, stuck := together(worlds, programs)
		switch {
		case stuck:
			t.Fatalf("no rank found out in %v", programs)
		case same && err != nil:
			t.Fatalf("all do the same, and still: %v", err)
		case !same && (fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "ranks disagree")):
			t.Fatalf("%v gave %v", programs, err)
		}
	})
}

// Ranks on several hosts, some of which share memory, find out as well, at once, and
// name what both do.
func TestDisagreementAcrossHosts(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, test := range map[string]struct {
		others, odd step // of all ranks but rank 3, and of rank 3
		wanted      []string
	}{
		"no rank sends":    {step{"broadcast", 3}, step{"broadcast", 0}, []string{"broadcast with root 3", "broadcast with root 0"}},
		"all-gather":       {step{"all-gather", 0}, step{"barrier", 0}, []string{"all-gather", "barrier"}},
		"one is elsewhere": {step{"barrier", 0}, step{"gather", 4}, []string{"gather", "barrier"}},
		"behind":           {step{"barrier", 0}, step{"reduce", 0}, []string{"reduce", "barrier"}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			host := func(rank int) string { return fmt.Sprint(rank / 2) }
			errs := ranks(t, 5, host, func(w *World) error {
				s := test.others
				if w.Rank() == 3 {
					s = test.odd
				}
				if err := s.call(w.All()); err != nil {
					return err
				}
				return w.All().End()
			})
			for r, err := range errs {
				if fault.KindOf(err) != fault.Script {
					t.Errorf("rank %d: %v", r, err)
					continue
				}
				for _, text := range test.wanted {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("rank %d: %v, which lacks %q", r, err, text)
					}
				}
			}
			t.Logf("%v after %v", errs[0], time.Since(start))
		})
	}
}

// A rank that is only late is asked, but not blamed, and a rank that comes to another
// collective than was asked for says so then.
func TestDoubtsWait(t *testing.T) {
	worlds, _ := NewInMemory(3)
	asked := func() bool { return worlds[2].detector.asked.Load() > 0 }
	late := step{"gather", 0}
	together := func(first, then step) []error {
		return everywhere(worlds, func(w *World) error {
			if w.Rank() == 2 {
				spmdtest.Wait(t, asked)
				return then.call(w.All())
			}
			return first.call(w.All())
		})
	}
	must.Do(t, together(late, late)...)
	if n := worlds[2].detector.asked.Load(); n != 0 {
		t.Errorf("%d inquiries are kept though nothing is to be said", n)
	}
	// A frame follows what the asker waits for, so that it misses a message that was dropped.
	spmdtest.Wait(t, func() bool { return worlds[2].Wire().Controls > 0 })
	if err := together(late, step{"broadcast", 2})[0]; err == nil || !strings.Contains(err.Error(), "rank 0 is in gather") || !strings.Contains(err.Error(), "rank 2 in broadcast") {
		t.Errorf("rank 0: %v", err)
	}
}

func TestCallLog(t *testing.T) {
	l := callLog(1<<64 - 1<<32) // the number is about to start anew
	ops := []byte{opGather, opBarrier, opEnd, opReduce, opPing, opBroadcast, opAllToAll, opExchange, opAllGather, opBarrier}
	for i, op := range ops {
		l = l.next(op)
		if l.seq() != uint32(i) {
			t.Fatalf("call %d, want %d", l.seq(), i)
		}
	}
	for i, op := range ops {
		if back := len(ops) - 1 - i; back >= loggedCalls {
			op = 0
		}
		if got := l.op(uint32(i)); got != op {
			t.Errorf("call %d was %d, want %d", i, got, op)
		}
	}
	if got := l.op(uint32(len(ops))); got != 0 {
		t.Errorf("a call to come was %d", got)
	}
}
