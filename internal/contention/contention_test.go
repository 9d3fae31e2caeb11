package contention

import (
	"math"
	"math/rand/v2"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// made is a result with one pattern between each of some pairs of ranks.
type made struct {
	d   *result.Document
	c   Collector
	rng *rand.Rand
}

func newMade(pairs int, seed uint64) *made {
	m := &made{d: &result.Document{}, rng: rand.New(rand.NewPCG(seed, 1))}
	for range pairs {
		m.d.Patterns = append(m.d.Patterns, result.Pattern{Op: "WRITE"})
	}
	return m
}

// add adds one run: a message that takes ns, more or less by spread.
func (m *made) add(phase string, iteration, pair int, ns, spread float64, overlap *series.Overlap) {
	took := int64(ns * math.Exp(spread*m.rng.NormFloat64()))
	r := series.RankRun{Rank: 2 * pair, Peers: []series.PeerRun{{Peer: 2*pair + 1, EndNS: took, Overlap: overlap}}}
	m.c.Add(m.d, &result.Measurement{Pattern: pair, Phase: phase, Iteration: iteration, Run: series.Run{Ranks: []series.RankRun{r}}})
}

var shared = &series.Overlap{Share: 0.5, Messages: 1, Shared: "receiver"}

// A rival in half of the runs that doubles the time is found, with the other half as the control group.
func TestRivalInHalfOfTheRuns(t *testing.T) {
	m := newMade(3, 7)
	for pair := range 3 {
		for i := range 20 {
			m.add("isolated", i, pair, 900, 0.05, nil)
		}
	}
	for i := range 20 {
		for pair := range 3 {
			if pair == 1 && i%2 == 0 {
				m.add("workload", i, pair, 2000, 0.05, shared)
			} else {
				m.add("workload", i, pair, 1000, 0.05, nil)
			}
		}
	}
	r := m.c.Report()
	if r.Messages != 60 || r.Marked != 10 || r.Share != 0.5 || r.Looked != 1 || r.Of != Workload || r.Control != 10 || r.Overlapped != 10 {
		t.Errorf("got %+v", r)
	}
	if !r.Slows() || math.Abs(r.Ratio-2) > 0.1 || r.Low < 1.8 || r.High > 2.2 {
		t.Errorf("ratio %.3f (%.3f to %.3f), want 2", r.Ratio, r.Low, r.High)
	}
	if len(r.Pairs) != 1 || r.Pairs[0].From != 2 || r.Pairs[0].To != 3 || r.Pairs[0].Shared != "receiver" {
		t.Errorf("pairs: %+v", r.Pairs)
	}
}

// Where all messages overlap, the runs alone are the control group, and that is said.
func TestAlwaysOverlapping(t *testing.T) {
	m := newMade(1, 3)
	for i := range 30 {
		m.add("isolated", i, 0, 1000, 0.03, nil)
	}
	for i := range 8 {
		m.add("workload", i, 0, 1500, 0.03, shared)
	}
	if r := m.c.Report(); r.Of != Alone || !r.Slows() || math.Abs(r.Ratio-1.5) > 0.06 || len(r.Pairs) != 1 {
		t.Errorf("got %+v, want 1.5 times against the runs alone", r)
	}
}

// What can not be told is not told.
func TestTooLittle(t *testing.T) {
	m := newMade(1, 3)
	for i := range MinRuns - 1 {
		m.add("isolated", i, 0, 1000, 0.03, nil)
	}
	for i := range MinRuns - 1 {
		m.add("workload", i, 0, 9000, 0.03, shared)
	}
	if r := m.c.Report(); r.Shown() || !math.IsNaN(r.Low) || r.Runs != MinRuns-1 || r.Marked != MinRuns-1 {
		t.Errorf("%d runs: got %+v, want no interval", MinRuns-1, r)
	}
	m = newMade(1, 3)
	for i := range 20 {
		m.add("workload", i, 0, 9000, 0.03, shared)
	}
	if r := m.c.Report(); r.Shown() || r.Of != "" || len(r.Pairs) != 0 {
		t.Errorf("without runs alone: got %+v", r)
	}
	var none Collector
	if r := none.Report(); r.Shown() || r.Messages != 0 {
		t.Errorf("of nothing: %+v", r)
	}
}

// Where overlapping costs nothing, contention is found in at most 5 % of results and a pair is named in at most 5 %,
// however few runs there are and though all messages of a run share a disturbance. Sampling error: 3 sigma.
func TestFalseAlarms(t *testing.T) {
	const results, pairs = 400, 6
	for _, runs := range []int{MinRuns, 12} {
		alarms, named := 0, 0
		for k := range results {
			m := newMade(pairs, uint64(k))
			for i := range 30 {
				for pair := range pairs {
					m.add("isolated", i, pair, 1000, 0.2, nil)
				}
			}
			for i := range 2 * runs {
				disturbance := math.Exp(0.2 * m.rng.NormFloat64())
				for pair := range pairs {
					var o *series.Overlap
					if i%2 == 0 {
						o = shared
					}
					m.add("workload", i, pair, 1000*disturbance, 0.2, o)
				}
			}
			r := m.c.Report()
			if r.Shown() {
				alarms++
			}
			if len(r.Pairs) > 0 {
				named++
			}
		}
		most := int(0.05*results + 3*math.Sqrt(0.05*0.95*results))
		if alarms > most || named > most {
			t.Errorf("%d runs: %d false alarms and %d with named pairs in %d results, want at most %d", runs, alarms, named, results, most)
		}
	}
}

// Runs may list messages in other orders, leave some out, and have some that did not run alone.
func TestMessagesInAnyOrder(t *testing.T) {
	const ranks, runs = 6, 12
	report := func(shuffled bool) Report {
		rng := rand.New(rand.NewPCG(5, 6))
		d := &result.Document{Patterns: []result.Pattern{{Op: "READ"}}}
		var c Collector
		for _, phase := range []string{"isolated", "workload"} {
			for n := range runs {
				var list []series.RankRun
				for rank := range ranks {
					r := series.RankRun{Rank: rank}
					for peer := range ranks {
						if phase == "isolated" && (peer == 5 || n == 0 && peer == 3) || phase == "workload" && peer == rank {
							continue
						}
						p := series.PeerRun{Peer: peer, EndNS: int64(1000 + 10*rank + 100*peer + n)}
						if phase == "workload" && (n+rank)%2 == 0 {
							p.EndNS, p.Overlap = 3*p.EndNS, shared
						}
						r.Peers = append(r.Peers, p)
					}
					if shuffled && n > 0 {
						rng.Shuffle(len(r.Peers), func(i, j int) { r.Peers[i], r.Peers[j] = r.Peers[j], r.Peers[i] })
					}
					list = append(list, r)
				}
				if shuffled && n > 0 {
					rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				}
				c.Add(d, &result.Measurement{Phase: phase, Iteration: n, Run: series.Run{Ranks: list}})
			}
		}
		return c.Report()
	}
	got, want := report(true), report(false)
	if got.Overlapped != want.Overlapped || got.Control != want.Control || math.Abs(got.Ratio-want.Ratio) > 1e-12 ||
		math.Abs(got.Low-want.Low) > 1e-9 || len(got.Pairs) != len(want.Pairs) {
		t.Errorf("in another order: got %+v, want %+v", got, want)
	}
	// Peer 5 never ran alone; of ranks 0 to 4 each reads from 4 peers, and rank 5 from 5.
	if math.Abs(want.Ratio-3) > 0.01 || want.Overlapped+want.Control != runs*(5*4+5) {
		t.Errorf("got %+v", want)
	}
}
