package fuzztest

import (
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

// Linear reports work whose time grows much faster than what it works on: make makes n of something, and returns the
// work. One piece of work with 16 n is compared with 16 pieces with n, so that both take long enough to be measured and
// collect as much garbage. The processor's time counts, of the fastest of some repetitions, so that other processes
// hardly matter.
func Linear(t *testing.T, what string, n int, make func(n int) (work func())) {
	t.Helper()
	const times, most = 16, 8 // n log n takes up to twice as long, n^2 16 times
	least := func(repeat int, work func()) float64 {
		best := math.Inf(1)
		for range 3 {
			before := processorSeconds(t)
			for range repeat {
				work()
			}
			best = min(best, processorSeconds(t)-before)
		}
		return best
	}
	few, many := least(times, make(n)), least(1, make(times*n))
	t.Logf("%s: %d take %.4f s %d times, %d take %.4f s", what, n, few, times, times*n, many)
	if few = max(few, 0.02); many > most*few {
		t.Errorf("%s: %d take %.4f s %d times, %d take %.4f s", what, n, few, times, times*n, many)
	}
}

func processorSeconds(t *testing.T) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()) / 1e9
}
