package contention

import (
	"cmp"
	"slices"

	"perigee/internal/result"
	"perigee/internal/stats"
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

// Slower is a pattern that took longer in a phase of the workload than alone, though its messages met no others. Its
// time is the longest of its initiators, each from its own start to its own end, so that neither starts that are
// further apart nor clocks make it longer.
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

// addTime takes in a run for Slower.
func (c *Collector) addTime(m *result.Measurement) {
	if m.Phase != result.IsolatedPhase && m.Overlapped() {
		return
	}
	took := m.LongestNS()
	if took <= 0 {
		return
	}
	key := group{m.Pattern, m.Phase}
	c.times[key] = append(c.times[key], float64(took))
}

// Slower returns the patterns that took longer in a phase of the workload than alone, in runs of which no message
// overlapped, the slowest first: by more than Little times and LittleNS, and beyond chance, corrected for their number
// (Bonferroni). Either the median is larger (Mann and Whitney), or a fifth of the
// runs and more are longer than each of those alone (Rosenbaum). open reports that one took so much longer and has too
// few runs to find out whether that is chance.
//
// Something slows them down that is not of this result, or is behind its hosts.
func (c *Collector) Slower() (slower []Slower, open bool) {
	slower = []Slower{}
	var both []group
	for key := range c.times {
		if key.phase != result.IsolatedPhase && len(c.times[group{key.pattern, result.IsolatedPhase}]) > 0 {
			both = append(both, key)
		}
	}
	slices.SortFunc(both, func(a, b group) int { return cmp.Or(a.pattern-b.pattern, cmp.Compare(a.phase, b.phase)) })
	alpha := level / 2 / float64(len(both)) // two tests each
	var alone []float64
	var isolated, longest float64
	for i, key := range both {
		if i == 0 || key.pattern != both[i-1].pattern { // it may have thousands of phases
			alone = c.times[group{key.pattern, result.IsolatedPhase}]
			isolated, longest = stats.Median(alone), slices.Max(alone)
		}
		took := c.times[key]
		s := Slower{Pattern: key.pattern, Phase: key.phase, Runs: len(took), Alone: len(alone)}
		s.AloneNS = int64(isolated)
		enough := max(Little*isolated, isolated+LittleNS)
		beyond, median := max(enough, longest), stats.Median(took)
		longer := slices.DeleteFunc(slices.Clone(took), func(ns float64) bool { return ns <= beyond })
		many := len(longer) > 0 && float64(len(longer)) >= fewLonger*float64(len(took))
		switch {
		case many && stats.Beyond(len(longer), len(took), len(alone)) <= alpha:
			s.Longer, s.TookNS = len(longer), int64(stats.Median(longer))
			slower = append(slower, s)
		case !many && median <= enough:
		case stats.Beyond(len(took), len(took), len(alone)) > alpha:
			open = true
		case median > enough && stats.MannWhitney(alone, took).P <= alpha:
			s.TookNS = int64(median)
			slower = append(slower, s)
		}
	}
	slices.SortStableFunc(slower, func(a, b Slower) int { return cmp.Compare(b.Times(), a.Times()) })
	return slower, open
}
