package fuzztest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Linear reports work whose time grows much faster than what it works on: make makes n of something, and returns the
// work. One piece of work with 16 n is compared with 16 pieces with n, so that both take long enough to be measured and
// collect as much garbage. The processor's time counts, where one is not clear of the fastest of some repetitions, so
// that other processes hardly matter.
func Linear(t *testing.T, what string, n int, make func(n int) (work func())) {
	t.Helper()
	const times, most = 16, 8 // n log n takes up to twice as long, n^2 16 times
	took := func(repeat int, work func()) float64 {
		before := processorSeconds(t)
		for range repeat {
			work()
		}
		return processorSeconds(t) - before
	}
	small, large := make(n), make(times*n)
	few, many := took(times, small), took(1, large)
	for tries := 1; tries < 3 && many > most/2*few; tries++ {
		few, many = min(few, took(times, small)), min(many, took(1, large))
	}
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
