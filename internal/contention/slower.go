package contention

import (
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

// Slower returns those of the patterns that took longer in the workload than alone: by the medians of their
// latencies more than Little times as long and LittleNS longer, and beyond chance, corrected for their number (Mann
// and Whitney; Bonferroni), and not only since their initiators started further apart: so did their messages, by
// the geometric mean of their slowdowns. open reports that one took so much longer and has too few runs to find out
// whether that is chance.
//
// It is of use where no message overlapped: then something slows them down that is not of this result, or is behind
// its hosts.
func (c *Collector) Slower(patterns []result.Latencies) (slower []int, open bool) {
	messages := make([]Slowdowns, len(patterns))
	c.Slowdowns(func(pattern, _, _ int, s Slowdowns) { messages[pattern].Add(s) })
	both := 0
	for _, l := range patterns {
		if len(l.Alone) > 0 && len(l.Workload) > 0 {
			both++
		}
	}
	alpha := level / float64(both)
	for i, l := range patterns {
		if !(min(l.Slowdown(), messages[i].Mean()) > Little) || l.Latency()-l.Isolated() < LittleNS {
			continue
		}
		open = open || stats.SmallestP(len(l.Alone), len(l.Workload)) > alpha
		if stats.MannWhitney(l.Alone, l.Workload).P <= alpha {
			slower = append(slower, i)
		}
	}
	return slower, open
}
