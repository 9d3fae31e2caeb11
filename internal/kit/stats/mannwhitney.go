package stats

import (
	"math"
	"slices"
	"sync"
)

// MostExact is the largest size of either sample for which the exact distribution of U
// is used.
const MostExact = 50

// Test is the outcome of a Mann-Whitney U test.
type Test struct {
	// U counts the pairs (x, y) with x > y, and those with x = y by half.
	U float64
	// P is the probability, if both samples come from one distribution, of a U at
	// least as far from its mean. Two sided; NaN if a sample is empty or holds a NaN.
	P float64
	// Exact says that P is exact, and not from the normal approximation.
	Exact bool
}

// MannWhitney tests whether values of x tend to be larger or smaller than those of y.
// P is exact if neither sample is larger than MostExact and no two values are
// equal. Otherwise it comes from the normal approximation with the corrections for ties
// and for continuity. (Mann and Whitney 1947; Hollander, Wolfe and Chicken,
// Nonparametric Statistical Methods, 3rd edition, section 4.1.)
func MannWhitney(x, y []float64) Test {
	n, m := len(x), len(y)
	if n == 0 || m == 0 || slices.ContainsFunc(x, math.IsNaN) || slices.ContainsFunc(y, math.IsNaN) {
		return Test{U: math.NaN(), P: math.NaN()}
	}
	u, ties := rankSum(x, y)
	u -= float64(n) * float64(n+1) / 2
	if ties == 0 && n <= MostExact && m <= MostExact {
		tail := cumulative(n, m)[int(min(u, float64(n*m)-u))]
		return Test{U: u, P: min(1, 2*tail), Exact: true}
	}
	return Test{U: u, P: approximate(u, n, m, ties)}
}

// rankSum returns the sum of the ranks of x among all values, where equal values share
// the mean of their ranks, and the sum of t^3-t over the groups of t equal values.
func rankSum(x, y []float64) (sum, ties float64) {
	x, y = slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		v := math.Inf(1)
		if i < len(x) {
			v = x[i]
		}
		if j < len(y) {
			v = min(v, y[j])
		}
		before := i + j
		ofX := i
		for i < len(x) && x[i] == v {
			i++
		}
		for j < len(y) && y[j] == v {
			j++
		}
		t := float64(i + j - before)
		sum += float64(i-ofX) * (float64(before) + (t+1)/2)
		ties += t*t*t - t
	}
	return sum, ties
}

func approximate(u float64, n, m int, ties float64) float64 {
	a, b := float64(n), float64(m)
	all := a + b
	variance := a * b / 12 * (all + 1 - ties/(all*(all-1)))
	if variance <= 0 {
		return 1 // all values are equal
	}
	z := (math.Abs(u-a*b/2) - 0.5) / math.Sqrt(variance)
	return min(1, math.Erfc(z/math.Sqrt2))
}

// SmallestP is the smallest P that samples of these sizes can have: where it is not
// below the level of a test, no difference however large can be found.
func SmallestP(n, m int) float64 {
	return min(1, 2*Beyond(m, m, n)) // 2 / (n+m choose n)
}

// Beyond is the probability, if x and y are of one distribution, that at least k of m values of y exceed all n of x
// (Rosenbaum, Annals of Mathematical Statistics 25, 1954). It finds what MannWhitney does not: that some of y are
// larger.
func Beyond(k, m, n int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(m-i) / float64(n+m-i)
	}
	return p
}

type sizes struct{ n, m int }

// distributions keeps what cumulative has found: thousands of pairs of ranks have samples
// of the same sizes.
var distributions sync.Map // sizes -> []float64

// cumulative returns P(U <= u) for u from 0 to n*m if both samples come from one
// continuous distribution.
func cumulative(n, m int) []float64 {
	if n > m {
		n, m = m, n // the distribution is the same
	}
	if d, ok := distributions.Load(sizes{n, m}); ok {
		return d.([]float64)
	}
	// p[j][u] is P(U = u) for samples of i and j values: the largest of all is in the first
	// sample, and beats all j of the other, or in the second.
	p := make([][]float64, m+1)
	for j := range p {
		p[j] = []float64{1}
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			row := make([]float64, i*j+1)
			first, second := float64(i)/float64(i+j), float64(j)/float64(i+j)
			for u, v := range p[j] { // of i-1 and j
				row[u+j] += first * v
			}
			for u, v := range p[j-1] { // of i and j-1
				row[u] += second * v
			}
			p[j] = row
		}
	}
	out := p[m]
	for u := 1; u < len(out); u++ {
		out[u] += out[u-1]
	}
	distributions.Store(sizes{n, m}, out)
	return out
}
