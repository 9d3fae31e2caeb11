// Package grid finds the ticks on which a trace's timestamps stand, where its recorder rounded or batched them.
// Requests of a tick come at once when such a trace is replayed as it is.
package grid

import (
	"math"
	"slices"
	"time"
)

// What is called a grid.
const (
	shortest = 10 * time.Millisecond // a tenth of the shortest window of offered load: below, no figure depends on it
	fewest   = 10                    // ticks with requests: fewer may stand on a grid by chance
	within   = 0.02                  // of the period is how far timestamps are from their tick, clocks being read late
	fitting  = 0.99                  // of the requests are within that
	shared   = 0.1                   // of the requests share their tick: otherwise the grid bunches nothing
)

// Grid is where ticks are: one each period, tick 0 at the phase.
type Grid struct{ Period, Phase time.Duration }

// Tick returns the tick on which a time stands, which is the nearest one.
func (g Grid) Tick(at time.Duration) int64 {
	return int64(math.Floor(float64(at-g.Phase)/float64(g.Period) + 0.5))
}

// Off is how far a time is from its tick.
func (g Grid) Off(at time.Duration) time.Duration {
	return (at - g.Phase - time.Duration(g.Tick(at))*g.Period).Abs()
}

// Find looks for a grid of times, which must be sorted. It finds one of at least 10 ms if 99 % of the times are
// within 2 % of a period around at least 10 ticks, and a tenth of all times share their tick with another. So a
// resolution of a second is a grid where requests come about as often as that, and one of a millisecond is none.
func Find(times []time.Duration) (Grid, bool) {
	distinct := slices.Compact(slices.Clone(times))
	var gaps []time.Duration
	for i, t := range distinct[min(1, len(distinct)):] {
		gaps = append(gaps, t-distinct[i])
	}
	sorted := slices.Sorted(slices.Values(gaps))
	sorted = slices.DeleteFunc(sorted, func(gap time.Duration) bool { return gap < shortest })
	// Most gaps are a period where few ticks are empty, and the shortest ones where many are.
	for _, quantile := range []int{2, 10, 100} {
		if len(sorted) < fewest-1 {
			break
		}
		if g, ok := fit(times, gaps, sorted[len(sorted)/quantile]); ok {
			return g, g.bunches(times)
		}
	}
	return Grid{}, false
}

// fit looks for a grid of about a period.
func fit(times, gaps []time.Duration, guess time.Duration) (Grid, bool) {
	span := times[len(times)-1] - times[0]
	var length time.Duration
	var ticks float64
	for _, gap := range gaps {
		n := math.Round(float64(gap) / float64(guess))
		if n < 20 { // of more, a guess that is 2 % off does not give the number
			length, ticks = length+gap, ticks+n
		}
	}
	mean := time.Duration(float64(length) / ticks) // a gap of a guess makes at least one tick
	mean = time.Duration(float64(span) / math.Round(float64(span)/float64(mean)))
	// The roundest period that fits, as clocks have round ones.
	for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond, time.Millisecond, time.Nanosecond} {
		if period := mean.Round(unit); period >= shortest {
			if g, ok := at(times, period); ok {
				return g, true
			}
		}
	}
	return Grid{}, false
}

// at looks for the phase of a grid.
func at(times []time.Duration, period time.Duration) (Grid, bool) {
	g := Grid{Period: period, Phase: times[0]}
	off := make([]time.Duration, len(times))
	for i, t := range times {
		off[i] = t - g.Phase - time.Duration(g.Tick(t))*period
	}
	slices.Sort(off)
	g.Phase += off[len(off)/2]
	limit := time.Duration(within * float64(period))
	far, ticks, last := 0, 0, int64(-1)
	for _, t := range times {
		tick := g.Tick(t)
		if g.Off(t) > limit {
			far++
		}
		if ticks == 0 || tick != last {
			ticks, last = ticks+1, tick
		}
	}
	return g, ticks >= fewest && float64(far) <= (1-fitting)*float64(len(times))
}

// bunches reports whether enough times share their tick.
func (g Grid) bunches(times []time.Duration) bool {
	alone := 0
	for i, t := range times {
		tick := g.Tick(t)
		if (i == 0 || g.Tick(times[i-1]) != tick) && (i == len(times)-1 || g.Tick(times[i+1]) != tick) {
			alone++
		}
	}
	return float64(alone) <= (1-shared)*float64(len(times))
}
