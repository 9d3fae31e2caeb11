package contention

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// timed is a result whose patterns have one message each.
type timed struct {
	d   result.Document
	rng *rand.Rand
}

// runs adds runs of the last pattern: of a median of so many ms, with starts so many apart, and overlap or not.
func (t *timed) runs(phase string, n int, ms, skew float64, overlap *series.Overlap) {
	for i := range n {
		took, apart := int64(1e6*ms*math.Exp(0.2*t.rng.NormFloat64())), int64(1e6*skew)
		ranks := []series.RankRun{{EndNS: took, Peers: []series.PeerRun{{Peer: 1, EndNS: took, Overlap: overlap}}}}
		if apart > 0 { // another initiator, whose message is small
			ranks = append(ranks, series.RankRun{Rank: 2, StartNS: apart, EndNS: apart + 1e3, Peers: []series.PeerRun{{Peer: 3, EndNS: apart + 1e3}}})
		}
		t.d.Measurements = append(t.d.Measurements, result.Measurement{
			Pattern: len(t.d.Patterns) - 1, Phase: phase, Iteration: i, LatencyNS: max(took, apart+1e3),
			Run: series.Run{Ranks: ranks, StartSkewNS: &apart},
		})
	}
}

// pattern adds a pattern with so many runs alone.
func (t *timed) pattern(alone int, ms float64) {
	t.d.Patterns = append(t.d.Patterns, result.Pattern{Op: "WRITE"})
	t.runs("isolated", alone, ms, 0, nil)
}

func (t *timed) slower() ([]Slower, bool) {
	var c Collector
	for i := range t.d.Measurements {
		c.Add(&t.d, &t.d.Measurements[i])
	}
	return c.Slower()
}

// Patterns that take longer in a phase are found, wherever others overlap; not those beyond whose difference is chance,
// whose initiators only start further apart, or that are less than 1 ms longer.
func TestSlower(t *testing.T) {
	for what, c := range map[string]struct {
		alone   int
		ms      float64 // alone
		run     func(d *timed)
		want    *Slower // but for its times
		times   float64
		open    bool
		further int // patterns that take as long as alone
	}{
		"as alone":              {30, 10, func(d *timed) { d.runs("w", 30, 10, 0, nil) }, nil, 0, false, 0},
		"one run each":          {1, 1, func(d *timed) { d.runs("w", 1, 9, 0, nil) }, nil, 0, true, 0},
		"less than 1 ms":        {30, 0.01, func(d *timed) { d.runs("w", 30, 0.05, 0, nil) }, nil, 0, false, 0},
		"started further apart": {30, 10, func(d *timed) { d.runs("w", 30, 10, 50, nil) }, nil, 0, false, 0},
		"started apart alone":   {0, 10, func(d *timed) { d.runs("isolated", 30, 10, 9, nil); d.runs("w", 30, 10, 0, nil) }, nil, 0, false, 0},
		"slower, and started apart": {
			30, 10, func(d *timed) { d.runs("w", 30, 40, 35, nil) }, &Slower{Phase: "w", Runs: 30, Alone: 30, Longer: 30}, 4, false, 0,
		},
		"slower": {
			30, 10, func(d *timed) { d.runs("w", 30, 40, 0, nil) }, &Slower{Phase: "w", Runs: 30, Alone: 30, Longer: 30}, 4, false, 0,
		},
		"a little": {30, 10, func(d *timed) { d.runs("w", 60, 13, 0, nil) }, &Slower{Phase: "w", Runs: 60, Alone: 30}, 1.3, false, 0},
		"five runs alone": {
			5, 10, func(d *timed) { d.runs("w", 5, 40, 0, nil) }, &Slower{Phase: "w", Runs: 5, Alone: 5, Longer: 5}, 4, false, 0,
		},
		"three runs alone":      {3, 10, func(d *timed) { d.runs("w", 5, 40, 0, nil) }, nil, 0, true, 0},
		"few for many patterns": {3, 10, func(d *timed) { d.runs("w", 5, 40, 0, nil) }, nil, 0, true, 11},
		"in one of two phases": {
			10, 10, func(d *timed) { d.runs("quiet", 30, 10, 0, nil); d.runs("busy", 8, 88, 0, nil) },
			&Slower{Phase: "busy", Runs: 8, Alone: 10, Longer: 8}, 8.8, false, 0,
		},
		"8 of 18 runs": {
			20, 10, func(d *timed) { d.runs("w", 10, 7, 0, nil); d.runs("w", 8, 88, 0, nil) },
			&Slower{Phase: "w", Runs: 18, Alone: 20, Longer: 8}, 8.8, false, 0,
		},
		"one of 40 runs": {30, 10, func(d *timed) { d.runs("w", 39, 10, 0, nil); d.runs("w", 1, 300, 0, nil) }, nil, 0, false, 0},
		"those that overlapped": {
			30, 10, func(d *timed) { d.runs("w", 20, 10, 0, nil); d.runs("w", 20, 30, 0, shared) }, nil, 0, false, 0,
		},
		"beside those that overlapped": {
			30, 10, func(d *timed) { d.runs("w", 20, 30, 0, nil); d.runs("w", 20, 10, 0, shared) },
			&Slower{Phase: "w", Runs: 20, Alone: 30, Longer: 20}, 3, false, 0,
		},
		"never in the workload": {30, 10, func(*timed) {}, nil, 0, false, 0},
		"never alone":           {0, 10, func(d *timed) { d.runs("w", 30, 20, 0, nil) }, nil, 0, false, 0},
		"alone beside others": {
			0, 10, func(d *timed) { d.runs("isolated", 10, 10, 0, shared); d.runs("w", 30, 20, 0, nil) }, nil, 0, false, 0,
		},
	} {
		d := &timed{rng: rand.New(rand.NewPCG(5, 6))}
		d.pattern(c.alone, c.ms)
		c.run(d)
		for range c.further {
			d.pattern(5, 10)
			d.runs("w", 5, 10, 0, nil)
		}
		list, open := d.slower()
		if open != c.open || len(list) != map[bool]int{true: 1}[c.want != nil] {
			t.Errorf("%s: %+v, open %v", what, list, open)
			continue
		}
		if c.want == nil {
			continue
		}
		got := list[0]
		if math.Abs(got.Times()/c.times-1) > 0.2 {
			t.Errorf("%s: %v times as long", what, got.Times())
		}
		if got.TookNS, got.AloneNS = 0, 0; c.want.Longer == 0 {
			got.Longer = 0
		}
		if got != *c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, *c.want)
		}
	}
}

// Where nothing is slower, patterns are named in at most 1 % of results, whatever the numbers of runs, and one that is
// slower is among them.
func TestSlowerByChance(t *testing.T) {
	const results = 200
	for _, runs := range [][2]int{{30, 3}, {3, 30}, {10, 10}, {30, 100}} {
		wrong := 0
		for k := range results {
			d := &timed{rng: rand.New(rand.NewPCG(uint64(k), uint64(runs[0])))}
			for range 20 {
				d.pattern(runs[0], 10)
				d.runs("w", runs[1], 10, 0, nil)
			}
			if list, _ := d.slower(); len(list) > 0 {
				wrong++
			}
			d.pattern(runs[0], 10)
			d.runs("w", runs[1], 30, 0, nil)
			list, open := d.slower()
			if !open && (len(list) == 0 || list[0].Pattern != 20) {
				t.Errorf("%d: pattern 20 takes three times as long, and is not the first of %+v", runs, list)
			}
		}
		if most := mostOf(results); wrong > most {
			t.Errorf("%d: patterns were slower in %d of %d results, want at most %d", runs, wrong, results, most)
		}
		t.Logf("%d: %d", runs, wrong)
	}
}

// Patterns stand in the order of how much slower they are.
func TestSlowestFirst(t *testing.T) {
	d := &timed{rng: rand.New(rand.NewPCG(1, 2))}
	for i := range 3 {
		d.pattern(20, 10)
		d.runs("w", 20, 20*float64(i+1), 0, nil)
	}
	list, _ := d.slower()
	if len(list) != 3 || !slices.IsSortedFunc(list, func(a, b Slower) int { return b.Pattern - a.Pattern }) {
		t.Errorf("%+v", list)
	}
}

// Initiators that start apart alone, and together in the workload, share a link there: each takes longer, and all
// together do not.
func TestStartedTogether(t *testing.T) {
	d := &timed{rng: rand.New(rand.NewPCG(1, 2))}
	d.pattern(0, 0)
	for _, phase := range []string{"isolated", "w"} {
		for i := range 20 {
			took, apart := int64(87e6+1e5*d.rng.NormFloat64()), int64(100e6)
			if phase == "w" {
				took, apart = 2*took, 0
			}
			var ranks []series.RankRun
			for r := range 2 {
				start := int64(r) * apart
				ranks = append(ranks, series.RankRun{Rank: r, StartNS: start, EndNS: start + took, Peers: []series.PeerRun{{Peer: 2, EndNS: start + took}}})
			}
			d.d.Measurements = append(d.d.Measurements, result.Measurement{Phase: phase, Iteration: i, LatencyNS: apart + took, Run: series.Run{Ranks: ranks}})
		}
	}
	if list, undecided := d.slower(); len(list) > 0 || undecided {
		t.Errorf("%+v, undecided %v", list, undecided)
	}
}
