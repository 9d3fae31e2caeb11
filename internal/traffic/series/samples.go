package series

import (
	"maps"
	"math"
	"math/bits"
	"slices"

	"perigee/internal/kit/stats"
)

// exactSamples is how many durations are kept as they are. Beyond that they are rounded down to twelve binary
// digits, by less than 0.05 %, so that a long run does not fill the memory.
const exactSamples = 1 << 17

// Samples are durations in nanoseconds.
type Samples struct {
	raw    []int64
	counts map[int64]int64 // those that are not in raw
	count  int64
	sum    float64
	min    int64
	max    int64
}

// Add adds a duration, which cannot be negative.
func (s *Samples) Add(ns int64) {
	ns = max(ns, 0)
	if s.count == 0 || ns < s.min {
		s.min = ns
	}
	s.max = max(s.max, ns)
	s.count++
	s.sum += float64(ns)
	if s.counts != nil {
		s.counts[coarse(ns)]++
		return
	}
	if s.raw = append(s.raw, ns); len(s.raw) > exactSamples {
		s.counts = map[int64]int64{}
		for _, v := range s.raw {
			s.counts[coarse(v)]++
		}
		s.raw = nil
	}
}

// coarse keeps twelve digits of a number.
func coarse(v int64) int64 {
	const digits = 12
	if n := bits.Len64(uint64(v)); n > digits {
		return v >> (n - digits) << (n - digits)
	}
	return v
}

// table is the samples as counts by value.
func (s *Samples) table() map[int64]int64 {
	if s.counts != nil {
		return s.counts
	}
	t := make(map[int64]int64, len(s.raw))
	for _, v := range s.raw {
		t[v]++
	}
	return t
}

// Merge adds all of o, which may be rounded.
func (s *Samples) Merge(o *Samples) {
	if o.count == 0 {
		return
	}
	if s.count == 0 || o.min < s.min {
		s.min = o.min
	}
	s.max = max(s.max, o.max)
	s.count += o.count
	s.sum += o.sum
	t := s.table()
	for v, n := range o.table() {
		t[v] += n
	}
	if len(t) > exactSamples {
		rounded := map[int64]int64{}
		for v, n := range t {
			rounded[coarse(v)] += n
		}
		t = rounded
	}
	s.counts, s.raw = t, nil
}

// Stats describe durations, in nanoseconds. Percentiles are quantiles as stats.Quantile defines
// them, rounded to whole nanoseconds.
type Stats struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ns"`
	Min   int64   `json:"min_ns"`
	P50   int64   `json:"p50_ns"`
	P99   int64   `json:"p99_ns"`
	P999  int64   `json:"p999_ns"`
	Max   int64   `json:"max_ns"`
}

// Stats computes them; all are 0 where there is no sample.
func (s *Samples) Stats() Stats {
	if s.count == 0 {
		return Stats{}
	}
	quantile := s.Quantiles()
	at := func(q float64) int64 { return int64(math.Round(quantile(q))) }
	return Stats{
		Count: s.count, Mean: s.sum / float64(s.count), Min: s.min, Max: s.max,
		P50: at(0.5), P99: at(0.99), P999: at(0.999),
	}
}

// Count is the number of samples.
func (s *Samples) Count() int64 { return s.count }

// Quantiles returns a function that computes quantiles (0 to 1) of the samples that are there now, in
// nanoseconds; NaN where there are none.
func (s *Samples) Quantiles() func(q float64) float64 {
	t := s.table()
	values := slices.Sorted(maps.Keys(t))
	counts := make([]int64, len(values))
	for i, v := range values {
		counts[i] = t[v]
	}
	return stats.Counted(values, counts, s.min, s.max)
}
