package figures

import (
	"strings"
	"testing"

	"perigee/internal/result"
)

// ofPlanes are figures of a result that measured data planes.
func ofPlanes(list ...any) *Figures {
	return &Figures{Document: &result.Document{Values: map[string]any{"ep": list}}}
}

// planeIn is a measurement of uniform routing, with what differs.
func planeIn(mode, entry string, p50 float64, more map[string]any) any {
	m := map[string]any{"mode": mode, "entry": entry, "slowest_us": map[string]any{"p50": p50}, "tokens": 64.0, "hidden": 4096.0, "experts_per_rank": 8.0,
		"topk": 2.0, "ranks": 4.0, "payload": "fp8", "routing": "uniform", "replacement": "with replacement", "routing_seed": 0.0, "placement": "contiguous"}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func TestBetweenExperts(t *testing.T) {
	zipf := map[string]any{"routing": "zipf", "replacement": "without replacement"}
	old := ofPlanes(planeIn("dispatch", "fresh", 1, nil), planeIn("dispatch", "steady", 200, nil), planeIn("combine", "steady", 300, nil))
	const chance = " perigee compare says what is more than chance."
	for name, c := range map[string]struct {
		list []*Figures
		want string
	}{
		"two": {[]*Figures{old, ofPlanes(planeIn("dispatch", "fresh", 2, zipf), planeIn("dispatch", "steady", 100, zipf), planeIn("combine", "steady", 450, zipf))},
			"b is the fastest at dispatch of 64 tokens (steady: 100 µs an iteration, median of the slowest rank); a takes 2.00 times as long (200 µs). " +
				"a is the fastest at combine of 64 tokens (steady: 300 µs an iteration, median of the slowest rank); b takes 1.50 times as long (450 µs). " +
				"They differ in routing (a: uniform with replacement; b: zipf without replacement)." + chance},
		"three, of which one is something else": {[]*Figures{old, {Document: &result.Document{}}, ofPlanes(planeIn("dispatch", "steady", 200, map[string]any{"payload": "bf16", "ranks": 8.0}))},
			"a is the fastest at dispatch of 64 tokens (steady: 200 µs an iteration, median of the slowest rank); c takes 1.00 times as long (200 µs). " +
				"They differ in precision (a: fp8; c: bf16), ranks (a: 4; c: 8)." + chance},
		"the same size, most tokens": {[]*Figures{
			ofPlanes(planeIn("e2e", "fresh", 10, nil), planeIn("e2e", "fresh", 20, map[string]any{"tokens": 128.0})),
			ofPlanes(planeIn("e2e", "fresh", 30, map[string]any{"tokens": 128.0}), planeIn("e2e", "fresh", 90, map[string]any{"tokens": 256.0}))},
			"a is the fastest at dispatch and combine of 128 tokens (fresh: 20.0 µs an iteration, median of the slowest rank); b takes 1.50 times as long (30.0 µs). " +
				"They differ in none of routing, precision, ranks and sizes." + chance},
		"one each, of other sizes": {[]*Figures{ofPlanes(planeIn("e2e", "steady", 10, nil)), ofPlanes(planeIn("e2e", "steady", 20, map[string]any{"tokens": 128.0}))},
			"a is the fastest at dispatch and combine of 64 tokens (steady: 10.0 µs an iteration, median of the slowest rank); b takes 2.00 times as long (20.0 µs). " +
				"They differ in tokens (a: 64; b: 128)." + chance},
		"sizes that do not meet": {[]*Figures{ofPlanes(planeIn("e2e", "steady", 10, nil), planeIn("e2e", "steady", 10, map[string]any{"topk": 4.0})),
			ofPlanes(planeIn("e2e", "steady", 20, map[string]any{"tokens": 128.0}))}, ""},
		"other modes": {[]*Figures{ofPlanes(planeIn("combine", "steady", 10, nil)), ofPlanes(planeIn("dispatch", "steady", 20, nil))}, ""},
		"one":         {[]*Figures{old}, ""},
	} {
		if got := BetweenExperts(c.list, strings.Split("a b c", " ")); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
