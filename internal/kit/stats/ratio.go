package stats

import (
	"math"
	"slices"
	"sort"
)

// Ratio is the confidence interval of how many times larger values of one sample are than those of
// another; NaN where there are too few samples for one.
type Ratio struct {
	Low, High float64
}

// RatioOf compares all values of y with all of x, which must be positive. The
// interval holds those ratios r for which a Mann-Whitney test at the level alpha would not distinguish y
// from r*x, so it holds 1 just when the test finds nothing, up to ties; if y is
// distributed as r*x, it holds r with the probability 1-alpha at least. It assumes no
// shape of the distribution. (Hodges and Lehmann 1963 and Moses 1965, on the
// logarithms; Hollander, Wolfe and Chicken, section 4.3.) ok is false where a value is
// not positive or a sample empty.
func RatioOf(x, y []float64, alpha float64) (r Ratio, ok bool) {
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	n, m := len(x), len(y)
	if n == 0 || m == 0 || !(x[0] > 0) || !(y[0] > 0) || math.IsInf(x[n-1], 0) || math.IsInf(y[m-1], 0) {
		return Ratio{}, false
	}
	r.Low, r.High = math.NaN(), math.NaN()
	if k := endOf(n, m, alpha); k >= 1 {
		r.Low, r.High = kthRatio(x, y, k), kthRatio(x, y, int64(n)*int64(m)+1-k)
	}
	return r, true
}

// endOf returns the number, from 1, of the ordered ratio at which the interval begins;
// 0 if there is none.
func endOf(n, m int, alpha float64) int64 {
	if n <= MostExact && m <= MostExact {
		d := cumulative(n, m)
		return int64(sort.Search(len(d), func(u int) bool { return d[u] > alpha/2 }))
	}
	a, b := float64(n), float64(m)
	z := math.Sqrt2 * math.Erfinv(1-alpha)
	return max(0, int64(math.Floor(a*b/2-z*math.Sqrt(a*b*(a+b+1)/12))))
}

// kthRatio returns the k-th smallest, from 1, of the ratios of a value of y to a value
// of x, both ascending and positive. Positive floats are in the order of their bits,
// so it bisects bits and counts the pairs below; n*m ratios are never kept.
func kthRatio(x, y []float64, k int64) float64 {
	low, high := uint64(0), math.Float64bits(y[len(y)-1]/x[0])
	for low < high {
		middle := low + (high-low)/2
		if pairsUpTo(x, y, math.Float64frombits(middle)) >= k {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return math.Float64frombits(low)
}

// pairsUpTo counts the pairs whose ratio is at most r.
func pairsUpTo(x, y []float64, r float64) (count int64) {
	j := 0
	for _, v := range x {
		for j < len(y) && y[j]/v <= r {
			j++
		}
		count += int64(j)
	}
	return count
}
