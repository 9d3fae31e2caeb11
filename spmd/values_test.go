package spmd

import (
	"strings"
	"testing"

	"perigee/internal/fault"
)

// A sum that is no number any more is an error of the script, not a lost rank.
func TestSumThatOverflows(t *testing.T) {
	for _, n := range []float64{1e308, -1e308} {
		errs := ranks(t, 3, nil, func(w *World) error {
			_, err := AllReduce(w.All(), []float64{1, n}, Sum)
			return err
		})
		for r, err := range errs {
			if fault.KindOf(err) != fault.Script || !strings.Contains(err.Error(), "reduce: number 2 of 2 becomes infinite") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	}
}
