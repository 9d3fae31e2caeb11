package clock

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestDriftingClock gives a Line samples of a clock whose true offset is known,
// each wrong by at most its uncertainty, and asks for stamps between them.
func TestDriftingClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.Int64Range(-1e15, 1e15).Draw(t, "shift")
		ppm := rapid.Float64Range(-200, 200).Draw(t, "ppm")
		uncertainty := rapid.Int64Range(0, 100_000).Draw(t, "uncertainty")
		start := rapid.Int64Range(0, 1e15).Draw(t, "start")
		truth := func(ns int64) int64 { return shift + int64(float64(ns-start)*ppm*1e-6) }

		var l ClockLine
		at := start
		for range rapid.IntRange(1, 6).Draw(t, "samples") {
			wrong := rapid.Int64Range(-uncertainty, uncertainty).Draw(t, "wrong")
			l.Add(Sample{AtNS: at, OffsetNS: truth(at) + wrong, UncertaintyNS: uncertainty})
			at += rapid.OneOf(rapid.Int64Range(1e3, 1e6), rapid.Int64Range(1e6, 1e11)).Draw(t, "pause")
		}
		ns := rapid.Int64Range(start, l.Last().AtNS).Draw(t, "stamp")
		if off := l.OffsetAt(ns) - truth(ns); off > uncertainty+2 || off < -uncertainty-2 {
			t.Fatalf("stamp %d: offset wrong by %d ns, uncertainty %d", ns-start, off, uncertainty)
		}
		if u := l.UncertaintyAt(ns); u != uncertainty {
			t.Fatalf("uncertainty %d, want %d", u, uncertainty)
		}

		// A span between two samples is what the clock itself shows, but for a drift that clocks have.
		k := rapid.IntRange(0, l.Len()-1).Draw(t, "segment")
		if k+1 == l.Len() {
			return
		}
		from := rapid.Int64Range(l.samples[k].AtNS+1, l.samples[k+1].AtNS).Draw(t, "from")
		to := rapid.Int64Range(from, l.samples[k+1].AtNS).Draw(t, "to")
		longer := float64(l.OffsetAt(to) - l.OffsetAt(from))
		if math.Abs(longer) > maxDrift*float64(to-from)+2 {
			t.Fatalf("a span of %d ns became %v ns longer", to-from, longer)
		}
	})
}

// Two samples that no errors explain are joined by the drift that they prove.
func TestProvenDrift(t *testing.T) {
	var l ClockLine
	l.Add(Sample{AtNS: 0, OffsetNS: 0, UncertaintyNS: 1000})
	l.Add(Sample{AtNS: 1e9, OffsetNS: 5e6, UncertaintyNS: 1000}) // 5000 ppm
	for ns, want := range map[int64]int64{1: 1005, 500e6: 2.5e6, 1e9: 5e6 - 1000} {
		if got := l.OffsetAt(ns); max(got-want, want-got) > 5 {
			t.Errorf("offset at %d: %d, want %d", ns, got, want)
		}
	}
}

func TestOutsideOfTheSamples(t *testing.T) {
	var l ClockLine
	if l.OffsetAt(5) != 0 || l.UncertaintyAt(5) != 0 || l.DriftPPM() != 0 {
		t.Error("a line without samples is not the reference")
	}
	l.Add(Sample{AtNS: 100_000, OffsetNS: 10, UncertaintyNS: 1})
	l.Add(Sample{AtNS: 200_000, OffsetNS: 30, UncertaintyNS: 7})
	for ns, want := range map[int64]int64{0: 10, 100_000: 10, 150_000: 20, 200_000: 30, 999_999: 30} {
		if got := l.OffsetAt(ns); got != want {
			t.Errorf("offset at %d: %d, want %d", ns, got, want)
		}
	}
	for ns, want := range map[int64]int64{0: 1, 150_000: 7, 999_999: 7} {
		if got := l.UncertaintyAt(ns); got != want {
			t.Errorf("uncertainty at %d: %d, want %d", ns, got, want)
		}
	}
}

func TestDriftPPM(t *testing.T) {
	var l ClockLine
	l.Add(Sample{AtNS: 0, OffsetNS: 0})
	l.Add(Sample{AtNS: 1000, OffsetNS: 1000})
	if got := l.DriftPPM(); got != 0 {
		t.Errorf("drift over a microsecond: %v", got)
	}
	l.Add(Sample{AtNS: 10e9, OffsetNS: 500_000})
	if got := l.DriftPPM(); math.Abs(got-50) > 1e-9 {
		t.Errorf("drift %v ppm, want 50", got)
	}
}

func TestApart(t *testing.T) {
	for _, c := range []struct {
		of   []int64
		want int64
	}{{nil, 0}, {[]int64{7}, 0}, {[]int64{0, 7}, 7}, {[]int64{5, 2, 7, 1}, 12}, {[]int64{7, 7}, 14}} {
		if got := Apart(c.of); got != c.want {
			t.Errorf("%v: got %d, want %d", c.of, got, c.want)
		}
	}
}
