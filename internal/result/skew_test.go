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

func TestStartsByClock(t *testing.T) {
	run := func(skew, uncertainty int64, late ...int64) Measurement {
		agreed := int64(1)
		r := series.Run{StartSkewNS: &skew, AgreedNS: &agreed, UncertaintyNS: uncertainty}
		for i, l := range late {
			r.Ranks = append(r.Ranks, series.RankRun{Rank: i, LateNS: l})
		}
		return Measurement{Run: r}
	}
	barrier := run(5000, 0, 0, 0)
	barrier.AgreedNS = nil
	d := &Document{Measurements: []Measurement{run(9_000_000, 0, 0, 8_000_000), run(200, 0, 0, 0), barrier, run(400, 0, 0, 0)}}
	for _, c := range []struct {
		from int
		want string
	}{
		{0, "start skew by the clock: median 0.4 us, p99 8820.0 us, worst 9000.0 us over 3; 1 of 6 starts were late, by up to 8000.0 us"},
		{1, "start skew by the clock: median 0.3 us, p99 0.4 us, worst 0.4 us over 2; no start was late"},
	} {
		if got := d.StartsByClock(c.from).String(); got != c.want {
			t.Errorf("from %d: got %s, want %s", c.from, got, c.want)
		}
	}
	if got := d.StartsByClock(4); got.Runs != 0 {
		t.Errorf("nothing new: %+v", got)
	}
	d.Measurements[3].UncertaintyNS = 2000
	if got, want := d.StartsByClock(3).String(), "start skew by the clock: median 0.4 us, p99 0.4 us, worst 0.4 us over 1, uncertainty of the clocks 2.0 us; no start was late"; got != want {
		t.Errorf("between hosts: got %s, want %s", got, want)
	}
}
