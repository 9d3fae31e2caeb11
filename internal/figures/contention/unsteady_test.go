package contention

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Runs alone that drift, or fall into two groups, are found; those that only spread are not, but for one in a hundred.
func TestUnsteady(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	draw := func(n int, of func(i int) float64) (alone []run) {
		for i := range n {
			alone = append(alone, run{of(i), 0.1, 0.5})
		}
		return alone
	}
	spread := func(sigma float64) float64 { return 84e6 * math.Exp(sigma*r.NormFloat64()) }
	list := func(alone []run) []Unsteady {
		return Of(played(alone, nil)).Unsteady()
	}
	found := 0
	for range 500 {
		sigma := []float64{0.01, 0.05, 0.2, 0.6}[r.IntN(4)]
		found += min(1, len(list(draw(10+r.IntN(30), func(int) float64 { return spread(sigma) }))))
	}
	if found > 10 {
		t.Errorf("%d of 500 that only spread", found)
	}
	for name, c := range map[string]struct {
		of     func(i int) float64
		groups bool
	}{
		"slower from the middle on": {func(i int) float64 { return spread(0.03) * []float64{1, 1.4}[i/10] }, false},
		"a trend":                   {func(i int) float64 { return spread(0.02) * (1 + 0.05*float64(i)) }, false},
		"every third slow":          {func(i int) float64 { return spread(0.02) * []float64{1, 1, 1.4}[i%3] }, true},
	} {
		got := list(draw(20, c.of))
		if len(got) != 2 || got[0].Groups != c.groups || got[0].times() < 1.2 || got[0].Runs != 20 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := list(slices.Repeat([]run{{1e3, 0, 0}, {5e5, 0, 0}}, 10)); len(got) != 0 {
		t.Errorf("below what counts: %+v", got)
	}
}
