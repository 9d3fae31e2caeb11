// Package stats holds the statistics of measured samples: quantiles, Pareto fronts, tests of whether two sides differ,
// the interval of a change that belongs to them, and corrections for many tests at once. Reports, comparisons,
// thresholds and the history of disagg use it.
//
// stats.go has quantiles, means and deviations. There is one definition of quantiles in perigee, type 7 of Hyndman and
// Fan, so that no two tables disagree about a median. mannwhitney.go has the test of Mann and Whitney with its exact
// distribution up to MostExact samples, and what surrounds it. runs.go compares many rows of few repeated runs by
// permutation, with the correction of Westfall and Young. ratio.go has the interval of a ratio. pareto.go finds the
// points that no other beats on both axes. Comments name the sources of formulas; testdata has values that scipy has
// computed, and the programs that did.
//
// Nothing here assumes that samples are normally distributed: latencies are not. What most functions do assume is that
// samples are independent of each other; the caller has to look after that. Drift is for the usual violation, a
// machine that gets slower while it is measured.
//
// Functions take and return plain float64 in the caller's unit. What is not known, such as the mean of no values, is
// NaN and never 0, and none of them returns an error.
package stats
