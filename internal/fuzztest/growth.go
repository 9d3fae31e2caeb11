package fuzztest

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// Linear reports work whose time grows much faster than what it works on: make makes n of something, and returns the
// work. The processor's time counts, of the fastest of some repetitions, so that other processes hardly matter.
func Linear(t *testing.T, what string, n int, make func(n int) (work func())) {
	t.Helper()
	const times, most = 16, 100 // n log n takes up to 30 times as long, n^2 256 times
	least := func(work func()) float64 {
		best := math.Inf(1)
		for range 3 {
			before := processorSeconds(t)
			work()
			best = min(best, processorSeconds(t)-before)
		}
		return best
	}
	few, many := least(make(n)), least(make(times*n))
	if few = max(few, 2e-3); many > most*few {
		t.Errorf("%s: %d take %.4f s, %d take %.4f s", what, n, few, times*n, many)
	}
}

func processorSeconds(t *testing.T) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()) / 1e9
}
