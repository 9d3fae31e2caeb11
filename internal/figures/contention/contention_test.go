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

// mostOf is how many of so many results may be false alarms: 1 %, and 3 sigma of sampling.
func mostOf(results float64) int { return int(level*results + 3*math.Sqrt(level*(1-level)*results)) }

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

// Where overlapping costs nothing, contention is found in at most 1 % of results and a pair is named in at most 1 %,
// however few runs there are and though all messages of a run share a disturbance. Sampling error: 3 sigma.
func TestFalseAlarms(t *testing.T) {
	const results, pairs = 400, 6
	for _, runs := range []int{MinRuns, 12} {
		alarms, named := 0, 0
		for k := range results {
			m := newMade(pairs, uint64(k))
			m.alone(30, pairs, 0.2)
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
		most := mostOf(results)
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
	// Peer 5 never ran alone, and is held against its runs without overlap.
	if math.Abs(want.Ratio-3) > 0.01 || want.Overlapped+want.Control != runs*(5*4+10) {
		t.Errorf("got %+v", want)
	}
}

// Messages that are slower in the workload, and overlap more often, whatever the reason for either, are no contention.
func TestSlowMessagesThatOverlapMoreOften(t *testing.T) {
	const results, pairs, runs = 400, 6, 12
	alarms := 0
	for k := range results {
		m := newMade(pairs, uint64(k))
		m.alone(20, pairs, 0.1)
		for i := range runs {
			for pair := range pairs {
				var o *series.Overlap
				if m.rng.Float64() < 0.2+0.1*float64(pair) {
					o = shared
				}
				m.add("workload", i, pair, 1000+200*float64(pair), 0.1, o)
			}
		}
		if r := m.c.Report(); r.Of != Workload {
			t.Fatalf("got %+v, want the workload as the control group", r)
		} else if r.Shown() {
			alarms++
		}
	}
	if most := mostOf(results); alarms > most {
		t.Errorf("%d false alarms in %d results, want at most %d", alarms, results, most)
	}
}

// A message that is slow for another reason lasts until it meets the next one. That is not the cost of meeting.
func TestSlowMessagesMeetOthers(t *testing.T) {
	m := newMade(1, 5)
	for i := range 20 {
		m.add("isolated", i, 0, 1000, 0.05, nil)
	}
	late := &series.Overlap{Share: 0.3, Messages: 1, Shared: "receiver", FirstNS: 2000}
	for i := range 30 {
		if i%3 == 0 {
			m.add("workload", i, 0, 6000, 0.05, late)
		} else {
			m.add("workload", i, 0, 1000, 0.05, nil)
		}
	}
	if r := m.c.Report(); r.Shown() || r.Marked != 10 || r.Late != 10 || r.Overlapped != 0 || len(r.Pairs) != 0 {
		t.Errorf("got %+v, want 10 late ones and nothing more", r)
	}
	for i := range 20 { // the other one begins at the usual time, too, and costs nothing
		o := *shared
		o.FirstNS = 500
		if i%2 == 0 {
			m.add("workload", 30+i, 0, 1000, 0.05, &o)
		}
	}
	if r := m.c.Report(); r.Slows() || r.Late != 10 || r.Overlapped != 10 {
		t.Errorf("got %+v, want nothing slower", r)
	}
}

// The interval holds the true cost in 99 % of results, less what chance allows: with overlaps in a few of many runs or in
// most, by chance or in whole runs, against the workload and against the runs alone.
func TestInterval(t *testing.T) {
	const results, pairs = 300, 4
	for _, c := range []struct {
		name       string
		runs       int
		of         string
		overlapped func(m *made, run int) bool
	}{
		{"6 of 40 runs", 40, Workload, func(_ *made, run int) bool { return run < 6 }},
		{"half of 12 runs", 12, Workload, func(_ *made, run int) bool { return run%2 == 0 }},
		{"by chance", 20, Workload, func(m *made, _ int) bool { return m.rng.Float64() < 0.3 }},
		{"always", 6, Alone, func(*made, int) bool { return true }},
	} {
		held := 0
		for k := range results {
			m := newMade(pairs, uint64(k))
			m.alone(10, pairs, 0.1)
			for i := range c.runs {
				disturbance := math.Exp(0.2 * m.rng.NormFloat64())
				for pair := range pairs {
					ns, o := 1000*disturbance, (*series.Overlap)(nil)
					if c.overlapped(m, i) {
						ns, o = 1.5*ns, shared
					}
					m.add("workload", i, pair, ns, 0.1, o)
				}
			}
			r := m.c.Report()
			if r.Of != c.of {
				t.Fatalf("%s: got %+v, want %s", c.name, r, c.of)
			}
			if r.Low < 1.5 && 1.5 < r.High {
				held++
			}
		}
		t.Logf("%s: %d of %d", c.name, held, results)
		if least := results - mostOf(results); held < least {
			t.Errorf("%s: %d of %d intervals hold the true ratio, want at least %d", c.name, held, results, least)
		}
	}
}

// Where there are too many messages to keep, their sums give the same cost.
func TestSumsOfMessages(t *testing.T) {
	report := func() Report {
		m := newMade(3, 11)
		m.alone(10, 3, 0.05)
		for i := range 60 {
			for pair := range 3 {
				ns, o := 1000., (*series.Overlap)(nil)
				if (i+pair)%2 == 0 {
					ns, o = 2000, shared
				}
				m.add("workload", i, pair, ns, 0.05, o)
			}
		}
		m.c.Costs() // looks, and changes nothing
		return m.c.Report()
	}
	whole := report()
	defer func(n int) { mostPending = n }(mostPending)
	mostPending = 40
	r := report()
	if r.Overlapped != 90 || r.Control != 90 || r.Of != Workload || r.Calm.Overlapped != whole.Calm.Overlapped || len(r.Pairs) != 3 {
		t.Errorf("got %+v\nwant %+v", r, whole)
	}
	if math.Abs(r.Ratio/whole.Ratio-1) > 0.01 || math.Abs(r.Low/whole.Low-1) > 0.02 || math.Abs(r.Calm.Ratio/whole.Calm.Ratio-1) > 0.01 {
		t.Errorf("got %+v\nwant %+v", r, whole)
	}
}

// A message that lasts longer meets more of the others, which begin when they please and cost it nothing. With any number
// of runs that is shown to cost something in at most 1 % of results. Sampling error: 3 sigma.
func TestLongMessagesMeetMore(t *testing.T) {
	const results = 150
	for _, c := range []struct {
		spread      float64
		runs, alone int
	}{{0.3, 400, 30}, {0.8, 400, 30}, {0.8, 100, 100}, {0.3, 12, 12}} {
		alarms, seen := 0, 0
		for k := range results {
			m := newMade(1, uint64(k))
			var own []float64
			for i := range c.alone {
				own = append(own, 1e6*math.Exp(c.spread*m.rng.NormFloat64()))
				m.add("isolated", i, 0, own[i], 0, nil)
			}
			for i := range c.runs {
				took := 1e6 * math.Exp(c.spread*m.rng.NormFloat64())
				begins := 1e6 * (4*m.rng.Float64() - 1) // the other one, which lasts 1e6
				var o *series.Overlap
				if begins < took && begins > -1e6 {
					o = &series.Overlap{Share: 0.5, Messages: 1, Shared: "receiver", FirstNS: int64(max(begins, 0))}
				}
				m.add("workload", i, 0, took, 0, o)
			}
			r := m.c.Report()
			if r.Shown() {
				alarms++
			}
			if r.Of == Workload {
				seen++
			}
		}
		t.Logf("%+v: %d alarms, the workload is the control group in %d", c, alarms, seen)
		if most := mostOf(results); alarms > most {
			t.Errorf("%+v: %d false alarms in %d results, want at most %d", c, alarms, results, most)
		}
	}
}

// Where nearly all messages overlap, those that something else held up, so that they did not, are no control group.
func TestFewThatWereHeldUp(t *testing.T) {
	m := newMade(1, 13)
	for i := range 12 {
		m.add("isolated", i, 0, 1000, 0.1, nil)
	}
	for i := range 60 {
		if i%6 == 0 {
			m.add("workload", i, 0, 8000, 0.1, nil)
		} else {
			m.add("workload", i, 0, 1800, 0.1, shared)
		}
	}
	if r := m.c.Report(); r.Of != Alone || math.Abs(r.Ratio-1.8) > 0.1 || !r.Slows() {
		t.Errorf("got %+v, want 1.8 times as long as alone", r)
	}
}

// Where the clocks do not say whether a message met another in time, it is in neither group.
func TestUncertainClocks(t *testing.T) {
	m, at := newMade(1, 5), func(ns int64) *int64 { return &ns }
	for i := range 20 {
		m.add("isolated", i, 0, 1000, 0.02, nil)
	}
	run := func(i int, ns float64, o *series.Overlap, may *int64) {
		r := series.RankRun{Rank: 0, Peers: []series.PeerRun{{Peer: 1, EndNS: int64(ns), Overlap: o, MayMeetNS: may}}}
		m.c.Add(m.d, &result.Measurement{Phase: "workload", Iteration: i, Run: series.Run{Ranks: []series.RankRun{r}}})
	}
	late := &series.Overlap{Share: 0.1, Messages: 1, Shared: "receiver", FirstNS: 1900}
	for i := range 10 {
		run(6*i, 1000+float64(i), nil, nil)
		run(6*i+1, 2000+float64(i), shared, at(0)) // it met another, perhaps earlier
		run(6*i+2, 2000+float64(i), nil, at(0))    // perhaps
		run(6*i+3, 2000+float64(i), late, at(500)) // too late, or perhaps in time
		run(6*i+4, 2000+float64(i), late, at(1500))
		run(6*i+5, 2000+float64(i), nil, at(1800)) // never, or too late
	}
	r := m.c.Report()
	if r.Messages != 60 || r.Marked != 30 || r.Unsure != 20 || r.Late != 10 || r.Overlapped != 10 || r.Control != 30 || r.Of != Workload {
		t.Errorf("got %+v", r)
	}
}

// Runs of one number in several phases are several runs.
func TestPhases(t *testing.T) {
	m := newMade(1, 11)
	for i := range 12 {
		m.add("isolated", i, 0, 1000, 0.03, nil)
	}
	for _, phase := range []string{"load 1", "load 2", "load 3"} {
		for i := range 4 {
			m.add(phase, i, 0, 2000, 0.03, shared)
		}
	}
	if r := m.c.Report(); r.Runs != 12 || !r.Slows() || math.Abs(r.Ratio-2) > 0.1 {
		t.Errorf("%d runs, ratio %.3f (%.3f to %.3f), want 12 and 2", r.Runs, r.Ratio, r.Low, r.High)
	}
}

// Runs of the phase isolated that overlapped are not alone.
func TestNotAlone(t *testing.T) {
	m := newMade(2, 12)
	for i := range 10 {
		m.add("isolated", i, 0, 2000, 0.03, shared)
		m.add("isolated", i, 1, 1000, 0.03, nil)
	}
	for i := range 10 {
		m.add("workload", i, 0, 2000, 0.03, shared)
	}
	if r := m.c.Report(); r.NotAlone != 10 || r.Marked != 10 || r.Overlapped != 0 || !math.IsNaN(r.Ratio) {
		t.Errorf("%+v", r)
	}
	for i := range 10 {
		m.add("workload", i, 1, 2000, 0.03, shared)
	}
	if r := m.c.Report(); r.Overlapped != 10 || math.Abs(r.Ratio-2) > 0.1 {
		t.Errorf("%+v", r)
	}
}

// A rival that comes late, and costs nothing, meets the messages that are slow by chance. It is found to cost something in
// at most 1 % of results, and a pair is named in at most 1 %, however many runs there are. Sampling error: 3 sigma.
func TestLateRival(t *testing.T) {
	const results, pairs = 200, 2
	most := mostOf(results)
	for _, iterations := range []int{12, 100} {
		said, named := 0, 0
		for k := range results {
			m := newMade(pairs, uint64(k))
			m.alone(30, pairs, 0.2)
			for i := range iterations {
				for pair := range pairs {
					took, rival := 1000*math.Exp(0.2*m.rng.NormFloat64()), 800+200*m.rng.Float64()
					var o *series.Overlap
					if took > rival {
						o = &series.Overlap{Share: 1 - rival/took, Messages: 1, Shared: "receiver", FirstNS: int64(rival)}
					}
					m.add("workload", i, pair, took, 0, o)
				}
			}
			r := m.c.Report()
			if r.Slows() && r.High > Little {
				said++
			}
			if len(r.Pairs) > 0 {
				named++
			}
		}
		if said > most || named > most {
			t.Errorf("%d iterations: contention in %d of %d results, pairs in %d, want at most %d", iterations, said, results, named, most)
		}
	}
}

// Other messages that are slower for another reason neither hide contention nor make it larger than it may be: what
// of it overlapping costs is open then. Short ones say nothing of long ones.
func TestBesideUnrelatedSlowMessages(t *testing.T) {
	for _, c := range []struct {
		alone, slower float64
		masked        bool
		off           float64
	}{{1000, 1, false, 1}, {1000, 1.5, false, 1.5}, {1000, 2, true, 2}, {1000, 1.88, true, 1.88}, {1000, 3, true, 3}, {50, 3, false, 1}} {
		m := newMade(3, 5)
		for i := range 30 {
			m.add("isolated", i, 0, 1000, 0.05, nil)
			m.add("isolated", i, 1, 1000, 0.05, nil)
			m.add("isolated", i, 2, c.alone, 0.05, nil)
		}
		for i := range 20 {
			m.add("workload", i, 0, 2000, 0.05, shared)
			m.add("workload", i, 1, 2000, 0.05, shared)
			m.add("workload", i, 2, c.alone*c.slower, 0.05, nil)
		}
		r := m.c.Report()
		if r.Of != Alone || r.Masked != c.masked || math.Abs(r.Off/c.off-1) > 0.05 || math.Abs(r.Most()/2-1) > 0.05 ||
			r.Slows() == c.masked || (len(r.Pairs) == 2) == c.masked || c.masked && !(r.Low > 1.8 && r.High < 2.2) {
			t.Errorf("%+v: got %+v", c, r)
		}
	}
}

// A pair that is slower than alone, but no more so than messages that did not overlap, is not passed over.
func TestMaskedPair(t *testing.T) {
	m := newMade(13, 5)
	m.alone(30, 13, 0.03)
	for i := range 20 {
		for pair := range 13 {
			switch {
			case pair < 9:
				m.add("workload", i, pair, 950, 0.03, shared)
			case pair == 9:
				m.add("workload", i, pair, 2000, 0.03, shared)
			default:
				m.add("workload", i, pair, 2000, 0.03, nil)
			}
		}
	}
	if r := m.c.Report(); r.MaskedPairs != 1 || len(r.Pairs) != 0 || r.Masked {
		t.Errorf("got %+v", r)
	}
}
