package result

import (
	"fmt"
	"math"
	"slices"

	"perigee/internal/kit/stats"
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

// Starts sums up how far apart initiators started that had agreed on an instant. Times are nanoseconds.
type Starts struct {
	Runs               int
	Median, P99, Worst int64
	Uncertainty        int64 // the largest of a run; 0 within a host
	Late               int   // starts of ranks that were ready only after the instant
	Of                 int   // starts
	Latest             int64 // the most by which one was late
}

// StartsByClock sums up the measurements from one on. Runs without an instant agreed on do not count.
func (d *Document) StartsByClock(from int) Starts {
	var s Starts
	var all []float64
	for _, m := range d.Measurements[min(from, len(d.Measurements)):] {
		if m.AgreedNS == nil || m.StartSkewNS == nil {
			continue
		}
		all = append(all, float64(*m.StartSkewNS))
		s.Uncertainty = max(s.Uncertainty, m.UncertaintyNS)
		s.Late, s.Of = s.Late+m.Late(), s.Of+len(m.Ranks)
		for _, r := range m.Ranks {
			s.Latest = max(s.Latest, r.LateNS)
		}
	}
	if s.Runs = len(all); s.Runs == 0 {
		return s
	}
	slices.Sort(all)
	at := func(q float64) int64 { return int64(math.Round(stats.Quantile(all, q))) }
	s.Median, s.P99, s.Worst = at(0.5), at(0.99), at(1)
	return s
}

// String is a line for people.
func (s Starts) String() string {
	text := fmt.Sprintf("start skew by the clock: median %.1f us, p99 %.1f us, worst %.1f us over %d", float64(s.Median)/1e3,
		float64(s.P99)/1e3, float64(s.Worst)/1e3, s.Runs)
	if s.Uncertainty > 0 {
		text += fmt.Sprintf(", uncertainty of the clocks %.1f us", float64(s.Uncertainty)/1e3)
	}
	if s.Late == 0 {
		return text + "; no start was late"
	}
	return text + fmt.Sprintf("; %d of %d starts were late, by up to %.1f us", s.Late, s.Of, float64(s.Latest)/1e3)
}
