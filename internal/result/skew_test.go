package result

import (
	"testing"

	"perigee/internal/traffic/series"
)

func TestBarrierSkew(t *testing.T) {
	run := func(skew, uncertainty int64) Measurement {
		r := series.Run{UncertaintyNS: uncertainty}
		if skew >= 0 {
			r.BarrierExitSkewNS = &skew
		}
		return Measurement{Run: r}
	}
	d := &Document{Measurements: []Measurement{run(9_000_000, 0), run(1200, 0), run(-1, 99), run(800, 0), run(25000, 0)}}
	if got, want := d.BarrierSkew(1).String(), "barrier exit skew: median 1.2 us, worst 25.0 us over 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	d.Measurements = append(d.Measurements, run(3000, 12000))
	if got, want := d.BarrierSkew(5).String(), "barrier exit skew: median 3.0 us, worst 3.0 us over 1, uncertainty of the clocks 12.0 us"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := d.BarrierSkew(4); got.Median != 14000 || got.Worst != 25000 {
		t.Errorf("of two: %+v", got)
	}
	if got := d.BarrierSkew(6); got.Barriers != 0 {
		t.Errorf("nothing new: %+v", got)
	}
}
