// Package spmdtest helps to test ranks that run beside each other.
package spmdtest

import (
	"bytes"
	"log/slog"
	"testing"
	"time"
)

// Patience is how long tests wait for what must come.
const Patience = time.Minute

// Wait polls for what other goroutines bring about. If it does not come the test has
// failed, and goes on.
func Wait(t testing.TB, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(time.Millisecond) {
		if time.Since(start) > Patience {
			t.Error("waited in vain")
			return
		}
	}
}

// OnLine returns a logger that calls then for each line in which a text is. Who logs
// the line waits for then.
func OnLine(text string, then func()) *slog.Logger {
	return slog.New(slog.NewTextHandler(listener{text, then}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type listener struct {
	text string
	then func()
}

func (l listener) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(l.text)) {
		l.then()
	}
	return len(line), nil
}
