package contention

import (
	"cmp"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Little is how many times longer something may take and still take little longer. Below LittleNS nanoseconds what
// a message finds in the caches, and how soon its rank gets a CPU, makes as much between runs that follow each
// other at once and those of a workload.
const (
	Little   = 1.1
	LittleNS = 1e6
)

// fewLonger is which part of the runs of a pattern has to be longer than each of them alone.
const fewLonger = 0.2

// Slower is a pattern that took longer in a phase of the workload than alone, though its messages met no others. Times
// are those of the initiator that takes longest from its own start to its own end, so that neither starts that are
// further apart nor clocks make them longer. The latency has to be longer, too: initiators that use a link at the same
// time take longer each, but not together.
type Slower struct {
	Pattern int    `json:"pattern"`
	Phase   string `json:"phase"`
	Runs    int    `json:"runs"`    // of which no message overlapped with another pattern
	Alone   int    `json:"alone"`   // runs alone
	Longer  int    `json:"longer"`  // of Runs, longer than each of those alone; 0 if it is the medians that differ
	TookNS  int64  `json:"took_ns"` // their median; of all Runs if the medians differ
	AloneNS int64  `json:"alone_ns"`
}

// Times is how many times as long as alone the longer runs took.
func (s Slower) Times() float64 { return result.Slowdown(float64(s.TookNS), float64(s.AloneNS)) }

// group is the runs of a pattern in a phase.
type group struct {
	pattern int
	phase   string
}

// times are those of the runs of a group: of the initiator that takes longest, and the latency.
type times struct{ longest, latency []float64 }

// addTime takes in a run for Slower.
func (c *Collector) addTime(m *result.Measurement) {
	longest := m.LongestNS()
	if m.Phase != result.IsolatedPhase && m.Overlapped() || longest <= 0 {
		return
	}
	key := group{m.Pattern, m.Phase}
	t := c.times[key]
	c.times[key] = times{append(t.longest, float64(longest)), append(t.latency, float64(m.LatencyNS))}
}

// baseline is times of runs alone.
type baseline struct {
	all             []float64
	median, longest float64
}

func baselineOf(all []float64) baseline { return baseline{all, stats.Median(all), slices.Max(all)} }

// What runs say of a baseline.
const (
	asAlone = iota
	open    // so much longer, in too few runs to say whether that is chance
	longer
)

// compare compares runs with those alone, at a level of each test. some are those of which each is longer than all
// alone, nil if it is the medians that differ.
func (b baseline) compare(took []float64, alpha float64) (is int, some []float64) {
	enough := max(Little*b.median, b.median+LittleNS)
	beyond, median := max(enough, b.longest), stats.Median(took)
	some = slices.DeleteFunc(slices.Clone(took), func(ns float64) bool { return ns <= beyond })
	many := len(some) > 0 && float64(len(some)) >= fewLonger*float64(len(took))
	switch {
	case many && stats.Beyond(len(some), len(took), len(b.all)) <= alpha:
		return longer, some
	case !many && median <= enough:
		return asAlone, nil
	case stats.Beyond(len(took), len(took), len(b.all)) > alpha,
		median > enough && stats.SmallestP(len(b.all), len(took)) > alpha:
		return open, nil
	case median > enough && stats.MannWhitney(b.all, took).P <= alpha:
		return longer, nil
	}
	return asAlone, nil
}

// Slower returns the patterns that took longer in a phase of the workload than alone, in runs of which no message
// overlapped, the slowest first: by more than Little times and LittleNS, and beyond chance, corrected for their number
// (Bonferroni). Either the median is larger (Mann and Whitney), or a fifth of the
// runs and more are longer than each of those alone (Rosenbaum). undecided reports that one took so much longer and has
// too few runs to find out whether that is chance.
//
// Something slows them down that is not of this result, or is behind its hosts.
func (c *Collector) Slower() (slower []Slower, undecided bool) {
	slower = []Slower{}
	var both []group
	for key := range c.times {
		if _, ok := c.times[group{key.pattern, result.IsolatedPhase}]; ok && key.phase != result.IsolatedPhase {
			both = append(both, key)
		}
	}
	slices.SortFunc(both, func(a, b group) int { return cmp.Or(a.pattern-b.pattern, cmp.Compare(a.phase, b.phase)) })
	alpha := level / 2 / float64(len(both)) // two tests each
	var longest, latency baseline
	for i, key := range both {
		if i == 0 || key.pattern != both[i-1].pattern { // it may have thousands of phases
			alone := c.times[group{key.pattern, result.IsolatedPhase}]
			longest, latency = baselineOf(alone.longest), baselineOf(alone.latency)
		}
		t := c.times[key]
		is, some := longest.compare(t.longest, alpha)
		if is != asAlone {
			other, _ := latency.compare(t.latency, alpha)
			is = min(is, other)
		}
		undecided = undecided || is == open
		if is != longer {
			continue
		}
		took := t.longest
		if some != nil {
			took = some
		}
		slower = append(slower, Slower{
			Pattern: key.pattern, Phase: key.phase, Runs: len(t.longest), Alone: len(longest.all), Longer: len(some),
			TookNS: int64(stats.Median(took)), AloneNS: int64(longest.median),
		})
	}
	slices.SortStableFunc(slower, func(a, b Slower) int { return cmp.Compare(b.Times(), a.Times()) })
	return slower, undecided
}
