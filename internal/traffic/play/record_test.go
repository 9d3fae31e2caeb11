package play

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

func TestCollect(t *testing.T) {
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		t.Run(op.String(), func(t *testing.T) {
			m := fromRows(t, []int64{7, 100, 0}, []int64{0, 0, 50}, []int64{0, 0, 0})
			runs := make([][]Collected, 3)
			mustRanks(t, 3, func(w *spmd.World, s *session.Session) error {
				plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: m, Op: op, Shards: 2}, load.Pattern{Matrix: matrix.New(3), Op: op, Shards: 1}})
				if err != nil {
					return err
				}
				for _, p := range plans {
					if err := errors.Join(p.Run(2, true), p.Run(1, false), p.Post(), p.Wait(true)); err != nil {
						return err
					}
				}
				if runs[w.Rank()], err = Collect(s, plans); err != nil {
					return err
				}
				again, err := Collect(s, plans)
				if w.Rank() == 0 && (len(again) != 2 || len(again[0].Runs) != 0) {
					return fmt.Errorf("what was collected came once more: %v", again)
				}
				return err
			})
			if runs[1] != nil || runs[2] != nil {
				t.Error("ranks other than 0 got runs")
			}
			got := runs[0]
			if len(got) != 2 || len(got[0].Runs) != 3 || len(got[1].Runs) != 0 {
				t.Fatalf("got %d plans; want one with 3 runs, one with none", len(got))
			}
			// rank -> its peers in the order of posting, with the bytes
			want := map[int][]series.PeerRun{0: {{Peer: 1, Bytes: 100}, {Peer: 0, Bytes: 7}}, 1: {{Peer: 2, Bytes: 50}}}
			if op == nixl.Read {
				want = map[int][]series.PeerRun{0: {{Peer: 0, Bytes: 7}}, 1: {{Peer: 0, Bytes: 100}}, 2: {{Peer: 1, Bytes: 50}}}
			}
			for _, run := range got[0].Runs {
				peers := map[int][]series.PeerRun{}
				for _, k := range run.Ranks {
					if k.StartNS < run.StartNS || k.StartNS > k.PostNS || k.PostNS > k.EndNS || k.EndNS > run.EndNS {
						t.Errorf("stamps out of order: %+v in %d to %d", k, run.StartNS, run.EndNS)
					}
					var sum int64
					for _, q := range k.Peers {
						sum += q.Bytes
						if q.EndNS < k.StartNS || q.EndNS > k.EndNS {
							t.Errorf("rank %d: peer %d ended at %d, outside %d to %d", k.Rank, q.Peer, q.EndNS, k.StartNS, k.EndNS)
						}
						peers[k.Rank] = append(peers[k.Rank], series.PeerRun{Peer: q.Peer, Bytes: q.Bytes})
					}
					if sum != k.Bytes {
						t.Errorf("rank %d moved %d bytes, want %d", k.Rank, k.Bytes, sum)
					}
				}
				if d := cmp.Diff(want, peers); d != "" {
					t.Errorf("peers (-want +got):\n%s", d)
				}
			}
			for k := range 2 {
				if got[0].Runs[k].EndNS > got[0].Runs[k+1].EndNS {
					t.Error("the runs are not in their order")
				}
			}
		})
	}
}

func TestCollectRefuses(t *testing.T) {
	both := fromRows(t, []int64{0, 9}, []int64{9, 0})
	for _, c := range []struct {
		name string
		body func(w *spmd.World, s *session.Session, plans []*LoadPlan) error
		want string
	}{
		{"uneven runs", func(w *spmd.World, s *session.Session, plans []*LoadPlan) error {
			if err := plans[0].Run(2+w.Rank(), true); err != nil {
				return err
			}
			_, err := Collect(s, plans)
			return err
		}, "a: rank 0 has run it 2 times since the last collect, rank 1 3 times"},
		{"a plan twice", func(w *spmd.World, s *session.Session, plans []*LoadPlan) error {
			_, err := Collect(s, []*LoadPlan{plans[0], plans[1], plans[0]})
			return err
		}, "collect: a is there twice"},
		{"other plans", func(w *spmd.World, s *session.Session, plans []*LoadPlan) error {
			if err := errors.Join(plans[0].Run(1, true), plans[1].Run(1, true)); err != nil {
				return err
			}
			_, err := Collect(s, plans[w.Rank():][:1])
			return err
		}, "collect: times from rank 1: it collects other plans"},
		{"fewer plans", func(w *spmd.World, s *session.Session, plans []*LoadPlan) error {
			_, err := Collect(s, plans[w.Rank():])
			return err
		}, "collect: times from rank 1: it collects other plans"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := tryRanks(t, 2, func(w *spmd.World, s *session.Session) error {
				plans, err := Prepare(s, []load.Load{load.Pattern{Name: "a", Matrix: both, Shards: 1}, load.Pattern{Name: "b", Matrix: both, Shards: 1}})
				if err != nil {
					return err
				}
				return c.body(w, s, plans)
			})
			if err := errs[0]; err == nil || err.Error() != c.want || fault.KindOf(err) != fault.Script {
				t.Errorf("rank 0: got %v, want %s", err, c.want)
			}
		})
	}
}

// The skew of a barrier is measured where all initiators have left the same one, and
// only for the first run after it.
func TestBarrierExitSkew(t *testing.T) {
	both := fromRows(t, []int64{0, 9}, []int64{9, 0})
	var runs []Collected
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: both, Shards: 1}, load.Pattern{Matrix: fromRows(t, []int64{0, 9}, []int64{0, 0}), Shards: 1}})
		if err != nil {
			return err
		}
		p := plans[0]
		if err := errors.Join(p.Run(1, true), p.Barrier(), p.Run(2, true), p.InitiatorsBarrier(), p.Post(), p.Wait(true)); err != nil {
			return err
		}
		if w.Rank() == 0 { // the other leaves no barrier before its run
			s.Met(w.All())
		}
		if err := errors.Join(p.Run(1, true), plans[1].Barrier(), plans[1].Run(1, true)); err != nil {
			return err
		}
		all, err := Collect(s, plans)
		if all != nil {
			runs = all
		}
		return err
	})
	for k, want := range []bool{false, true, false, true, false} {
		r := runs[0].Runs[k]
		if (r.BarrierExitSkewNS != nil) != want {
			t.Errorf("run %d: skew %v, want one: %v", k, r.BarrierExitSkewNS, want)
		}
		if want && (*r.BarrierExitSkewNS < 0 || *r.BarrierExitSkewNS > int64(traffictest.Deadline)) {
			t.Errorf("run %d: skew %d ns", k, *r.BarrierExitSkewNS)
		}
	}
	if s := runs[1].Runs[0].BarrierExitSkewNS; s != nil {
		t.Errorf("a single initiator has skew %d", *s)
	}
}

// Ranks that have left different barriers have no skew, even if both were the first of groups of the same size.
func TestNoSkewBetweenGroups(t *testing.T) {
	ring := fromRows(t, []int64{0, 9, 0, 0}, []int64{0, 0, 9, 0}, []int64{0, 0, 0, 9}, []int64{9, 0, 0, 0})
	mustRanks(t, 4, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{load.Pattern{Matrix: ring, Shards: 1}})
		if err != nil {
			return err
		}
		half := w.Rank() / 2 * 2
		g, err := w.Group([]int{half, half + 1})
		if err != nil {
			return err
		}
		if err := g.Barrier(); err != nil {
			return err
		}
		s.Met(g)
		if err := plans[0].Run(1, true); err != nil {
			return err
		}
		all, err := Collect(s, plans)
		if all != nil && all[0].Runs[0].BarrierExitSkewNS != nil {
			return fmt.Errorf("a skew of %d ns between two barriers", *all[0].Runs[0].BarrierExitSkewNS)
		}
		return err
	})
}

// Initiators that start by the clock start at one instant, which the result has, and none before it. Only the first of several
// runs starts so. A pattern with a single initiator has no instant.
func TestStartsByTheClock(t *testing.T) {
	both := fromRows(t, []int64{0, 9}, []int64{9, 0})
	one := fromRows(t, []int64{0, 9}, []int64{0, 0})
	var runs []Collected
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		var loads []load.Load
		for _, m := range []*matrix.Matrix{both, one} {
			loads = append(loads, load.Clocked{Load: load.Pattern{Matrix: m, Shards: 1}})
		}
		loads = append(loads, load.Pattern{Matrix: both, Shards: 1})
		plans, err := Prepare(s, loads)
		if err != nil {
			return err
		}
		if err := Warmup(plans[:1+w.Rank()], 1); err != nil { // the ranks need not do the same
			return err
		}
		for _, p := range plans {
			if err := errors.Join(p.Run(2, true), p.Post(), p.Wait(true)); err != nil {
				return err
			}
		}
		all, err := Collect(s, plans)
		if all != nil {
			runs = all
		}
		return err
	})
	for i, c := range runs {
		for k, r := range c.Runs {
			if want := i == 0 && k != 1; (r.AgreedNS != nil) != want {
				t.Errorf("plan %d, run %d: instant %v, want one: %v", i, k, r.AgreedNS, want)
			}
			if (r.StartSkewNS != nil) != (i != 1) {
				t.Errorf("plan %d, run %d: start skew %v", i, k, r.StartSkewNS)
			}
			if r.AgreedNS == nil {
				continue
			}
			// Each rank is a host here. The instant was put on rank 1's clock by what was known then, and is put
			// back by what is known now: either may be off by the uncertainty.
			off := 2 * r.UncertaintyNS
			for _, rank := range r.Ranks {
				if after := rank.StartNS - *r.AgreedNS + off; after < 0 || after < rank.LateNS {
					t.Errorf("run %d: rank %d started at %d, %d late, the instant was %d", k, rank.Rank, rank.StartNS, rank.LateNS, *r.AgreedNS)
				}
			}
		}
	}
}
