package result

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"perigee/internal/kit/stats"
	"perigee/internal/traffic/series"
)

// Totals are all runs of a pattern in a phase, where a job of given duration has more of them than its result keeps:
// its measurements are then some, evenly over the time. What is said of all runs comes from here. A result of which
// every run is kept has none.
type Totals struct {
	Pattern int    `json:"pattern"` // index into Patterns
	Phase   string `json:"phase"`
	Runs    int    `json:"runs"`
	Kept    int    `json:"kept"`     // of these, among the measurements
	StartNS int64  `json:"start_ns"` // of the earliest
	EndNS   int64  `json:"end_ns"`   // of the latest
	// TotalNS is from the first start to the last end, without what lies between stretches of runs, as for the metric
	// total_time_s. PerRunNS is Row.PerRunNS, absent where that is NaN.
	TotalNS  int64    `json:"total_ns"`
	PerRunNS *float64 `json:"per_run_ns,omitempty"`
	// Latencies are those of the runs, Messages the times of their messages from the start of the initiator.
	Latencies Spread      `json:"latencies"`
	Messages  Spread      `json:"messages"`
	Ranks     []RankTotal `json:"ranks,omitempty"` // of the initiators, in the order of a run

	row     RunSeries
	stretch struct{ start, end int64 } // the one at hand
	begun   bool
}

// RankTotal is what an initiator has done in all runs.
type RankTotal struct {
	Rank  int   `json:"rank"`
	NS    int64 `json:"ns"` // from its own starts to its own ends
	Bytes int64 `json:"bytes"`
}

// Add takes in the next run, with the files beside it. Settle comes before the totals are read.
func (t *Totals) Add(m *Measurement, beside []series.StorageRun) {
	t.lasts(m.StartNS, m.EndNS)
	t.Runs++
	t.row.Add(m)
	t.span(m, beside)
	t.Latencies.Add(m.LatencyNS)
	for i := range m.Ranks {
		k := &m.Ranks[i]
		if i == len(t.Ranks) {
			t.Ranks = append(t.Ranks, RankTotal{Rank: k.Rank})
		}
		t.Ranks[i].NS, t.Ranks[i].Bytes = t.Ranks[i].NS+k.DurationNS(), t.Ranks[i].Bytes+k.Bytes
		for _, p := range k.Peers {
			t.Messages.Add(p.EndNS - k.StartNS)
		}
	}
}

// lasts widens the time of all runs by that of more, which do not count yet.
func (t *Totals) lasts(start, end int64) {
	if t.Runs == 0 {
		t.StartNS, t.EndNS = start, end
	}
	t.StartNS, t.EndNS = min(t.StartNS, start), max(t.EndNS, end)
}

// Settle brings PerRunNS up to date.
func (t *Totals) Settle() { t.PerRunNS = known(t.row.PerRunNS()) }

// PerRun is PerRunNS, or NaN.
func (t *Totals) PerRun() float64 {
	if t.PerRunNS == nil {
		return math.NaN()
	}
	return *t.PerRunNS
}

// span extends the stretch at hand by a run, or begins one.
func (t *Totals) span(m *Measurement, beside []series.StorageRun) {
	if s := &t.stretch; m.Filled || !t.begun {
		t.begun = true
		s.start, s.end = m.StartNS, m.StartNS
	}
	s := &t.stretch
	before := s.end - s.start
	s.start, s.end = min(s.start, m.StartNS), max(s.end, m.EndNS)
	for _, f := range beside {
		s.start, s.end = min(s.start, f.StartNS), max(s.end, f.EndNS)
	}
	t.TotalNS += s.end - s.start - before
}

// check makes sure that readers can follow it.
func (t *Totals) check(patterns int) error {
	switch {
	case t.Pattern < 0 || t.Pattern >= patterns:
		return fmt.Errorf("there is no pattern %d", t.Pattern)
	case t.Kept < 0 || t.Runs < t.Kept:
		return fmt.Errorf("%d of %d runs are kept", t.Kept, t.Runs)
	}
	for _, s := range []Spread{t.Latencies, t.Messages} {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// AddTotals puts runs of another result of the same pattern and phase to these. Totals without runs become a copy.
func (t *Totals) AddTotals(o *Totals) {
	t.lasts(o.StartNS, o.EndNS)
	if t.Runs == 0 {
		t.Pattern, t.Phase = o.Pattern, o.Phase
		t.PerRunNS = o.PerRunNS
		t.Ranks = slices.Clone(o.Ranks)
	} else {
		for i := range min(len(t.Ranks), len(o.Ranks)) {
			t.Ranks[i].NS, t.Ranks[i].Bytes = t.Ranks[i].NS+o.Ranks[i].NS, t.Ranks[i].Bytes+o.Ranks[i].Bytes
		}
		t.PerRunNS = meanOf(t.PerRunNS, t.Runs, o.PerRunNS, o.Runs)
	}
	t.Runs, t.Kept, t.TotalNS = t.Runs+o.Runs, t.Kept+o.Kept, t.TotalNS+o.TotalNS
	t.Latencies.Merge(o.Latencies)
	t.Messages.Merge(o.Messages)
}

// meanOf is the mean of two times per run; nil unless both are known.
func meanOf(a *float64, n int, b *float64, m int) *float64 {
	if a == nil || b == nil {
		return nil
	}
	per := (*a*float64(n) + *b*float64(m)) / float64(n+m)
	return &per
}

// TotalsOf are those of a pattern in a phase; nil where all runs are kept.
func (d *Document) TotalsOf(pattern int, phase string) *Totals {
	for _, t := range d.Totals {
		if t.Pattern == pattern && t.Phase == phase {
			return t
		}
	}
	return nil
}

// AllTotals are those of all patterns and phases, whether all runs are kept or not.
func (d *Document) AllTotals() []*Totals {
	if len(d.Totals) > 0 {
		return d.Totals
	}
	all := &Document{}
	for i := range d.Measurements {
		m := &d.Measurements[i]
		t := all.TotalsOf(m.Pattern, m.Phase)
		if t == nil {
			t = &Totals{Pattern: m.Pattern, Phase: m.Phase}
			all.Totals = append(all.Totals, t)
		}
		t.Add(m, nil)
		t.Kept++
	}
	for _, t := range all.Totals {
		t.Settle()
	}
	return all.Totals
}

// workloadTotals are those of a pattern in all phases but that of the runs alone; nil where all runs are kept.
func (d *Document) workloadTotals(pattern int) *Totals {
	var sum *Totals
	for _, t := range d.Totals {
		if t.Pattern == pattern && t.Phase != IsolatedPhase {
			if sum == nil {
				sum = &Totals{}
			}
			sum.AddTotals(t)
		}
	}
	return sum
}

// KeptText says which part of the runs is kept; empty where all are.
func (d *Document) KeptText() string {
	kept, runs := 0, 0
	for _, t := range d.Totals {
		kept, runs = kept+t.Kept, runs+t.Runs
	}
	if kept == runs {
		return ""
	}
	return fmt.Sprintf("%d of %d runs are kept one by one, evenly over the time; counts, totals and the percentiles of latencies "+
		"are those of all", kept, runs)
}

// Spread is a distribution of times in nanoseconds, whose size does not grow with their number: they are counted by
// their first eight binary digits, so that a quantile is off by a part in 250 at most.
type Spread struct {
	Sum    float64    `json:"sum_ns"`
	Min    int64      `json:"min_ns"`
	Max    int64      `json:"max_ns"`
	Counts [][2]int64 `json:"counts"` // how many are about so long: time and number, ascending
}

// middle is the time that stands for those with the same first digits.
func middle(ns int64) int64 {
	const digits = 8
	n := bits.Len64(uint64(ns)) - digits
	if n <= 0 {
		return ns
	}
	return ns>>n<<n + 1<<(n-1)
}

// Add counts a time, which cannot be negative.
func (s *Spread) Add(ns int64) { s.add(max(ns, 0), max(ns, 0), max(ns, 0), 1) }

// add counts n times about as long as one, between least and most.
func (s *Spread) add(ns, least, most, n int64) {
	if len(s.Counts) == 0 {
		s.Min = least
	}
	s.Sum += float64(ns) * float64(n)
	s.Min, s.Max = min(s.Min, least), max(s.Max, most)
	about := middle(ns)
	i, found := slices.BinarySearchFunc(s.Counts, about, func(c [2]int64, v int64) int { return cmp.Compare(c[0], v) })
	if !found {
		s.Counts = slices.Insert(s.Counts, i, [2]int64{about, 0})
	}
	s.Counts[i][1] += n
}

// Merge adds all of o.
func (s *Spread) Merge(o Spread) {
	sum := s.Sum + o.Sum
	s.Counts = slices.Clone(s.Counts)
	for _, c := range o.Counts {
		s.add(c[0], o.Min, o.Max, c[1])
	}
	s.Sum = sum
}

// Count is how many there are.
func (s *Spread) Count() (n int64) {
	for _, c := range s.Counts {
		n += c[1]
	}
	return n
}

// Mean of them; NaN of none.
func (s *Spread) Mean() float64 { return s.Sum / float64(s.Count()) }

// StdDev is that of a sample, as stats.StdDev computes it from times that stand for those about as long; NaN of fewer
// than two.
func (s *Spread) StdDev() float64 {
	n, mean, squares := float64(s.Count()), s.Mean(), 0.0
	for _, c := range s.Counts {
		off := float64(c[0]) - mean
		squares += float64(c[1]) * off * off
	}
	if n < 2 {
		return math.NaN()
	}
	return math.Sqrt(squares / (n - 1))
}

// Quantile is one of them, as stats.Quantile defines it; NaN of none.
func (s *Spread) Quantile(q float64) float64 { return s.Quantiles()(q) }

// Quantiles returns a function that computes quantiles of those that are there now.
func (s *Spread) Quantiles() func(q float64) float64 {
	values, counts := make([]int64, len(s.Counts)), make([]int64, len(s.Counts))
	for i, c := range s.Counts {
		values[i], counts[i] = c[0], c[1]
	}
	return stats.Counted(values, counts, s.Min, s.Max)
}

// check makes sure that the counts are in order.
func (s *Spread) check() error {
	for i, c := range s.Counts {
		if c[1] < 1 || c[0] < 0 || i > 0 && c[0] <= s.Counts[i-1][0] {
			return fmt.Errorf("counts[%d]: %v does not stand in order", i, c)
		}
	}
	return nil
}
