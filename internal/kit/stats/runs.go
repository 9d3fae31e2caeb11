package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Quantity is one quantity that every run of two sides has measured once.
type Quantity struct {
	// Values holds one value per run, those of the first side in front; NaN where a run has none.
	Values []float64
	// Kind groups rows whose spread between runs is similar. Rows of one kind lend each other their variances.
	Kind int
}

// Outcome holds the findings of [CompareRuns] about a row. Every field is NaN where there is too little to compute it.
type Outcome struct {
	// Difference is the mean of the second side minus that of the first. Low to High is Student's confidence
	// interval of it, from this row alone.
	Difference, Low, High float64
	// T is the moderated t statistic: Difference over its standard error, with a variance that lies between that
	// of the row and that of all rows of its kind.
	T float64
	// P is the share of the divisions of the runs into two sides in which |T| is at least as large as it is.
	P float64
	// Adjusted is P after the correction for all rows: the step-down procedure of Westfall and Young on max |T|.
	Adjusted float64
}

const (
	// mostSplits bounds the divisions that are gone through one by one; beyond it they are drawn at random.
	mostSplits = 20_000
	// splitWork bounds the values that are added up for all divisions, fewestSplits what it may lead to.
	splitWork, fewestSplits = 400_000_000, 499
)

// CompareRuns compares two sides of runs, of which the first has n. Runs, not their samples, must be independent; rows
// may depend on each other in any way, as they do where a whole run was slow.
//
// If the two sides do not differ, any division of the runs into sides of the same sizes is equally probable, so the
// probability that any Adjusted is at most alpha is itself at most alpha, whatever the distribution of the values and
// however many rows there are (Westfall and Young 1993, algorithm 4.1). With equal sides of 4 runs there are 35
// divisions: 0.029 is the least P, and also the least Adjusted, for one row and for a thousand.
//
// The statistic is Student's t with the variance moderated as by Smyth (2004): the variances of the rows of one kind
// follow a scaled F distribution, whose scale and degrees of freedom come from their logarithms. It only orders the
// divisions; the level of the test does not depend on that model.
func CompareRuns(rows []Quantity, n int, alpha float64) []Outcome {
	out := make([]Outcome, len(rows))
	s := newSplitter(rows, n)
	for i, r := range rows {
		out[i] = interval(r.Values, n, alpha)
	}
	if s == nil {
		return out
	}
	observed := s.statistics(s.identity(), nil)
	order := make([]int, 0, len(rows)) // of the rows with a statistic, by |T|, downwards
	for i, t := range observed {
		if !math.IsNaN(t) {
			out[i].T = t
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(math.Abs(observed[b]),
			math.Abs(observed[a]))
	})
	own, most := make([]int, len(rows)), make([]int, len(rows))
	all := 0
	var t []float64
	s.each(func(split []bool) {
		all++
		t = s.statistics(split, t)
		var largest float64
		for k := len(order) - 1; k >= 0; k-- {
			i := order[k]
			limit := math.Abs(observed[i]) * (1 - 1e-9) // equal divisions differ in the last bits
			v := math.Abs(t[i])
			largest = max(largest, v)
			if v >= limit {
				own[i]++
			}
			if largest >= limit {
				most[i]++
			}
		}
	})
	var before float64
	for _, i := range order {
		out[i].P = float64(own[i]) / float64(all)
		before = max(before, float64(most[i])/float64(all))
		out[i].Adjusted = before
	}
	return out
}

// interval is Student's two-sample interval of a row.
func interval(values []float64, n int, alpha float64) Outcome {
	nan := math.NaN()
	o := Outcome{nan, nan, nan, nan, nan, nan}
	x, y := present(values[:n]), present(values[n:])
	if len(x) == 0 || len(y) == 0 {
		return o
	}
	o.Difference = Mean(y) - Mean(x)
	df := float64(len(x) + len(y) - 2)
	if df < 1 {
		return o
	}
	var sum float64
	for _, side := range [][]float64{x, y} {
		if len(side) > 1 {
			s := StdDev(side)
			sum += s * s * float64(len(side)-1)
		}
	}
	half := StudentQuantile(1-alpha/2, df) * math.Sqrt(sum/df*(1/float64(len(x))+1/float64(len(y))))
	o.Low, o.High = o.Difference-half, o.Difference+half
	return o
}

func present(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// StudentQuantile is the quantile, above the median, of Student's t distribution.
func StudentQuantile(q, df float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 2*(1-q))
	return math.Sqrt(df * (1 - x) / x)
}

// splitter computes the statistics of all rows for divisions of the runs.
type splitter struct {
	rows   []centred
	kinds  [][]int // the rows of each kind
	n, all int     // runs of the first side, and of both
	// variances and the prior of the division at hand
	variance, diff, factor []float64
}

// centred is a row around its mean, so that sums of squares lose no digits.
type centred struct {
	values   []float64
	sum      float64 // of the squares
	complete bool
	usable   bool // both sides have values, one of them several
}

// newSplitter centres all rows once, since each of the many divisions needs only sums. It returns nil where no test is
// possible: no row, an empty side, or fewer than three runs.
func newSplitter(rows []Quantity, n int) *splitter {
	if len(rows) == 0 || n < 1 || len(rows[0].Values)-n < 1 || len(rows[0].Values) < 3 {
		return nil
	}
	s := &splitter{n: n, all: len(rows[0].Values), rows: make([]centred, len(rows))}
	kinds := map[int]int{}
	for i, r := range rows {
		s.rows[i] = centre(r.Values, n)
		k, ok := kinds[r.Kind]
		if !ok {
			k = len(s.kinds)
			kinds[r.Kind] = k
			s.kinds = append(s.kinds, nil)
		}
		s.kinds[k] = append(s.kinds[k], i)
	}
	s.variance, s.diff, s.factor = make([]float64, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	return s
}

// centre subtracts the mean, which no difference of sides depends on, and so keeps the sums of squares exact. Missing
// values stay missing.
func centre(values []float64, n int) centred {
	c := centred{values: slices.Clone(values)}
	there := present(values)
	c.complete = len(there) == len(values)
	mean := Mean(there)
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		c.values[i] = v - mean
		c.sum += c.values[i] * c.values[i]
	}
	first, second := len(present(values[:n])), len(present(values[n:]))
	c.usable = first > 0 && second > 0 && first+second > 2
	return c
}

// identity is the division as it was measured.
func (s *splitter) identity() []bool {
	split := make([]bool, s.all)
	for i := range s.n {
		split[i] = true
	}
	return split
}

// each yields every division, or that many drawn at random after the one that was measured. split is valid during the
// call.
func (s *splitter) each(yield func(split []bool)) {
	most := min(mostSplits, max(fewestSplits, splitWork/(len(s.rows)*s.all)))
	if choose(s.all, s.n) <= float64(most) {
		s.every(yield)
		return
	}
	split := s.identity()
	yield(split)
	rng := rand.New(rand.NewPCG(1, 2)) // the same results give the same comparison
	for range most {
		rng.Shuffle(len(split), func(i, j int) { split[i], split[j] = split[j], split[i] })
		yield(split)
	}
}

// every yields all divisions. Of two that are mirror images of each other, which equal sides have, it yields one.
func (s *splitter) every(yield func(split []bool)) {
	split := make([]bool, s.all)
	var place func(from, left int)
	place = func(from, left int) {
		if left == 0 {
			yield(split)
			return
		}
		for i := from; i <= s.all-left; i++ {
			split[i] = true
			place(i+1, left-1)
			split[i] = false
		}
	}
	if 2*s.n == s.all {
		split[0] = true
		place(1, s.n-1)
		return
	}
	place(0, s.n)
}

func choose(n, k int) float64 {
	c := 1.0
	for i := 1; i <= k; i++ {
		c *= float64(n-k+i) / float64(i)
	}
	return c
}

// statistics returns the moderated t of every row for a division; NaN for rows that have none.
func (s *splitter) statistics(split []bool, t []float64) []float64 {
	t = slices.Grow(t[:0], len(s.rows))[:len(s.rows)]
	for i := range s.rows {
		s.sums(i, split)
	}
	for _, kind := range s.kinds {
		df, scale := s.prior(kind)
		for _, i := range kind {
			t[i] = s.moderated(i, df, scale)
		}
	}
	return t
}

// sums finds the difference of the means of a row and its variance within the sides.
func (s *splitter) sums(i int, split []bool) {
	r := &s.rows[i]
	var first, second, n, m float64
	for k, v := range r.values {
		switch {
		case math.IsNaN(v):
		case split[k]:
			first, n = first+v, n+1
		default:
			second, m = second+v, m+1
		}
	}
	s.diff[i], s.variance[i], s.factor[i] = 0, math.NaN(), 0
	if !r.usable || n == 0 || m == 0 {
		return
	}
	s.diff[i] = second/m - first/n
	s.variance[i] = max(0, r.sum-first*first/n-second*second/m) / (n + m - 2)
	s.factor[i] = 1/n + 1/m
}

// prior estimates the degrees of freedom and the scale of the distribution from which the variances of a kind come
// (Smyth 2004, section 6.2): by the mean and the variance of their logarithms. No degrees of freedom: there is none.
func (s *splitter) prior(kind []int) (df, scale float64) {
	if len(kind) < 2 {
		return 0, 0
	}
	own := float64(s.all - 2)
	var positive []float64
	for _, i := range kind {
		if s.rows[i].complete && s.variance[i] > 0 {
			positive = append(positive, s.variance[i])
		}
	}
	if len(positive) < 2 {
		return 0, 0
	}
	logs := positive
	for i, v := range logs {
		logs[i] = math.Log(v) - mathext.Digamma(own/2) + math.Log(own/2)
	}
	mean, spread := Mean(logs), StdDev(logs)
	excess := spread*spread - trigamma(own/2)
	if excess <= 0 {
		return math.Inf(1), math.Exp(mean)
	}
	half := inverseTrigamma(excess)
	return 2 * half, math.Exp(mean + mathext.Digamma(half) - math.Log(half))
}

// moderated is the t statistic whose variance is pulled towards that of all rows of its kind (Smyth, 2004): df and
// scale are the prior's, and df of infinity means that all rows share one variance.
func (s *splitter) moderated(i int, df, scale float64) float64 {
	if !s.rows[i].usable {
		return math.NaN()
	}
	v := s.variance[i]
	switch {
	case math.IsNaN(v) || s.diff[i] == 0:
		return 0 // a division that leaves a side without a value says nothing
	case math.IsInf(df, 1):
		v = scale
	case df > 0:
		own := float64(s.all - 2)
		v = (df*scale + own*v) / (df + own)
	}
	return s.diff[i] / math.Sqrt(v*s.factor[i])
}

func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// inverseTrigamma returns x with trigamma(x) = y > 0, by Newton's method on 1/trigamma, which is almost straight.
func inverseTrigamma(y float64) float64 {
	switch {
	case y > 1e7:
		return 1 / math.Sqrt(y)
	case y < 1e-6:
		return 1 / y
	}
	x := 0.5 + 1/y
	for range 50 {
		tri := trigamma(x)
		step := tri * (1 - tri/y) / (-2 * mathext.Zeta(3, x))
		x += step
		if -step/x < 1e-8 {
			break
		}
	}
	return x
}

const (
	// driftLevel is the level at which a trend within the sides counts.
	driftLevel = 0.1
	// driftReach is how far apart the sides may be, in lengths of the longer one, for a trend within them to say
	// anything about the time between them.
	driftReach = 5
)

// Drift reports whether a trend in time may explain the difference of two sides, of which the first has n values;
// times is when each was measured. It can only where all of one side came before all of the other: then a machine
// that gets slower all the time makes the later side slower; and only where not much more time lies between the sides
// than within them, since a trend of minutes does not go on for a day. explains is true if the values within the
// sides follow a line in time (at the level 0.1), and the sides no longer differ at the level 0.05 once the line is
// subtracted (analysis of covariance). change is the slope times the time from the first to the last value.
//
// common are values that drift as these do, the means of many rows for instance; nil for none. Their line, which
// scatters less, is tried, too.
func Drift(values, common, times []float64, n int) (change float64, explains bool) {
	if apart(times, n, len(values)) {
		return 0, false
	}
	own := lineOf(values, times, n)
	for _, l := range []line{own, lineOf(common, times, n)} {
		if change, explains = own.leaves(l, times); explains {
			return change, true
		}
	}
	return change, false
}

// apart reports whether a trend within the sides says nothing of their difference.
func apart(times []float64, n, values int) bool {
	x, y := times[:n], times[n:]
	if values < 4 || len(x) == 0 || len(y) == 0 || slices.Max(x) >= slices.Min(y) && slices.Max(y) >= slices.Min(x) {
		return true
	}
	length := func(t []float64) float64 { return slices.Max(t) - slices.Min(t) }
	return length(times)-length(x)-length(y) > driftReach*max(length(x), length(y))
}

// line fits values within two sides: the same slope on both.
type line struct {
	df, tt, tv, vv       float64 // sums of squares and products of times and values around the means of the sides
	distance, difference float64 // of the means of both sides, in time and in value
	each                 float64 // 1/n + 1/m
}

// lineOf sums up, within each side, what the common slope in time and its error follow from; the sides may differ in
// height.
func lineOf(values, times []float64, n int) (l line) {
	if values == nil {
		return line{}
	}
	l.df, l.each = float64(len(values)-3), 1/float64(n)+1/float64(len(values)-n)
	for _, side := range [][2]int{{0, n}, {n, len(values)}} {
		t, v := times[side[0]:side[1]], values[side[0]:side[1]]
		meanT, meanV := Mean(t), Mean(v)
		for i := range t {
			l.tt += (t[i] - meanT) * (t[i] - meanT)
			l.tv += (t[i] - meanT) * (v[i] - meanV)
			l.vv += (v[i] - meanV) * (v[i] - meanV)
		}
		l.distance, l.difference = meanT-l.distance, meanV-l.difference // the second's minus the first's, in the end
	}
	return l
}

// variance is that of the values around the line with a slope.
func (l line) variance(slope float64) float64 {
	return max(0, l.vv-2*slope*l.tv+slope*slope*l.tt) / l.df
}

// leaves reports whether the sides no longer differ once the slope of another line, if it has one, is subtracted.
func (l line) leaves(other line, times []float64) (change float64, explains bool) {
	if !(other.tt > 0) || !(l.tt > 0) { // also where a value is missing
		return 0, false
	}
	slope := other.tv / other.tt
	around := other.variance(slope)
	if math.IsNaN(around) || math.Abs(slope) <= StudentQuantile(1-driftLevel/2, other.df)*math.Sqrt(around/other.tt) {
		return 0, false
	}
	rest := l.difference - slope*l.distance
	spread := math.Sqrt(l.variance(slope)*l.each + around*l.distance*l.distance/other.tt)
	change = slope * (slices.Max(times) - slices.Min(times))
	return change, math.Abs(rest) <= StudentQuantile(0.975, l.df)*spread || rest*l.difference < 0
}
