package play

import (
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/series"
	"perigee/nixl"
	"perigee/spmd"
)

// Repeat is how a plan is measured: over and over, each lane by its own thread and at its own pace.
type Repeat struct {
	Iterations int  // measured, of each lane
	Warmup     int  // not measured, before
	Recreate   bool // prepare the requests anew for every iteration
	Depth      int  // iterations of a lane under way at the same time; 0 is 1
	Prepared   bool // pick the requests from prepared lists of descriptors
	Reregister bool // register the initiator's memory anew for every iteration, and prepare the requests
	// Progress, if set, is called from time to time with the bytes that a lane of this rank has moved since.
	Progress func(bytes int64)
	// Save, which all ranks have or none, is called at rank 0 about every second with the figures so far, while the
	// lanes go on.
	Save func(*series.Measurement) error
}

// check validates what goes together.
func (r Repeat) check() error {
	switch {
	case r.Iterations < 1 || r.Warmup < 0:
		return fault.New(fault.Script, "%d iterations after %d: want at least 1 after 0", r.Iterations, r.Warmup)
	case r.Depth < 0 || r.Depth > mostDepth:
		return fault.New(fault.Input, "a pipeline of %d iterations: want 1 to %d", r.Depth, mostDepth)
	case r.Depth > 1 && (r.Recreate || r.Reregister):
		return fault.New(fault.Input, "a pipeline of %d iterations cannot prepare its requests anew for each", r.Depth)
	}
	return nil
}

// mostDepth bounds a pipeline: each iteration under way has its own prepared requests.
const mostDepth = 1024

// laneTimes are what one lane has measured since that was last taken.
type laneTimes struct {
	mu    sync.Mutex
	since series.Distribution
}

func (l *laneTimes) add(bytes int64, times []nixl.Times) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since.Bytes += bytes * int64(len(times))
	for _, t := range times {
		l.since.Add(series.Stamps(t))
	}
}

func (l *laneTimes) prepared(ns int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since.Prep.Add(ns)
}

// take returns what is new, and forgets it.
func (l *laneTimes) take() (d series.Distribution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, l.since = l.since, d
	return d
}

// measureOwn runs a plan's lanes side by side, lets gather bring what this rank's lanes have measured to rank 0 from
// time to time, and returns the rest of it, with all CPU time. All ranks call it; they begin when all are ready, and
// return when all are through. Without gather the rest is all.
func (p *LoadPlan) measureOwn(r Repeat, gather gatherer) (*series.Distribution, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := p.runnable(); err != nil {
		return nil, err
	}
	w := p.s.World()
	lanes := make([]laneTimes, len(p.parts))
	errs := make([]error, len(p.parts))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i, k := range p.parts {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if errs[i] = k.Use(func() error { return p.measure(k, r, &lanes[i], ready.Done, begin) }); errs[i] != nil {
				w.Fail(errs[i]) // the other lanes, here and elsewhere, need not go on
			}
		})
	}
	ready.Wait()
	err := w.All().Barrier()
	before := cpuSeconds()
	close(begin)
	take := func() *series.Distribution {
		sum := &series.Distribution{CPU: cpuSeconds() - before}
		for i := range lanes {
			lane := lanes[i].take()
			sum.Merge(&lane)
		}
		return sum
	}
	if gather != nil && err == nil {
		if err = p.gatherWhile(&done, take, gather); err != nil {
			w.Fail(err)
		}
	}
	done.Wait()
	for _, e := range errs {
		if e != nil {
			return nil, e
		}
	}
	if err == nil {
		// A peer's processor works until its initiators are through.
		err = w.All().Barrier()
	}
	return take(), err
}

// gatherer brings what is new at all ranks to rank 0, and returns how many nanoseconds it had work there.
type gatherer func(mine *series.Distribution) (took int64, err error)

// savePauses is how many times as long as rank 0 needs for what has come passes at least until more comes.
const savePauses = 10

// gatherWhile lets all ranks bring what is new to rank 0 until the lanes of all are through.
func (p *LoadPlan) gatherWhile(
	lanes *sync.WaitGroup, take func() *series.Distribution, gather gatherer,
) error {
	w := p.s.World()
	done := make(chan struct{})
	go func() {
		lanes.Wait()
		close(done)
	}()
	for state := []int64{0, 0}; int(state[0]) < w.Size(); { // ranks that are through, time at rank 0
		every := max(spmd.SaveEvery, savePauses*time.Duration(state[1]))
		if t := w.Timeout(); t > 0 {
			every = min(every, t/4) // the others wait so long for a rank that still measures
		}
		through := int64(0)
		select {
		case <-done:
			through = 1
		case <-time.After(every):
		case <-w.Context().Done():
			return w.Err()
		}
		took, err := gather(take())
		if err != nil {
			return err
		}
		if state, err = spmd.AllReduce(w.All(), []int64{through, took}, spmd.Sum); err != nil {
			return err
		}
	}
	return nil
}

// cpuSeconds returns the CPU time that the process has used, in user and kernel mode.
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// mostHeld bounds the stamps that a measuring lane holds at a time, and progressBytes the bytes between two reports of
// progress: so many that a report costs nothing beside them.
const (
	mostHeld      = 1 << 14
	progressBytes = 4 << 30
)

// measure is one lane's part: warm up, report ready, begin with the others, run.
func (p *LoadPlan) measure(k *part, r Repeat, kept *laneTimes, ready func(), begin <-chan struct{}) error {
	m := &maker{plan: p, part: k, repeat: r, list: p.Transfers(p.s.World().Rank(), k.Number)}
	defer m.release()
	batches, err := m.start()
	bytes, most := k.batch.Bytes(), mostHeld
	if r.Progress != nil {
		most = int(max(1, min(mostHeld, progressBytes/max(bytes, 1))))
	}
	bare := &part{Bound: k.Bound} // without stamps of single transfers
	brief := 1                    // iterations until the next look at the clock
	run := func(n int, take func([]nixl.Times)) error {
		once := k.batch.Run
		if len(batches) > 1 {
			once = func(ctl nixl.Control, n int, times []nixl.Times) error {
				return nixl.Pipeline(ctl, batches, n, times)
			}
		}
		for n > 0 {
			size, began := n, clock.Now()
			if r.Save != nil {
				size = min(n, brief)
			}
			err := p.pieces(bare, once, size, most, func() error { return nil }, func(times []nixl.Times) {
				take(times)
				if r.Progress != nil {
					r.Progress(bytes * int64(len(times)))
				}
			})
			if err != nil {
				return err
			}
			n, brief = n-size, briefly(size, clock.Now()-began)
		}
		return nil
	}
	if err == nil {
		err = run(r.Warmup, func([]nixl.Times) {})
	}
	ready()
	if err != nil {
		return err
	}
	<-begin
	if err := p.s.World().Err(); err != nil {
		return err
	}
	keep := func(times []nixl.Times) { kept.add(bytes, times) }
	if !r.Recreate && !r.Reregister {
		for _, b := range batches {
			kept.prepared(b.Prep())
		}
		return run(r.Iterations, keep)
	}
	for range r.Iterations {
		prep, err := m.again()
		if err != nil {
			return err
		}
		kept.prepared(prep)
		if err := run(1, keep); err != nil {
			return err
		}
	}
	return nil
}

// briefly is how many iterations take half as long as what is saved may be old, where so many took so long: not very
// many more, since the first are not like others.
func briefly(n int, took int64) int {
	const growth = 64
	return max(1, min(int(int64(n)*int64(spmd.SaveEvery/2)/max(took, 1)), growth*n))
}
