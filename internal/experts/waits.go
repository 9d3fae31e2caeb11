package experts

import (
	"fmt"
	"slices"

	"perigee/internal/stats"
)

// The limits of a verdict. Waits are compared with the mean of the pairs of ranks that have no part in them: a mean of
// all would grow with what is to be found, and of four ranks none could wait 4 times as long as it.
const (
	slowLine  = 3.0  // the waits for one rank, or of one, over those of the others for each other
	slowPair  = 5.0  // the wait of a pair, over those of all other pairs
	leastWait = 0.01 // the part of an iteration that the mean of all must be for anything to be said
)

// line is what all ranks wait for one, or one for all.
type line struct {
	rank                int
	typical, mean, rest float64 // median and mean of these waits; mean of those of the other ranks for each other
}

func (l line) standsOut() bool { return l.typical > slowLine*l.rest }

// verdict names the source, the destination or the pair whose waits stand out, or nothing. rows are the mean waits by
// destination and source. Most of the waits of a source or of a destination must stand out, so that one pair is not
// taken for the one or the other.
func verdict(operation string, rows [][]float64, hosts []string, latency float64) string {
	n := len(rows)
	if n < 4 {
		return ""
	}
	bySource, byDestination := make([][]float64, n), make([][]float64, n)
	var all []float64
	var most float64
	var at [2]int
	for d, row := range rows {
		for s, w := range row {
			if s == d {
				continue
			}
			all = append(all, w)
			bySource[s], byDestination[d] = append(bySource[s], w), append(byDestination[d], w)
			if w > most {
				most, at = w, [2]int{d, s}
			}
		}
	}
	if mean := stats.Mean(all); mean < leastWait*latency || mean <= 0 {
		return ""
	}
	source, destination := largest(bySource, rows), largest(byDestination, rows)
	rest := (stats.Mean(all)*float64(len(all)) - most) / float64(len(all)-1)
	switch {
	case source.standsOut() && source.mean >= destination.mean:
		return fmt.Sprintf("%s: all wait for rank %d (%s): %s", operation, source.rank, hosts[source.rank],
			size(source.mean, source.rest))
	case destination.standsOut():
		return fmt.Sprintf("%s: rank %d (%s) waits for all: %s", operation, destination.rank, hosts[destination.rank],
			size(destination.mean, destination.rest))
	case most > slowPair*rest:
		return fmt.Sprintf("%s: rank %d (%s) waits for rank %d (%s): %s", operation, at[0], hosts[at[0]], at[1], hosts[at[1]],
			size(most, rest))
	}
	return ""
}

// size says how long a wait is, and how many times as long as the others'.
func size(wait, rest float64) string {
	if rest <= 0 {
		return fmt.Sprintf("%.1f us, and no others wait", wait)
	}
	return fmt.Sprintf("%.1f us, %.1f times the mean wait of the others", wait, wait/rest)
}

// largest is the rank with the largest median of its list of waits.
func largest(lists [][]float64, rows [][]float64) line {
	var l line
	for rank, list := range lists {
		if typical := stats.Median(list); rank == 0 || typical > l.typical {
			l = line{rank: rank, typical: typical, mean: stats.Mean(list)}
		}
	}
	var rest []float64
	for d, row := range rows {
		for s, w := range row {
			if !slices.Contains([]int{d, s}, l.rank) && s != d {
				rest = append(rest, w)
			}
		}
	}
	l.rest = stats.Mean(rest)
	return l
}
