package result

import (
	"fmt"
	"slices"
)

// Skew sums up how far apart initiators were when they left the barriers before
// runs. All times are nanoseconds.
type Skew struct {
	Barriers      int
	Median, Worst int64
	Uncertainty   int64 // the largest of a run; 0 within a host
}

// BarrierSkew sums up the measurements from one on. Runs without a barrier before
// them do not count.
func (d *Document) BarrierSkew(from int) Skew {
	var s Skew
	var all []int64
	for _, m := range d.Measurements[min(from, len(d.Measurements)):] {
		if m.BarrierExitSkewNS != nil {
			all = append(all, *m.BarrierExitSkewNS)
			s.Uncertainty = max(s.Uncertainty, m.UncertaintyNS)
		}
	}
	if len(all) == 0 {
		return s
	}
	slices.Sort(all)
	n := len(all)
	s.Barriers, s.Median, s.Worst = n, (all[(n-1)/2]+all[n/2])/2, all[n-1]
	return s
}

// String is a line for people.
func (s Skew) String() string {
	text := fmt.Sprintf("barrier exit skew: median %.1f us, worst %.1f us over %d", float64(s.Median)/1e3,
		float64(s.Worst)/1e3, s.Barriers)
	if s.Uncertainty > 0 {
		text += fmt.Sprintf(", uncertainty of the clocks %.1f us", float64(s.Uncertainty)/1e3)
	}
	return text
}
