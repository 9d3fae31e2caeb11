package spmd

import (
	"context"
	"sync"
	"time"
)

// limited is a context that ends at a time. Unlike one of context.WithDeadline it costs a timer only once
// something waits for it: most waits of a collective are over before that, and a barrier of a few microseconds
// would pay more for its timers than for the rest of its Go code.
type limited struct {
	context.Context // the parent
	until           time.Time
	cause           error // of its end

	mu      sync.Mutex
	timed   context.Context // nil until it is needed
	cancel  context.CancelFunc
	stopped bool
}

// limit returns a context that ends after d, with a cause. It must be stopped.
func limit(parent context.Context, d time.Duration, cause error) *limited {
	return &limited{Context: parent, until: time.Now().Add(d), cause: cause}
}

// stop ends the context, as a CancelFunc does.
func (l *limited) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.cancel != nil {
		l.cancel()
	}
}

// full returns the context with its timer.
func (l *limited) full() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.cancel = context.WithDeadlineCause(l.Context, l.until, l.cause)
		if l.stopped {
			l.cancel()
		}
	}
	return l.timed
}

// Deadline implements context.Context.
func (l *limited) Deadline() (time.Time, bool) {
	if of, ok := l.Context.Deadline(); ok && of.Before(l.until) {
		return of, true
	}
	return l.until, true
}

// Done implements context.Context.
func (l *limited) Done() <-chan struct{} { return l.full().Done() }

// Err implements context.Context.
func (l *limited) Err() error { return l.full().Err() }

// Value implements context.Context. context.Cause asks it for the cause.
func (l *limited) Value(key any) any { return l.full().Value(key) }
