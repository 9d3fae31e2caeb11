package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// atMost is how late a sleep may end.
const atMost = 50 * time.Microsecond

// kernelSleep is what SleepUntil is measured by: the kernel's timer, which wakes the
// thread as often, and the clock for the rest.
func kernelSleep(deadline int64) {
	for _, early := range []time.Duration{2 * time.Millisecond, 150 * time.Microsecond} {
		ts := unix.NsecToTimespec(deadline - int64(early))
		unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil)
	}
	for kernelNow() < deadline {
	}
}

// TestSleepEndsInTime lets SleepUntil and the kernel sleep in turns. More than half of
// the sleeps are late by less than 50 us, unless the machine is so busy that the
// kernel's are not either. One round in which that is so will do.
func TestSleepEndsInTime(t *testing.T) {
	const rounds, sleeps = 5, 40
	var verdicts []string
	for range rounds {
		late := [2][]time.Duration{}
		for i := range sleeps {
			length := int64(300+i*100) * 1000 // 0.3 to 4.2 ms: shorter and longer than a Go timer is used for
			for who, sleep := range []func(int64){
				func(d int64) {
					must.Do(t, SleepUntil(t.Context(), d))
				},
				kernelSleep,
			} {
				deadline := kernelNow() + length
				sleep(deadline)
				over := time.Duration(kernelNow() - deadline)
				// The two clocks agree to within a fraction of a microsecond.
				if over < -time.Microsecond {
					t.Fatalf("a sleep of %d ns ended %v early", length, -over)
				}
				late[who] = append(late[who], over)
			}
		}
		slices.Sort(late[0])
		slices.Sort(late[1])
		ours, theirs := late[0][sleeps/2], late[1][sleeps/2]
		if ours < atMost || theirs >= atMost {
			return
		}
		verdicts = append(verdicts, fmt.Sprintf("%v late, those of the kernel %v", ours, theirs))
	}
	t.Errorf("sleeps end %s", strings.Join(verdicts, "; "))
}

func TestSleepIntoThePast(t *testing.T) {
	before := Now()
	must.Do(t, SleepUntil(t.Context(), before-1e9))
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	cancel(reason)
	if err := SleepUntil(ctx, Now()+int64(time.Hour)); err != reason {
		t.Errorf("got %v, want %v", err, reason)
	}
}

// TestNowIsTheKernelsClock compares with clock_gettime, read before and after.
func TestNowIsTheKernelsClock(t *testing.T) {
	const slop = 5 * time.Microsecond
	for range 1000 {
		before := kernelNow()
		now := Now()
		after := kernelNow()
		if now < before-int64(slop) || now > after+int64(slop) {
			t.Fatalf("%d is not between %d and %d", now, before, after)
		}
	}
}
