package contention

import (
	"cmp"
	"maps"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Unsteady is a pattern whose runs alone do not say what it takes alone: they became longer or shorter from one half of
// them to the other, or fall into two groups. What is compared with them has an interval that may be tight around a
// wrong answer.
type Unsteady struct {
	Pattern int `json:"pattern"`
	// Groups says that the runs fall into two groups, else into a first and a second half.
	Groups bool `json:"groups"`
	Runs   int  `json:"runs"`
	// OneNS and OtherNS are the medians of the halves, or of the shorter and the longer runs.
	OneNS   int64 `json:"one_ns"`
	OtherNS int64 `json:"other_ns"`
}

func (u Unsteady) times() float64 {
	return float64(max(u.OneNS, u.OtherNS)) / float64(max(1, min(u.OneNS, u.OtherNS)))
}

const (
	// fewestUnsteady is how many runs it takes, and smallestGroup which part of them is a group.
	fewestUnsteady = 10
	smallestGroup  = 0.2
)

// Unsteady returns such patterns, those first whose runs are furthest apart.
func (c *Collector) Unsteady() []Unsteady {
	list := []Unsteady{}
	alone := map[int][]float64{}
	for key, t := range c.times {
		if key.phase == result.IsolatedPhase && len(t.longest) >= fewestUnsteady {
			alone[key.pattern] = t.longest
		}
	}
	alpha := level / float64(max(1, len(alone)))
	for _, pattern := range slices.Sorted(maps.Keys(alone)) {
		u, found := halves(alone[pattern], alpha)
		if !found {
			u, found = groupsOf(alone[pattern])
		}
		if u.Pattern = pattern; found {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b Unsteady) int { return cmp.Compare(b.times(), a.times()) })
	return list
}

// far reports whether two times are further apart than what counts as little.
func far(a, b float64) bool {
	short, long := min(a, b), max(a, b)
	return long > max(Little*short, short+LittleNS)
}

// halves compares the runs of the first half with those of the second.
func halves(all []float64, alpha float64) (u Unsteady, found bool) {
	first, second := all[:len(all)/2], all[len(all)/2:]
	one, other := stats.Median(first), stats.Median(second)
	u = Unsteady{Runs: len(all), OneNS: int64(one), OtherNS: int64(other)}
	return u, far(one, other) && stats.MannWhitney(first, second).P <= alpha
}

// groupsOf looks for two groups with a gap between them that is wider than each of them.
func groupsOf(all []float64) (u Unsteady, found bool) {
	sorted := slices.Sorted(slices.Values(all))
	least := int(max(2, smallestGroup*float64(len(sorted))))
	for i := least; i <= len(sorted)-least; i++ {
		short, long := sorted[:i], sorted[i:]
		gap := long[0] - short[i-1]
		if far(short[i-1], long[0]) && gap > short[i-1]-short[0] && gap > long[len(long)-1]-long[0] {
			return Unsteady{0, true, len(all), int64(stats.Median(short)), int64(stats.Median(long))}, true
		}
	}
	return u, false
}
