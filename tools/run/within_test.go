package run

import (
	"testing"
	"time"
)

// What never ends is left when its time is over, or when the user will not wait for it.
func TestWithin(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	defer close(over)
	never := func() { <-over }
	within(time.Millisecond, nil, never)
	now := make(chan struct{})
	close(now)
	within(time.Hour, now, never)
	done := false
	within(time.Hour, nil, func() { done = true })
	if !done {
		t.Error("it was left before it was done")
	}
}
