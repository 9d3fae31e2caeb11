// Package spmdtest helps to test ranks that run beside each other, in one process or in several. It knows nothing of
// worlds, so that the packages below spmd can use it, too.
//
// Wait polls for what other goroutines bring about. Cues (spmdtest.go) make a test act at the moment when a line with
// a text is logged, which is how a test gets between two steps of a protocol without sleeping. Alter and Between
// (alter.go) put a proxy between two ends of a connection, which changes or cuts what passes. FreePorts (ports.go)
// finds TCP ports on which no process listens.
package spmdtest

import (
	"bytes"
	"log/slog"
	"testing"
	"time"
)

// Patience is how long tests wait for what must come.
const Patience = 5 * time.Minute

// Wait polls for what other goroutines bring about. If it does not come the test has
// failed, and goes on.
func Wait(t testing.TB, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(start) > Patience {
			t.Error("timed out waiting")
			return
		}
	}
}

// Cues act, once, when a line with a text is logged. The goroutine that logs it waits for that.
type Cues map[string]func()

// Logger returns a logger that follows the cues.
func (c Cues) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write takes a line, one at a time.
func (c Cues) Write(line []byte) (int, error) {
	for text, do := range c {
		if bytes.Contains(line, []byte(text)) {
			delete(c, text)
			do()
		}
	}
	return len(line), nil
}
