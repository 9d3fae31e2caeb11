// Package clock reads the time line of a host, sleeps until an instant on it, and puts the stamps of other hosts'
// clocks on one common line. All times are nanoseconds.
//
// Now (clock.go) is CLOCK_MONOTONIC, which all processes of one host share and which no change of the wall clock moves,
// so the stamps of ranks of one host compare as they are. SleepUntil (sleep.go) ends late by less than a microsecond as
// a rule, also on a busy machine: ranks that are to start together agree on an instant and sleep until it.
//
// A [ClockLine] (line.go) holds what has been measured of one host's clock against the reference, that of rank 0's
// host: samples of the offset, each with an uncertainty. Two clocks differ by an offset, and drift apart. Between two
// samples the offset is taken to change evenly, so a stamp that lies between them is put right for the drift as well.
// Samples that lie close together show no drift but their errors, which would stretch the time between them: they are
// joined by a drift that clocks have, at most 500 ppm, as far as the uncertainties of the samples allow. Package spmd
// takes the samples (World.SyncClocks); readers of results build Lines from those that a result has kept.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Go's own monotonic clock is the same kernel clock, read without a system
// call but with a hidden zero. base and offset tie the two together once.
var base, offset = calibrate()

func calibrate() (time.Time, int64) {
	start := time.Now()
	best, bestOffset := time.Duration(1<<62), int64(0)
	for range 50 {
		before := time.Since(start)
		raw := kernelNow()
		after := time.Since(start)
		if window := after - before; window < best {
			best = window
			bestOffset = raw - int64(before+window/2)
		}
	}
	return start, bestOffset
}

func kernelNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the kernel has had this clock since 2.6
	}
	return ts.Nano()
}

// Now returns CLOCK_MONOTONIC in nanoseconds, to within a fraction of a
// microsecond of what clock_gettime returns in any process of this host.
func Now() int64 { return int64(time.Since(base)) + offset }
