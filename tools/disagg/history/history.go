// Package history holds the figures of many runs of the same cases: what a figure
// comes to, how noisy it is, and whether two runs can be told apart.
package history

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"perigee/internal/stats"
	"perigee/tools/disagg/record"
)

// Key names a figure.
type Key struct {
	Test        string // function and id
	Concurrency int
	Metric      string
}

// Series are the values of a figure, in the order of time.
type Series struct {
	Key
	Rows []record.Row
}

// Values returns the values alone.
func (s Series) Values() []float64 {
	list := make([]float64, len(s.Rows))
	for i, r := range s.Rows {
		list[i] = r.Value
	}
	return list
}

// Collect groups rows by figure, sorted by test, metric and concurrency.
func Collect(rows []record.Row) []Series {
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
		slices.SortStableFunc(s.Rows, func(a, b record.Row) int { return a.Start.Compare(b.Start) })
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
	Same     = "not separated"
	TooFew   = "too few runs" // no difference could be told from chance
	OnlyHere = "only one side"
)

// Change is the comparison of a figure between two sides.
type Change struct {
	Key
	Old, New   int // runs
	OldMedian  float64
	NewMedian  float64
	Ratio      float64 // of the medians; NaN where it is not known
	Low, High  float64 // interval of the ratio; NaN where there are too few runs
	P          float64 // adjusted for all figures (Benjamini and Hochberg); NaN: not tested
	Verdict    string
	LowerIsBad bool
}

// rate matches the names of metrics of which high values are good.
var rate = regexp.MustCompile(`(?i)throughput|tok_?s|req_?s|per_sec|goodput|accuracy`)

// Compare compares the figures of two sides at the level alpha. Low values are
// good, since figures are times, unless the metric's name says that it is a rate.
func Compare(old, fresh []Series, alpha float64) []Change {
	find := func(list []Series, k Key) Series {
		if i := slices.IndexFunc(list, func(s Series) bool { return s.Key == k }); i >= 0 {
			return list[i]
		}
		return Series{}
	}
	var changes []Change
	for _, s := range old {
		changes = append(changes, compare(s.Key, s.Values(), find(fresh, s.Key).Values(), alpha))
	}
	for _, s := range fresh {
		if find(old, s.Key).Rows == nil {
			changes = append(changes, compare(s.Key, nil, s.Values(), alpha))
		}
	}
	p := make([]float64, len(changes))
	for i, c := range changes {
		p[i] = c.P
	}
	for i, adjusted := range stats.AdjustBH(p) {
		changes[i].P = adjusted
		changes[i].judge(alpha)
	}
	return changes
}

func compare(k Key, x, y []float64, alpha float64) Change {
	c := Change{Key: k, Old: len(x), New: len(y), OldMedian: stats.Median(x), NewMedian: stats.Median(y),
		Ratio: math.NaN(), Low: math.NaN(), High: math.NaN(), P: math.NaN(), LowerIsBad: rate.MatchString(k.Metric)}
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
	c.P = stats.MannWhitney(x, y).P
	if r, ok := stats.RatioOf(x, y, alpha); ok {
		c.Low, c.High = r.Low, r.High
	}
	return c
}

// judge gives a tested change its verdict.
func (c *Change) judge(alpha float64) {
	switch {
	case c.Verdict != "":
	case !(c.P <= alpha):
		c.Verdict = Same
	case (c.NewMedian > c.OldMedian) != c.LowerIsBad:
		c.Verdict = Worse
	default:
		c.Verdict = Better
	}
}

// Spread writes a median with its interval.
func Spread(values []float64, alpha float64) string {
	m := stats.Median(values)
	if low, high, ok := MedianInterval(values, alpha); ok {
		return fmt.Sprintf("%.2f [%.2f, %.2f]", m, low, high)
	}
	return fmt.Sprintf("%.2f", m)
}
