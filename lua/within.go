package lua

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/heap"
	"perigee/internal/size"
)

// limits bound what a script may take before it runs as part of a job, where nothing else watches it.
type limits struct {
	time time.Duration
	heap int64 // bytes that the process's heap may grow by
}

// topLevel bounds what does little more than describe the scenario.
var topLevel = limits{time.Minute, 320 << 20}

// asking bounds the function ranks, which may read matrices.
var asking = limits{10 * time.Minute, 4 << 30}

// patience is how long a part of the script that has to end may go on: a library function that is running is not
// interrupted.
const patience = time.Second

// allowance is what holds a part of the script, as its context knows it.
type allowance struct {
	left func() int64 // bytes of memory that are left to it
	end  func()       // it, with the error that it has filled its memory
}

type allowanceKey struct{}

// allowanceOf is what holds the part of the script that is running, nil if nothing does. A coroutine has the context of
// the part that has made it, and runs in another, maybe.
func allowanceOf(L *glua.LState) *allowance {
	if L.Context() == nil {
		return nil
	}
	current, ok := L.Context().Value(allowanceKey{}).(*atomic.Pointer[allowance])
	if !ok {
		return nil
	}
	return current.Load()
}

// within calls f, which runs a part of the script, and ends it when it takes too much, or else leaves it to itself:
// then nothing can be done with the state any more. what names the part.
func (r *Runtime) within(most limits, what string, f func() error) error {
	defer heap.Limit(heap.Bytes() + most.heap)() // so that garbage does not come on top
	ctx, cancel := context.WithCancelCause(context.Background())
	// Coroutines that the script makes now keep the context, so it ends with the state.
	r.stops = append(r.stops, cancel)
	ends := slices.Clone(r.stops) // a coroutine of an earlier part runs in this one, maybe
	end := func(err error) {
		for _, stop := range ends {
			stop(err)
		}
	}
	over, watching, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(watching)
		watch(over, most, what, end)
	}()
	first := heap.Bytes()
	r.current.Store(&allowance{
		left: func() int64 { return most.heap - (heap.Bytes() - first) },
		end:  func() { end(filled(what, most)) },
	})
	defer r.current.Store(nil)
	r.L.SetContext(context.WithValue(ctx, allowanceKey{}, &r.current))
	go func() { ended <- f() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(patience):
			r.left = true
			return context.Cause(ctx)
		}
	}
	r.L.RemoveContext()
	close(over)
	<-watching
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watch cancels with an error when the limits are passed, unless over is closed before.
func watch(over <-chan struct{}, most limits, what string, cancel context.CancelCauseFunc) {
	err := heap.Watch(over, func(took time.Duration, grown func() int64) error {
		switch {
		case grown() > most.heap:
			return filled(what, most)
		case took > most.time:
			return fault.New(fault.Script, "%s has not ended after %v", what, most.time).
				WithHint("what takes time belongs into its function run")
		}
		return nil
	})
	if err != nil {
		cancel(err)
	}
}

func filled(what string, most limits) error {
	return fault.New(fault.Script, "%s has filled more than %s of memory", what, size.Binary(most.heap)).
		WithHint("what a scenario keeps belongs into its function run")
}
