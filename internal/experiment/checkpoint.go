package experiment

import (
	"sync"
	"time"

	"perigee/spmd"
)

// checkpoints limit the time that goes into saving unfinished results to a tenth of the whole.
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

// Checkpoint saves the result as it is now, if enough time has passed since the last checkpoint and the next one can
// replace this one. What is not saved now is when the scenario waits later. The end of the run will report what cannot
// be written now. It has an effect at rank 0 only.
func (e *Experiment) Checkpoint() { e.checkpoint(0, 10) }

// CheckpointSparingly is Checkpoint for what comes often, such as samples, between which something may be measured: a
// checkpoint delays rank 0. It takes a fiftieth of the time at most, every two seconds.
func (e *Experiment) CheckpointSparingly() { e.checkpoint(spmd.SaveEvery, spmd.SaveShare) }

// checkpoint saves the result if a pause has passed since the last time, and so many times as long as that took.
func (e *Experiment) checkpoint(pause time.Duration, times int) {
	c := &e.saved
	if e.Doc == nil || e.File == "" || !e.Doc.Measured() {
		return
	}
	if since := time.Since(c.last); since < pause || since < time.Duration(times)*c.took {
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
	if put, _ := e.Doc.WriteClaimed(e.World.Context(), e.claim.settle); put != nil {
		e.claim.wrote(put)
	}
	e.File = e.claim.path
	c.unsaved, c.last, c.took = false, time.Now(), time.Since(start)
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
				e.CheckpointSparingly()
			}
			e.saved.busy.Unlock()
		}
	}
}

// longEnough reports whether the wait leaves time for a checkpoint. One that lasted longer than the wait would make
// rank 0 late for what comes next, which may be measured.
func (c *checkpoints) longEnough() bool {
	const long = 10 * time.Second // a wait for ranks that has taken so long is not one before each of many runs
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
