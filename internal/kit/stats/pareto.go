package stats

import (
	"cmp"
	"math"
	"slices"
)

// ParetoPoint has a coordinate per axis, in the units of the axes.
type ParetoPoint struct{ X, Y float64 }

// ParetoFront reports for each point whether it is on the Pareto front in the textbook sense: a point is off it if
// another one is at least as good in both coordinates and better in one. lowX and lowY say that low values of the axis
// are better; otherwise high ones are. It takes O(n log n). Points with a
// coordinate that is not finite are never on the front. Of equal points all or
// none are.
func ParetoFront(points []ParetoPoint, lowX, lowY bool) []bool {
	on := make([]bool, len(points))
	var order []int
	better := make([]ParetoPoint, len(points)) // signs such that high is good
	for i, p := range points {
		better[i] = ParetoPoint{oriented(p.X, lowX), oriented(p.Y, lowY)}
		if finite(p.X) && finite(p.Y) {
			order = append(order, i)
		}
	}
	// From the best x down, and within equal x from the best y down, a point is on
	// the front if its y beats all before it, or if it equals the last on the front.
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(better[b].X, better[a].X), cmp.Compare(better[b].Y, better[a].Y))
	})
	last := ParetoPoint{math.Inf(1), math.Inf(-1)}
	for _, i := range order {
		if p := better[i]; p.Y > last.Y || p == last {
			on[i], last = true, p
		}
	}
	return on
}

func oriented(x float64, low bool) float64 {
	if low {
		return -x
	}
	return x
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
