package figures

import (
	"fmt"
	"slices"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// MostPhases bounds the phases whose distributions a report has.
const MostPhases = 1000

// tails holds distributions of times, whose memory is bounded however many values they hold.
type tails struct {
	kinds  []*tail
	index  map[[2]string]*tail
	phases map[string]bool
	// whole are distributions of more values than were added, see [result.Totals].
	whole map[[2]string]*result.Spread
}

// tail is one distribution.
type tail struct {
	of, phase string
	times     series.Samples
}

func (t *tails) add(of, phase string, ns float64) {
	key := [2]string{of, phase}
	k := t.index[key]
	if k == nil {
		if t.index == nil {
			t.index, t.phases = map[[2]string]*tail{}, map[string]bool{}
		}
		if t.phases[phase] = true; len(t.phases) > MostPhases {
			return // leftOut says so
		}
		k = &tail{of: of, phase: phase}
		t.index[key], t.kinds = k, append(t.kinds, k)
	}
	k.times.Add(int64(ns))
}

// take adds a distribution of all values, in place of what was added.
func (t *tails) take(of, phase string, s result.Spread) {
	key := [2]string{of, phase}
	if t.whole == nil {
		t.whole = map[[2]string]*result.Spread{}
	}
	if t.whole[key] == nil {
		t.whole[key] = &result.Spread{}
	}
	t.whole[key].Merge(s)
}

// leftOut says which phases are missing.
func (t *tails) leftOut() []string {
	if n := len(t.phases); n > MostPhases {
		return []string{fmt.Sprintf("the distributions of latencies are those of the first %d of %d phases", MostPhases, n)}
	}
	return nil
}

// list returns the distributions, patterns before messages, phases in the
// order of the result.
func (t *tails) list() []Latency {
	out := []Latency{}
	for _, of := range []string{"pattern", "message"} {
		for _, k := range t.kinds {
			switch s := t.whole[[2]string{of, k.phase}]; {
			case k.of != of:
			case s != nil:
				out = append(out, latencyOf(of, k.phase, "ns", s.Count(), s.Quantiles()))
			default:
				out = append(out, k.latency())
			}
		}
	}
	return out
}

// steps are the shares at which a curve has points.
var steps = func() (list []float64) {
	const each = 50 // points of a whole
	for i := 0; float64(i)/each < 0.985; i++ {
		list = append(list, float64(i)/each)
	}
	return append(list, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999, 1)
}()

func (k *tail) latency() Latency {
	return latencyOf(k.of, k.phase, "ns", k.times.Count(), k.times.Quantiles())
}

// latencyOf fills in a distribution of n values from its quantiles.
func latencyOf(of, phase, unit string, n int64, quantile func(q float64) float64) Latency {
	value := func(q float64) Num { return Num(quantile(q)) }
	percentile := func(q float64) Num {
		if float64(n)*(1-q) < 1-1e-9 { // it would be the largest value
			return None
		}
		return value(q)
	}
	l := Latency{
		Of: of, Phase: phase, Unit: unit, Count: n, Min: value(0), P50: value(0.5),
		P90: percentile(0.9), P95: percentile(0.95), P99: percentile(0.99), P999: percentile(0.999),
		Max: value(1),
	}
	for _, q := range steps {
		v := value(q)
		if last := len(l.Curve) - 1; last >= 0 && l.Curve[last][0] == v {
			l.Curve[last][1] = Num(q)
			continue
		}
		l.Curve = append(l.Curve, [2]Num{v, Num(q)})
	}
	return l
}

// slowdowns is the distribution over all messages of all patterns of the geometric mean of their slowdowns.
func (b *builder) slowdowns() Latency {
	var values []float64
	b.contention.Slowdowns(func(_, _, _ int, s contention.Slowdowns) { values = append(values, s.Mean()) })
	if len(values) == 0 {
		return Latency{}
	}
	slices.Sort(values)
	return latencyOf("slowdown", "", "ratio", int64(len(values)),
		func(q float64) float64 { return stats.Quantile(values, q) })
}
