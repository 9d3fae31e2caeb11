package play

import (
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/traffic/series"
)

// What a thread waits for is shared out over the time in which its rank has messages: where it has the same part of
// each instant of that time, each message gets its own part, wherever the looks lie.
func TestWaited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []span
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			start := rapid.Int64Range(0, 1000).Draw(t, "start")
			spans = append(spans, span{start, start + rapid.Int64Range(1, 300).Draw(t, "took")})
		}
		counts := make([]bool, 1400)
		for _, s := range spans {
			for ns := s.start; ns < s.end; ns++ {
				counts[ns] = true
			}
		}
		until := func(ns int64) (sum int64) {
			for _, c := range counts[:ns] {
				if c {
					sum++
				}
			}
			return sum
		}
		b := newBusy(append([]span(nil), spans...))
		for ns := range int64(len(counts)) {
			if got, want := b.until(ns), until(ns); got != want {
				t.Fatalf("%v: %d until %d, want %d", spans, got, ns, want)
			}
		}
		const part = 3 // nanoseconds waited for each of the time
		looks := []series.Look{{NS: 0}}
		for ns := int64(0); ns < 1300; {
			ns += rapid.Int64Range(1, 400).Draw(t, "step")
			looks = append(looks, series.Look{NS: min(ns, 1399), Own: part * until(min(ns, 1399))})
		}
		k := newWaited(func(ns int64) int64 { return ns }, b, looks, func(l series.Look) int64 { return l.Own })
		for _, s := range spans {
			if got := k.until(s.end) - k.until(s.start); got < float64(part*(s.end-s.start))-1e-6 || got > float64(part*(s.end-s.start))+1e-6 {
				t.Fatalf("%v of %v waited %v, want %d", s, spans, got, part*(s.end-s.start))
			}
			if got := k.in(s); got != s.end-s.start {
				t.Fatalf("%v waited %d, longer than it lasted", s, got)
			}
		}
	})
}

// Looks at which a rank has no message lose what it waited there.
func TestWaitsOfAnIdleRank(t *testing.T) {
	b := newBusy([]span{{100, 200}, {900, 1000}})
	looks := []series.Look{{NS: 0, Own: 5}, {NS: 150, Own: 25}, {NS: 300, Own: 35}, {NS: 800, Own: 700}, {NS: 1100, Own: 720}}
	k := newWaited(func(ns int64) int64 { return ns }, b, looks, func(l series.Look) int64 { return l.Own })
	if first, second := k.in(span{100, 200}), k.in(span{900, 1000}); first != 30 || second != 20 {
		t.Errorf("waited %d and %d, want 30 and 20", first, second)
	}
}
