// Package spmdtest helps to test ranks that run beside each other.
package spmdtest

import (
	"testing"
	"time"
)

// patience is how long tests wait for what must come.
const patience = 10 * time.Second

// Wait polls for what other goroutines bring about. If it does not come the test has
// failed, and goes on.
func Wait(t testing.TB, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Error("waited in vain")
			return
		}
	}
}
