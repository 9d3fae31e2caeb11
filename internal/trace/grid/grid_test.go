package grid

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// poisson draws sorted times of so many requests a second, and passes each through a function.
func poisson(n int, rate float64, written func(time.Duration) time.Duration) []time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	times := make([]time.Duration, n)
	at := 0.0
	for i := range times {
		times[i] = written(time.Duration(at * 1e9))
		at += r.ExpFloat64() / rate
	}
	slices.Sort(times)
	return times
}

func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cut := func(to time.Duration) func(time.Duration) time.Duration {
		return func(at time.Duration) time.Duration { return at.Truncate(to) }
	}
	jitter := map[time.Duration]time.Duration{} // of each tick, whose clock was read once
	ticked := func(at time.Duration) time.Duration {
		tick := at.Truncate(3000 * ms)
		if _, ok := jitter[tick]; !ok {
			jitter[tick] = time.Duration(r.IntN(7)-3) * ms
		}
		return tick + jitter[tick]
	}
	each := func(at time.Duration) time.Duration { // several instants a tick
		return at.Truncate(3000*ms) + time.Duration(r.IntN(7)-3)*ms
	}
	strays := 0
	stray := func(at time.Duration) time.Duration {
		if strays++; strays%500 == 250 {
			return at
		}
		return ticked(at)
	}
	var regular []time.Duration
	for i := range 100 {
		regular = append(regular, time.Duration(i)*time.Second)
	}
	tests := []struct {
		name   string
		times  []time.Duration
		period time.Duration // 0: none
	}{
		{"3000 +- 3 ms", poisson(10000, 3.4, ticked), 3000 * ms},
		{"several instants a tick", poisson(10000, 3.4, each), 3000 * ms},
		{"with empty ticks", poisson(2000, 0.1, ticked), 3000 * ms},
		{"with strays", poisson(10000, 3.4, stray), 3000 * ms},
		{"whole seconds, busy", poisson(5000, 5, cut(time.Second)), time.Second},
		{"whole seconds, a request in three", poisson(5000, 0.3, cut(time.Second)), time.Second},
		{"minutes", poisson(5000, 0.3, cut(time.Minute)), time.Minute},
		{"a third of a second in milliseconds", poisson(5000, 5, func(at time.Duration) time.Duration {
			return (at.Truncate(time.Second / 3)).Truncate(ms)
		}), time.Second/3 - 333*time.Nanosecond},
		{"whole seconds, hardly any shared", poisson(5000, 0.03, cut(time.Second)), 0},
		{"milliseconds", poisson(5000, 4, cut(ms)), 0},
		{"milliseconds, busy", poisson(5000, 2000, cut(ms)), 0},
		{"nanoseconds", poisson(5000, 4, cut(1)), 0},
		{"one each second", regular, 0},
		{"nine ticks", poisson(200, 8, cut(3*time.Second)), 0},
		{"one", []time.Duration{0}, 0},
		{"all at once", make([]time.Duration, 50), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, ok := Find(tt.times)
			if ok != (tt.period > 0) {
				t.Fatalf("found %v: %v", ok, g)
			}
			if d := (g.Period - tt.period).Abs(); ok && float64(d) > 1e-6*float64(tt.period) {
				t.Errorf("period %v, want %v", g.Period, tt.period)
			}
		})
	}
}

// TestTick has ticks around a phase.
func TestTick(t *testing.T) {
	g := Grid{Period: 3000 * ms, Phase: 2 * ms}
	for at, want := range map[time.Duration]int64{0: 0, 1501 * ms: 0, 1502 * ms: 1, 2999 * ms: 1, 3003 * ms: 1, 5999 * ms: 2} {
		if got := g.Tick(at); got != want {
			t.Errorf("%v is on tick %d, want %d", at, got, want)
		}
	}
}
