package stats

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
)

// slow is the definition, word by word.
func slow(points []ParetoPoint, lowX, lowY bool) []bool {
	at := func(p ParetoPoint) (x, y float64) { return oriented(p.X, lowX), oriented(p.Y, lowY) }
	on := make([]bool, len(points))
	for i, p := range points {
		on[i] = finite(p.X) && finite(p.Y)
		x, y := at(p)
		for _, q := range points {
			if u, v := at(q); finite(q.X) && finite(q.Y) && u >= x && v >= y && (u > x || v > y) {
				on[i] = false
			}
		}
	}
	return on
}

func TestAgainstTheDefinition(t *testing.T) {
	coordinate := rapid.OneOf(rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }), rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}))
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ParetoPoint {
			return ParetoPoint{coordinate.Draw(t, "x"), coordinate.Draw(t, "y")}
		}), 0, 40).Draw(t, "points")
		lowX, lowY := rapid.Bool().Draw(t, "lowX"), rapid.Bool().Draw(t, "lowY")
		must.Equal(t, slow(points, lowX, lowY), ParetoFront(points, lowX, lowY))
	})
}

// A tie in one coordinate does not save a point, and one without a coordinate is
// never on the front.
func ExampleParetoFront() {
	points := []ParetoPoint{{1, 5}, {2, 5}, {3, 4}, {3, 4}, {3, 1}, {math.NaN(), 9}}
	fmt.Println(ParetoFront(points, false, false))
	fmt.Println(ParetoFront(points, true, false)) // low x is better
	// Output:
	// [false true true true false false]
	// [true false false false false false]
}
