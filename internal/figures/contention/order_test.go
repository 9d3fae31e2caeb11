package contention

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// said is all that a collector says, by message and pair.
func said(c *Collector) string {
	text := fmt.Sprintf("%+v\n%+v\n", c.Report(), c.Costs())
	c.Slowdowns(func(pattern, from, to int, s Slowdowns) {
		text += fmt.Sprintf("%d %d %d %.12g\n", pattern, from, to, s.Mean())
	})
	return text
}

// What is said does not depend on whether patterns run alone before, after or between the runs of the workload.
func TestAloneLater(t *testing.T) {
	runs := func() (alone, workload []*result.Measurement) {
		rng := rand.New(rand.NewPCG(3, 4))
		add := func(phase string, i, pair int, ms float64, o *series.Overlap) *result.Measurement {
			r := series.RankRun{Rank: 2 * pair, Peers: []series.PeerRun{{Peer: 2*pair + 1, EndNS: int64(1e6 * ms * math.Exp(0.1*rng.NormFloat64())), Overlap: o}}}
			return &result.Measurement{Pattern: pair, Phase: phase, Iteration: i, Run: series.Run{Ranks: []series.RankRun{r}}}
		}
		for i := range 20 {
			for pair := range 3 {
				alone = append(alone, add("isolated", i, pair, 10, nil))
				if i%2 == 0 {
					workload = append(workload, add("w", i, pair, 20, &series.Overlap{Share: 1, Shared: "receiver", FirstNS: 1e6}))
				} else {
					workload = append(workload, add("w", i, pair, 11, nil))
				}
			}
		}
		return alone, workload
	}
	of := func(list []*result.Measurement) string {
		d := &result.Document{Patterns: make([]result.Pattern, 3)}
		var c Collector
		for _, m := range list {
			c.Add(d, m)
		}
		if r := c.Report(); r.Of != Workload || math.Abs(r.Ratio-20./11) > 0.15 || len(r.Pairs) != 3 {
			t.Errorf("%+v", r)
		}
		return said(&c)
	}
	alone, workload := runs()
	want := of(slices.Concat(alone, workload))
	if got := of(slices.Concat(workload, alone)); got != want {
		t.Errorf("alone later:\n got %s\nwant %s", got, want)
	}
	var between []*result.Measurement
	for i := range alone {
		between = append(between, workload[i], alone[i])
	}
	if got := of(between); got != want {
		t.Errorf("alone between:\n got %s\nwant %s", got, want)
	}
}

// The median is that of all runs alone.
func TestManyAlone(t *testing.T) {
	m := newMade(1, 4)
	var times []float64
	for i := range 100 {
		took := float64(1000 + i*i)
		times = append(times, took)
		m.add("isolated", i, 0, took, 0, nil)
	}
	m.add("w", 0, 0, 5000, 0, nil)
	if got, n := m.c.Slowdown(0, 1); n != 1 || math.Abs(got*stats.Median(times)/5000-1) > 1e-6 {
		t.Errorf("%v of %d, want %v", got, n, 5000/stats.Median(times))
	}
}

// What makes all messages of a phase slower is no contention, and hides none.
func TestPhasesDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		add   func(m *made, i, pair int)
		of    string
		ratio float64
	}{
		"all overlap in one, and others are as slow in the other": {func(m *made, i, pair int) {
			m.add("w", i, pair, 2000, 0.03, shared)
			m.add("background", i, pair, 2000, 0.03, nil)
		}, Alone, 2},
		"none overlaps in the fast one, and half in the slow one": {func(m *made, i, pair int) {
			m.add("fast", i, pair, 1000, 0.03, nil)
			m.add("slow", i, pair, 2000, 0.03, map[bool]*series.Overlap{true: shared}[i%2 == 0])
		}, Workload, 1},
	} {
		m := newMade(2, 9)
		for pair := range 2 {
			for i := range 20 {
				m.add("isolated", i, pair, 1000, 0.03, nil)
			}
		}
		for i := range 20 {
			for pair := range 2 {
				c.add(m, i, pair)
			}
		}
		if r := m.c.Report(); r.Of != c.of || math.Abs(r.Ratio-c.ratio) > 0.05 || r.Slows() != (c.ratio > 1) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
