package stats

import (
	"math"
	"slices"
)

// Quantile returns the q-quantile (0 to 1) of ascending values by linear
// interpolation between the two nearest (type 7 of Hyndman and Fan 1996, the default of numpy
// and R), and NaN where there are none. It is the one definition of quantiles, percentiles and
// medians in perigee: every table, report, threshold and comparison uses it or [QuantileOf]; figures
// of serving traces alone have nearest ranks, as published ones do.
func Quantile(sorted []float64, q float64) float64 {
	return QuantileOf(int64(len(sorted)), q, func(i int64) float64 { return sorted[i] })
}

// QuantileOf is [Quantile] of n ascending values that are not in one list, such as those of a
// histogram. at returns the i-th of them, from 0 on.
func QuantileOf(n int64, q float64, at func(i int64) float64) float64 {
	if n == 0 {
		return math.NaN()
	}
	rank := q * float64(n-1)
	below := min(max(int64(math.Floor(rank)), 0), n-1)
	low, high := at(below), at(min(below+1, n-1))
	part := rank - float64(below)
	if part == 0 || low == high {
		return low
	}
	return low*(1-part) + high*part
}

// Counted returns a function that computes quantiles, as [Quantile] defines them, of values that are counted: counts[i]
// of them are about values[i], which ascend. The least and the most are exact, and bound the others.
func Counted(values, counts []int64, least, most int64) func(q float64) float64 {
	upTo, sum := make([]int64, len(counts)), int64(0) // how many are at most values[i]
	for i, n := range counts {
		sum += n
		upTo[i] = sum
	}
	at := func(i int64) float64 {
		switch i {
		case 0:
			return float64(least)
		case sum - 1:
			return float64(most)
		}
		k, _ := slices.BinarySearch(upTo, i+1)
		return float64(min(max(values[k], least), most))
	}
	return func(q float64) float64 { return QuantileOf(sum, q, at) }
}

// Median returns the 0.5-quantile of values in any order.
func Median(values []float64) float64 { return Quantile(slices.Sorted(slices.Values(values)), 0.5) }

// Mean returns the arithmetic mean, and NaN of no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	// Around the first value, so that large values with small differences lose nothing.
	var sum float64
	for _, v := range values {
		sum += v - values[0]
	}
	return values[0] + sum/float64(len(values))
}

// GeometricMean returns the geometric mean, and NaN of no values or of one that is not positive.
func GeometricMean(values []float64) float64 {
	if len(values) == 1 && values[0] > 0 {
		return values[0] // to the last digit
	}
	logs := make([]float64, len(values))
	for i, v := range values {
		if !(v > 0) {
			return math.NaN()
		}
		logs[i] = math.Log(v)
	}
	return math.Exp(Mean(logs))
}

// StdDev returns the standard deviation of a sample (divisor n-1), and NaN of
// fewer than two values.
func StdDev(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	mean := Mean(values)
	var sum float64
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)-1))
}
