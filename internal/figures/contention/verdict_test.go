package contention

import (
	"math"
	"testing"
)

// Repetitions do not contradict each other: contention is said in at most 1 % of results where overlapping costs no more
// than Little, that it is small in at most 1 % where it costs no less, and a large cost is found in nearly all. Messages
// of a run share a disturbance, and one in 20 is held up, as on a busy machine. Sampling error: 3 sigma.
func TestRepetitionsAgree(t *testing.T) {
	const results, pairs = 200, 4
	for _, runs := range []int{MinRuns, 10} {
		for _, noise := range []float64{0.01, 0.1} {
			for _, cost := range []float64{0.95, 1, Little, 1.3, 2.5} {
				for _, always := range []bool{true, false} {
					got := map[Verdict]int{}
					for k := range results {
						m := newMade(pairs, uint64(k))
						heldUp := func() float64 {
							if m.rng.Float64() < 0.05 {
								return 1 + m.rng.Float64()
							}
							return 1
						}
						for i := range runs {
							for pair := range pairs {
								m.add("isolated", i, pair, 1000*heldUp(), noise, nil)
							}
						}
						for i := range runs {
							disturbance := math.Exp(noise * m.rng.NormFloat64())
							for pair := range pairs {
								ns, o := 1000*disturbance*heldUp(), shared
								if !always && (i+pair)%2 == 0 {
									o = nil
								} else {
									ns *= cost
								}
								m.add("workload", i, pair, ns, noise, o)
							}
						}
						got[m.c.Report().Verdict()]++
					}
					if cost <= Little && got[Costs] > mostOf(results) || cost >= Little && got[Small] > mostOf(results) ||
						cost > 2 && runs > MinRuns && got[Costs] < results-mostOf(results) {
						t.Errorf("%d runs, noise %v, cost %v, always %v: %v", runs, noise, cost, always, got)
					}
				}
			}
		}
	}
}

func TestVerdict(t *testing.T) {
	nan := math.NaN()
	for want, list := range map[Verdict][]Estimate{
		Unknown: {{Low: nan, High: nan}},
		Open:    {{Low: 1.09, High: 1.2}, {Low: 0.5, High: 2}, {Low: 1.5, High: 2, Masked: true}, {Low: 1.5, High: 2, Slowdown: 0.99}},
		Small:   {{Low: 0.9, High: 1.1}, {Low: 1.01, High: 1.02}, {Low: 0.5, High: 0.6}},
		Costs:   {{Low: 1.11, High: 1.2, Slowdown: 1.2}, {Low: 1.5, High: 9, Slowdown: nan}},
	} {
		for _, e := range list {
			if e.Slowdown == 0 {
				e.Slowdown = 2
			}
			if got := e.Verdict(); got != want {
				t.Errorf("%+v: %s, want %s", e, got, want)
			}
		}
	}
}
