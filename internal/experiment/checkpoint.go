package experiment

import (
	"sync"
	"time"
)

// checkpoints limit the time that goes into saving what was measured to a tenth of the whole.
type checkpoints struct {
	last time.Time
	took time.Duration

	// busy is held but for the time in which the scenario waits, see Idle: then what was not saved may be.
	busy    sync.Mutex
	unsaved bool      // under busy, as are last and took
	idle    time.Time // since when it waits
	until   time.Time // when it goes on; zero if that is not known
	stop    chan struct{}
	stopped chan struct{}
}

// Between two checkpoints there is some time, and not much: a machine that has more to do may have held up the last.
// The figures of a replay, which are written as a whole, take as long as they take.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// Checkpoint adds what is new in the result to its journal, if enough time has passed since the last time and the
// result is a file. What is not saved now is when the scenario waits later. The end of the run will report what
// cannot be written now. It has an effect at rank 0 only.
func (e *Experiment) Checkpoint() {
	pause := max(leastPause, 10*e.saved.took)
	if e.Doc != nil && e.Doc.Replay == nil {
		pause = min(pause, mostPause)
	}
	e.checkpoint(pause)
}

// checkpoint saves what is new if a pause has passed since the last time.
func (e *Experiment) checkpoint(pause time.Duration) {
	c := &e.saved
	if e.Doc == nil || e.File == "" || !e.Doc.Measured() {
		return
	}
	if time.Since(c.last) < pause {
		c.unsaved = true
		if c.stop == nil {
			c.stop, c.stopped = make(chan struct{}), make(chan struct{})
			go e.saveWhileIdle(c.stop, c.stopped)
		}
		return
	}
	if !replaceable(e.File) {
		return
	}
	defer e.store()()
	start := time.Now()
	again := e.journal.stale()
	if err := e.keep(); err != nil && e.World != nil {
		e.World.Log().Warn("what is measured is not saved meanwhile", "reason", err)
	}
	if c.unsaved, c.last = false, time.Now(); !again { // writing all again comes rarely
		c.took = c.last.Sub(start)
	}
}

// Storing reports whether this rank is adding to the result what it has gathered, or writes it: if the job fails it can
// keep that, with a little more time. Any goroutine may call it.
func (e *Experiment) Storing() bool { return e.storing.Load() > 0 }

// store begins what Storing reports, until done is called.
func (e *Experiment) store() (done func()) {
	e.storing.Add(1)
	return func() { e.storing.Add(-1) }
}

// Idle lets what is unsaved be saved until Busy. The scenario calls it before it waits for other ranks or, until an
// instant, for the clock, when it does not touch the result.
func (e *Experiment) Idle(until time.Time) {
	if e.Doc != nil {
		e.saved.idle, e.saved.until = time.Now(), until
		e.saved.busy.Unlock()
	}
}

// Busy ends what Idle has begun.
func (e *Experiment) Busy() {
	if e.Doc != nil {
		e.saved.busy.Lock()
	}
}

// saveWhileIdle saves what is unsaved when it is time and the scenario waits.
func (e *Experiment) saveWhileIdle(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if e.saved.busy.TryLock() {
			if e.saved.unsaved && e.saved.longEnough() {
				e.Checkpoint()
			}
			e.saved.busy.Unlock()
		}
	}
}

// longEnough reports whether the wait leaves time for a checkpoint. One that lasted longer than the wait would make
// rank 0 late for what comes next, which may be measured.
func (c *checkpoints) longEnough() bool {
	const long = time.Second // a wait for ranks that has taken so long is not one before each of many runs
	if c.until.IsZero() {
		return time.Since(c.idle) >= long
	}
	return time.Until(c.until) > 10*c.took+100*time.Millisecond
}

// endSaving returns when nothing is saved by the way any more.
func (e *Experiment) endSaving() {
	if c := &e.saved; c.stop != nil {
		close(c.stop)
		<-c.stopped
		c.stop = nil
	}
}
