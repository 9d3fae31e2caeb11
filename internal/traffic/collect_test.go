package traffic

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// The formulas of the table, worked out by hand.
func TestFormulas(t *testing.T) {
	rank := func(rank int, start, end, bytes int64) RankRun {
		return RankRun{Rank: rank, StartNS: start, PostNS: start, EndNS: end, Bytes: bytes}
	}
	run := func(ranks ...RankRun) PatternRun {
		var r PatternRun
		for _, k := range ranks {
			r.add(k)
		}
		return r
	}
	// Rank 0: 1000 bytes in 100 ns = 10e9 B/s. Rank 3: 500 bytes in 250 ns = 2e9 B/s.
	first := run(rank(0, 1000, 1100, 1000), rank(3, 900, 1150, 500))
	if first.StartNS != 900 || first.EndNS != 1150 || first.LatencyNS() != 250 {
		t.Errorf("from %d to %d, latency %d; want 900 to 1150, 250", first.StartNS, first.EndNS, first.LatencyNS())
	}
	if bw := first.MeanBandwidth(); bw != 6e9 {
		t.Errorf("mean bandwidth %v, want 6e9", bw)
	}
	// Rank 0 needs 100 and 300 ns, mean 200; rank 3 needs 250 and 170, mean 210.
	second := run(rank(0, 5000, 5300, 1000), rank(3, 5000, 5170, 500))
	if iso := Isolated([]PatternRun{first, second}); iso != 210 {
		t.Errorf("isolated %v, want 210", iso)
	}
	if iso := Isolated(nil); !math.IsNaN(iso) {
		t.Errorf("isolated of no run is %v, want NaN", iso)
	}
	var empty PatternRun
	if empty.LatencyNS() != 0 || empty.MeanBandwidth() != 0 {
		t.Errorf("an empty run has latency %d and bandwidth %v", empty.LatencyNS(), empty.MeanBandwidth())
	}
	if bw := rank(0, 5, 5, 100).Bandwidth(); bw != 100e9 {
		t.Errorf("100 bytes in no time: %v B/s, want those of 1 ns", bw)
	}
}

func TestCollect(t *testing.T) {
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		t.Run(op.String(), func(t *testing.T) {
			m := fromRows(t, []int64{7, 100, 0}, []int64{0, 0, 50}, []int64{0, 0, 0})
			runs := make([][][]PatternRun, 3)
			play(t, 3, func(w *spmd.World, s *Session) error {
				plans, err := s.Prepare([]Pattern{{Matrix: m, Op: op, Shards: 2}, {Matrix: matrix.New(3), Op: op, Shards: 1}})
				if err != nil {
					return err
				}
				for _, p := range plans {
					if err := errors.Join(p.Run(2, true), p.Run(1, false), p.Post(), p.Wait(true)); err != nil {
						return err
					}
				}
				if runs[w.Rank()], err = s.Collect(plans); err != nil {
					return err
				}
				again, err := s.Collect(plans)
				if w.Rank() == 0 && (len(again) != 2 || len(again[0]) != 0) {
					return fmt.Errorf("what was collected came once more: %v", again)
				}
				return err
			})
			if runs[1] != nil || runs[2] != nil {
				t.Error("ranks other than 0 got runs")
			}
			got := runs[0]
			if len(got) != 2 || len(got[0]) != 3 || len(got[1]) != 0 {
				t.Fatalf("got %d plans; want one with 3 runs, one with none", len(got))
			}
			// rank -> its peers in the order of posting, with the bytes
			want := map[int][]PeerRun{0: {{Peer: 1, Bytes: 100}, {Peer: 0, Bytes: 7}}, 1: {{Peer: 2, Bytes: 50}}}
			if op == nixl.Read {
				want = map[int][]PeerRun{0: {{Peer: 0, Bytes: 7}}, 1: {{Peer: 0, Bytes: 100}}, 2: {{Peer: 1, Bytes: 50}}}
			}
			for _, run := range got[0] {
				peers := map[int][]PeerRun{}
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
						peers[k.Rank] = append(peers[k.Rank], PeerRun{Peer: q.Peer, Bytes: q.Bytes})
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
				if got[0][k].EndNS > got[0][k+1].EndNS {
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
		body func(w *spmd.World, s *Session, plans []*Plan) error
		want string
	}{
		{"uneven runs", func(w *spmd.World, s *Session, plans []*Plan) error {
			if err := plans[0].Run(2+w.Rank(), true); err != nil {
				return err
			}
			_, err := s.Collect(plans)
			return err
		}, "a: rank 0 has run it 2 times since the last collect, rank 1 3 times"},
		{"a plan twice", func(w *spmd.World, s *Session, plans []*Plan) error {
			_, err := s.Collect([]*Plan{plans[0], plans[1], plans[0]})
			return err
		}, "collect: a is there twice"},
		{"other plans", func(w *spmd.World, s *Session, plans []*Plan) error {
			if err := errors.Join(plans[0].Run(1, true), plans[1].Run(1, true)); err != nil {
				return err
			}
			_, err := s.Collect(plans[w.Rank():][:1])
			return err
		}, "collect: times from rank 1: it collects other plans"},
		{"fewer plans", func(w *spmd.World, s *Session, plans []*Plan) error {
			_, err := s.Collect(plans[w.Rank():])
			return err
		}, "collect: times from rank 1: it collects other plans"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := sessions(t, 2, func(w *spmd.World, s *Session) error {
				plans, err := s.Prepare([]Pattern{{Name: "a", Matrix: both, Shards: 1}, {Name: "b", Matrix: both, Shards: 1}})
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
	var runs [][]PatternRun
	play(t, 2, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: both, Shards: 1}, {Matrix: fromRows(t, []int64{0, 9}, []int64{0, 0}), Shards: 1}})
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
		all, err := s.Collect(plans)
		if all != nil {
			runs = all
		}
		return err
	})
	for k, want := range []bool{false, true, false, true, false} {
		r := runs[0][k]
		if (r.BarrierExitSkewNS != nil) != want {
			t.Errorf("run %d: skew %v, want one: %v", k, r.BarrierExitSkewNS, want)
		}
		if want && (*r.BarrierExitSkewNS < 0 || *r.BarrierExitSkewNS > int64(traffictest.Deadline)) {
			t.Errorf("run %d: skew %d ns", k, *r.BarrierExitSkewNS)
		}
	}
	if s := runs[1][0].BarrierExitSkewNS; s != nil {
		t.Errorf("a single initiator has skew %d", *s)
	}
}

// Ranks that have left different barriers have no skew, even if both were the first of groups of the same size.
func TestNoSkewBetweenGroups(t *testing.T) {
	ring := fromRows(t, []int64{0, 9, 0, 0}, []int64{0, 0, 9, 0}, []int64{0, 0, 0, 9}, []int64{9, 0, 0, 0})
	play(t, 4, func(w *spmd.World, s *Session) error {
		plans, err := s.Prepare([]Pattern{{Matrix: ring, Shards: 1}})
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
		all, err := s.Collect(plans)
		if all != nil && all[0][0].BarrierExitSkewNS != nil {
			return fmt.Errorf("a skew of %d ns between two barriers", *all[0][0].BarrierExitSkewNS)
		}
		return err
	})
}

func TestSkewIsLastMinusFirst(t *testing.T) {
	var r PatternRun
	r.measureSkew([]exit{{7, 1500}, {7, 1200}, {7, 1250}})
	if r.BarrierExitSkewNS == nil || *r.BarrierExitSkewNS != 300 {
		t.Errorf("got %v, want 300", r.BarrierExitSkewNS)
	}
}

// stamped is a plan that does nothing but hold times.
func stamped(number int, m *matrix.Matrix, log []logged) *Plan {
	return &Plan{Pattern: Pattern{Matrix: m}, number: number, log: log}
}

func TestLogsRoundTrip(t *testing.T) {
	m := fromRows(t, []int64{1, 1, 1}, []int64{0, 0, 1}, []int64{0, 0, 0})
	rapid.Check(t, func(rt *rapid.T) {
		rank := rapid.IntRange(0, 2).Draw(rt, "rank")
		var plans []*Plan
		for i := range rapid.IntRange(0, 4).Draw(rt, "plans") {
			var log []logged
			for range rapid.IntRange(0, 3).Draw(rt, "runs") {
				stamp := func() int64 { return rapid.Int64().Draw(rt, "stamp") }
				times := nixl.Times{Start: stamp(), Posted: stamp(), End: stamp(), Done: make([]int64, len(m.Row(rank)))}
				for k := range times.Done {
					times.Done[k] = stamp()
				}
				left := exit{Barrier: rapid.Uint64().Draw(rt, "barrier")}
				if left.Barrier != 0 {
					left.NS = stamp()
				}
				log = append(log, logged{times, left})
			}
			plans = append(plans, stamped(3*i, m, log))
		}
		data := encodeLogs(plans)
		logs, err := decodeLogs(data, plans, rank)
		if err != nil {
			rt.Fatal(err)
		}
		for i, p := range plans {
			if d := cmp.Diff(p.log, logs[i]); d != "" {
				rt.Fatalf("plan %d (-want +got):\n%s", i, d)
			}
		}
		if len(data) > 0 {
			cut := data[:rapid.IntRange(0, len(data)-1).Draw(rt, "cut")]
			if _, err := decodeLogs(cut, plans, rank); err == nil {
				rt.Fatalf("%d of %d bytes were read without complaint", len(cut), len(data))
			}
		}
	})
}

func FuzzDecodeLogs(f *testing.F) {
	m := matrix.New(2)
	if err := errors.Join(m.Set(0, 1, 5), m.Set(0, 0, 5)); err != nil {
		f.Fatal(err)
	}
	plans := []*Plan{
		stamped(0, m, []logged{{nixl.Times{Start: 1, Posted: 2, End: 5, Done: []int64{4, 5}}, exit{3, 1}}}),
		stamped(1, m, nil),
	}
	f.Add(encodeLogs(plans))
	f.Add([]byte{2, 0, 0, 1, 0})
	f.Add([]byte{2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		logs, err := decodeLogs(data, plans, 0)
		if err != nil {
			if fault.KindOf(err) == fault.Script && !strings.Contains(err.Error(), "other plans") {
				t.Errorf("blamed on the script: %v", err)
			}
			return
		}
		for _, log := range logs {
			for _, times := range log {
				if len(times.Done) != 2 {
					t.Fatalf("%d stamps for 2 peers", len(times.Done))
				}
			}
		}
	})
}
