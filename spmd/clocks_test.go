package spmd

import (
	"fmt"
	"math"
	"testing"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/must"
)

// TestShiftedAndDriftingClocks gives every rank (each a host) a clock that is
// seconds off and runs too fast or too slow, and checks that stamps of one
// moment come together on the common time line.
func TestShiftedAndDriftingClocks(t *testing.T) {
	const n = 7
	worlds, _ := NewInMemory(n)
	base := clock.Now()
	read := func(rank int, at int64) int64 {
		shift, ppm := int64(rank)*-3_000_000_000, float64(rank*100-300)
		if rank == 0 {
			return at
		}
		return at + shift + int64(float64(at-base)*ppm*1e-6)
	}
	for r, w := range worlds {
		w.localNow = func() int64 { return read(r, clock.Now()) }
	}
	// The uncertainty does not say what the drift of a parent's clock, 100 ppm faster or
	// slower at most where it has children, adds between its sample and its child's.
	const parentsDrift = 100e-6
	var between int64
	sync := func() {
		began := clock.Now()
		must.Do(t, everywhere(worlds, func(w *World) error { return w.SyncClocks() })...)
		between = max(between, int64(parentsDrift*float64(clock.Now()-began)))
	}
	sync()
	first := worlds[0].Clocks()
	time.Sleep(150 * time.Millisecond) // so that the drift is worth something: 45 us at 300 ppm
	moment := clock.Now()
	time.Sleep(150 * time.Millisecond)
	sync()
	const apart = 300e6 // nanoseconds at least between the two samples of a clock
	for _, w := range worlds {
		for r := range n {
			off := w.ToCommon(r, read(r, moment)) - moment
			limit := w.Uncertainty([]int{0, r}) + between + 1000
			if off > limit || off < -limit {
				t.Errorf("rank %d sees a stamp of rank %d %d ns off, uncertainty %d", w.Rank(), r, off, limit)
			}
		}
		for r, c := range w.Clocks() {
			// Each sample is off by its uncertainty at most, and by a little as above.
			want, limit := -float64(r*100-300), 1e6*float64(first[r].UncertaintyNS+c.UncertaintyNS+2*(between+1000))/apart
			if r > 0 && math.Abs(c.DriftPPM-want) > limit {
				t.Errorf("rank %d: drift of host %d is %.1f ppm, want %.1f within %.1f", w.Rank(), r, c.DriftPPM, want, limit)
			}
		}
	}
}

// TestClockTreeCostsLogRounds checks that no rank serves more than log2 N others.
func TestClockTreeCostsLogRounds(t *testing.T) {
	const n = 16
	worlds, _ := NewInMemory(n)
	before := make([]int64, n)
	for r, w := range worlds {
		before[r], _ = w.Sent()
	}
	must.Do(t, everywhere(worlds, func(w *World) error {
		if err := w.SyncClocks(); err != nil {
			return err
		}
		if c := w.Clocks(); len(c) != n || c[0].Samples != 0 || c[n-1].Samples != 1 {
			return fmt.Errorf("clocks %+v", c)
		}
		return nil
	})...)
	for r, w := range worlds {
		after, _ := w.Sent()
		// 4 rounds of the tree at most, one message up and two down.
		if sent := after - before[r]; sent > 4*pingRounds+3 {
			t.Errorf("rank %d sent %d messages", r, sent)
		}
	}
}
