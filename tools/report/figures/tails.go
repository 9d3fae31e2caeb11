package figures

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that a distribution tells apart: 10 hours.
const longest = int64(10 * 3600 * 1e9)

// tails holds distributions of times, which take the same memory however many
// values they hold.
type tails struct{ kinds []*tail }

// tail is one distribution.
type tail struct {
	of, phase string
	h         *hdrhistogram.Histogram
}

func (t *tails) add(of, phase string, ns float64) {
	i := slices.IndexFunc(t.kinds, func(k *tail) bool { return k.of == of && k.phase == phase })
	if i < 0 {
		// Three digits: within 0.1 % of each value.
		t.kinds = append(t.kinds, &tail{of, phase, hdrhistogram.New(1, longest, 3)})
		i = len(t.kinds) - 1
	}
	// What is out of range counts as the end of it, so this cannot fail.
	_ = t.kinds[i].h.RecordValue(min(max(int64(ns), 1), longest))
}

// list returns the distributions, patterns before messages, phases in the
// order of the result.
func (t *tails) list() []Latency {
	out := []Latency{}
	for _, of := range []string{"pattern", "message"} {
		for _, k := range t.kinds {
			if k.of == of {
				out = append(out, k.latency())
			}
		}
	}
	return out
}

// steps are the shares at which a curve has points.
var steps = func() (list []float64) {
	for q := 0.0; q < 0.985; q += 0.02 {
		list = append(list, q)
	}
	return append(list, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999, 1)
}()

func (k *tail) latency() Latency {
	n := k.h.TotalCount()
	value := func(q float64) Num {
		if q <= 0 {
			return Num(k.h.Min())
		}
		exact := float64(nearestRank(q, n)) / float64(n) // or the histogram would round to a rank below
		return Num(min(k.h.ValueAtQuantile(exact*100), k.h.Max()))
	}
	return latencyOf(k.of, k.phase, "ns", n, value)
}

// latencyOf fills in a distribution of n values from its quantiles.
func latencyOf(of, phase, unit string, n int64, value func(q float64) Num) Latency {
	tell := func(q float64) Num {
		if float64(n)*(1-q) < 1-1e-9 { // it would be the largest value
			return None
		}
		return value(q)
	}
	l := Latency{
		Of: of, Phase: phase, Unit: unit, Count: n, Min: value(0), P50: value(0.5), P90: tell(0.9), P95: tell(0.95), P99: tell(0.99), P999: tell(0.999),
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

// slowdowns is the distribution over all messages of all patterns of mean
// latency in the workload / mean latency isolated.
func (b *builder) slowdowns() Latency {
	var values []float64
	for _, p := range b.patterns {
		for _, c := range p.cells {
			if c.alone.n > 0 && c.together.n > 0 && c.alone.value() > 0 {
				values = append(values, c.together.value()/c.alone.value())
			}
		}
	}
	if len(values) == 0 {
		return Latency{}
	}
	slices.Sort(values)
	n := int64(len(values))
	return latencyOf("slowdown", "", "ratio", n, func(q float64) Num { return Num(values[nearestRank(q, n)-1]) })
}

// nearestRank returns which of n ascending values, counted from 1, is the
// quantile q: the first that at least the share q of all does not exceed.
func nearestRank(q float64, n int64) int64 {
	const rounding = 1e-6 // of q*n, so that 0.9 of 10 is the ninth
	return min(max(int64(math.Ceil(q*float64(n)-rounding)), 1), n)
}
