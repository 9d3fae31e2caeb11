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
	// spinFrom is when the thread stops sleeping and looks at the clock until the
	// time has come: a few times what the kernel needs to wake it.
	spinFrom = 80 * time.Microsecond
	// slack is by how much the kernel may delay a wake-up to save power. The usual
	// 50 us would be most of what a sleep may be late.
	slack = 1 * time.Nanosecond
)

// SleepUntil returns when Now has reached deadline, or at once with the cause
// when ctx ends. It is not early, and late by less than a microsecond as a rule,
// on a busy machine too: the thread does not give up its core in the last moment,
// since the process that gets it then keeps it for milliseconds.
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
	wake := deadline - int64(spinFrom)
	if Now() < wake {
		// of this thread; without it sleeps are late, not wrong
		unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
	}
	for Now() < wake {
		ts := unix.NsecToTimespec(wake)
		unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) // an interrupted one is repeated
	}
	for Now() < deadline {
	}
	return context.Cause(ctx)
}
