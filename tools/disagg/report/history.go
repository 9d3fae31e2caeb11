package report

import (
	"cmp"
	"math"
	"slices"

	"perigee/internal/kit/stats"
)

// Key names a figure.
type Key struct {
	Test        string `json:"test"` // function and id
	Concurrency int    `json:"concurrency"`
	Metric      string `json:"metric"`
}

// Series are the values of a figure, in the order of time.
type Series struct {
	Key
	Rows []Row
}

// Values returns the values alone.
func (s Series) Values() []float64 {
	list := make([]float64, len(s.Rows))
	for i, r := range s.Rows {
		list[i] = r.Value
	}
	return list
}

// Figure sums up a series.
type Figure struct {
	Key
	Runs   int       `json:"runs"`
	Median float64   `json:"median"`
	Low    *float64  `json:"low"` // interval of the median; null: too few runs
	High   *float64  `json:"high"`
	Values []float64 `json:"values"` // in the order of time
}

// Figures sums up series. Intervals hold with the probability 1-alpha.
func Figures(series []Series, alpha float64) []Figure {
	list := []Figure{}
	for _, s := range series {
		values := s.Values()
		f := Figure{Key: s.Key, Runs: len(values), Median: stats.Median(values), Values: values}
		if low, high, ok := MedianInterval(values, alpha); ok {
			f.Low, f.High = &low, &high
		}
		list = append(list, f)
	}
	return list
}

// Collect groups rows by figure, sorted by test, metric and concurrency.
func Collect(rows []Row) []Series {
	index := map[Key]int{}
	var list []Series
	for _, r := range rows {
		k := Key{r.Test, r.Concurrency, r.Metric}
		i, known := index[k]
		if !known {
			i = len(list)
			index[k] = i
			list = append(list, Series{Key: k})
		}
		list[i].Rows = append(list[i].Rows, r)
	}
	for _, s := range list {
		slices.SortStableFunc(s.Rows, func(a, b Row) int { return a.Start.Compare(b.Start) })
	}
	slices.SortFunc(list, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Test, b.Test), cmp.Compare(a.Metric, b.Metric),
			cmp.Compare(a.Concurrency, b.Concurrency))
	})
	return list
}

// MedianInterval returns the interval of the median at a level of confidence of at
// least 1-alpha: between two values of the sample, whatever their distribution
// (the sign test turned round; Hollander, Wolfe and Chicken, section 3.6). ok is
// false where the sample is too small: at alpha 0.05 it has to have 6 values.
func MedianInterval(values []float64, alpha float64) (low, high float64, ok bool) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	// k is the largest with P(Binomial(n, 1/2) < k) <= alpha/2.
	k, below := 0, 0.0
	for k < n {
		p := math.Exp(choose(n, k) - float64(n)*math.Ln2)
		if below+p > alpha/2 {
			break
		}
		below += p
		k++
	}
	if k == 0 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
}

// choose is the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return lg(n) - lg(k) - lg(n-k)
}

// The verdicts of a comparison.
const (
	Worse    = "worse"
	Better   = "better"
	Differs  = "differs" // and nothing says which values are good
	Same     = "not separated"
	TooFew   = "too few runs" // no difference could be told from chance
	OnlyHere = "only one side"
)

// Change is the comparison of a figure between two sides.
type Change struct {
	Key
	Old, New  int // runs
	OldMedian float64
	NewMedian float64
	Ratio     float64 // of the medians; NaN where it is not known
	Low, High float64 // interval of the ratio; NaN where there are too few runs
	P         float64 // adjusted for all figures (Westfall and Young); NaN: not tested
	Verdict   string
	Direction Direction
}

// Compare compares the figures of two sides at the level alpha, all together (stats.CompareRuns): the probability
// that any gets a verdict where nothing has changed is at most alpha, and a change of one figure among many can be
// found with as few runs as one that is alone. The k-th runs of all tests of a side count as one run. Which values of
// a metric are good declared says, else its name.
func Compare(old, fresh []Series, alpha float64, declared map[string]Direction) []Change {
	sides := [2]*side{newSide(old), newSide(fresh)}
	var changes []Change
	var rows []stats.Quantity
	var tested []int // the change of each row
	kinds := map[string]int{}
	for _, k := range keys(old, fresh) {
		c := compare(k, sides[0].of[k].Values(), sides[1].of[k].Values(), alpha)
		if c.Direction = declared[k.Metric]; c.Direction == Unknown {
			c.Direction = DirectionOf(k.Metric)
		}
		if c.Verdict == "" {
			if _, ok := kinds[k.Metric]; !ok {
				kinds[k.Metric] = len(kinds)
			}
			values := logs(slices.Concat(sides[0].values(k), sides[1].values(k)))
			rows = append(rows, stats.Quantity{Values: values, Kind: kinds[k.Metric]})
			tested = append(tested, len(changes))
		}
		changes = append(changes, c)
	}
	for i, o := range stats.CompareRuns(rows, sides[0].runs, alpha) {
		changes[tested[i]].judge(o, alpha)
	}
	return changes
}

// keys lists the figures of both sides, those of the old one in front.
func keys(old, fresh []Series) (list []Key) {
	known := map[Key]bool{}
	for _, s := range slices.Concat(old, fresh) {
		if !known[s.Key] {
			known[s.Key] = true
			list = append(list, s.Key)
		}
	}
	return list
}

// side is one side of a comparison.
type side struct {
	of   map[Key]Series
	at   map[string]map[int64]int // which run of its test started at that instant
	runs int                      // of the test with the most
}

func newSide(list []Series) *side {
	s := &side{of: map[Key]Series{}, at: map[string]map[int64]int{}}
	starts := map[string][]int64{}
	for _, x := range list {
		s.of[x.Key] = x
		s.runs = max(s.runs, len(x.Rows)) // runs may have started together
		for _, r := range x.Rows {
			starts[x.Test] = append(starts[x.Test], r.Start.Unix())
		}
	}
	for test, times := range starts {
		s.at[test] = map[int64]int{}
		slices.Sort(times)
		for _, t := range slices.Compact(times) {
			s.at[test][t] = len(s.at[test])
		}
		s.runs = max(s.runs, len(s.at[test]))
	}
	return s
}

// values are those of a figure by run, NaN where it has none.
func (s *side) values(k Key) []float64 {
	values := slices.Repeat([]float64{math.NaN()}, s.runs)
	rest := s.of[k].Rows[:0:0]
	for _, r := range s.of[k].Rows {
		if at := s.at[k.Test][r.Start.Unix()]; math.IsNaN(values[at]) {
			values[at] = r.Value
		} else {
			rest = append(rest, r)
		}
	}
	for at := range values { // those that started together with another run of the test
		if len(rest) > 0 && math.IsNaN(values[at]) {
			values[at], rest = rest[0].Value, rest[1:]
		}
	}
	return values
}

// logs are the logarithms of values, or the values themselves if one has none.
func logs(values []float64) []float64 {
	if slices.ContainsFunc(values, func(v float64) bool { return v <= 0 }) {
		return values
	}
	list := make([]float64, len(values))
	for i, v := range values {
		list[i] = math.Log(v)
	}
	return list
}

// compare finds what follows from a figure alone.
func compare(k Key, x, y []float64, alpha float64) Change {
	c := Change{Key: k, Old: len(x), New: len(y), OldMedian: stats.Median(x), NewMedian: stats.Median(y),
		Ratio: math.NaN(), Low: math.NaN(), High: math.NaN(), P: math.NaN()}
	if len(x) == 0 || len(y) == 0 {
		c.Verdict = OnlyHere
		return c
	}
	if c.OldMedian != 0 {
		c.Ratio = c.NewMedian / c.OldMedian
	}
	if stats.SmallestP(len(x), len(y)) > alpha {
		c.Verdict = TooFew
		return c
	}
	if r, ok := stats.RatioOf(x, y, alpha); ok {
		c.Low, c.High = r.Low, r.High
	}
	return c
}

// judge gives a tested change its verdict.
func (c *Change) judge(o stats.Outcome, alpha float64) {
	c.P = o.Adjusted
	moved := c.NewMedian - c.OldMedian
	switch {
	case !(c.P <= alpha) || moved*o.Difference <= 0: // or the medians have not moved as the means have
		c.Verdict = Same
	case c.Direction == Unknown:
		c.Verdict = Differs
	case (moved > 0) == (c.Direction == Lower):
		c.Verdict = Worse
	default:
		c.Verdict = Better
	}
}
