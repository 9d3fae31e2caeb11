package clock

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlop is how late a Go timer may wake a goroutine on a busy machine
	// without harm: what is left is slept by the kernel's own timer.
	timerSlop = 2 * time.Millisecond
	// spinFrom is when the thread stops sleeping and yields until the time has come:
	// a little more than the kernel's usual timer slack of 50 us.
	spinFrom = 80 * time.Microsecond
)

// SleepUntil returns when Now has reached deadline, or at once with the cause
// when ctx ends. It is not early, and on a machine that is not overloaded late by
// a few microseconds only.
func SleepUntil(ctx context.Context, deadline int64) error {
	if left := time.Duration(deadline - Now()); left > timerSlop {
		t := time.NewTimer(left - timerSlop)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for {
		left := time.Duration(deadline - Now())
		switch {
		case left <= 0:
			return context.Cause(ctx)
		case left > spinFrom:
			ts := unix.NsecToTimespec(int64(left - spinFrom))
			unix.Nanosleep(&ts, nil) // an interrupted one is repeated
		default:
			unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}
