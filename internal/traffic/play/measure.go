package play

import (
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/traffic/series"
	"perigee/nixl"
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

// measureOwn runs a plan's lanes side by side and returns what this rank's lanes measured. All ranks call it; they
// begin when all are ready, and return when all are through.
func (p *Plan) measureOwn(r Repeat) (*series.Distribution, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := p.runnable(); err != nil {
		return nil, err
	}
	w := p.s.World()
	parts := make([]series.Distribution, len(p.parts))
	errs := make([]error, len(p.parts))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i, k := range p.parts {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if errs[i] = k.Use(func() error { return p.measure(k, r, &parts[i], ready.Done, begin) }); errs[i] != nil {
				w.Fail(errs[i]) // the other lanes, here and elsewhere, need not go on
			}
		})
	}
	ready.Wait()
	err := w.All().Barrier()
	before := cpuSeconds()
	close(begin)
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
	sum := &series.Distribution{CPU: cpuSeconds() - before}
	for i := range parts {
		sum.Merge(&parts[i])
	}
	return sum, err
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
func (p *Plan) measure(k *part, r Repeat, d *series.Distribution, ready func(), begin <-chan struct{}) error {
	m := &maker{plan: p, part: k, repeat: r, list: p.Transfers(p.s.World().Rank(), k.Number)}
	defer m.release()
	batches, err := m.start()
	bytes, most := k.batch.Bytes(), mostHeld
	if r.Progress != nil {
		most = int(max(1, min(mostHeld, progressBytes/max(bytes, 1))))
	}
	bare := &part{Bound: k.Bound} // without stamps of single transfers
	run := func(n int, take func([]nixl.Times)) error {
		once := k.batch.Run
		if len(batches) > 1 {
			once = func(ctl nixl.Control, n int, times []nixl.Times) error {
				return nixl.Pipeline(ctl, batches, n, times)
			}
		}
		return p.pieces(bare, once, n, most, func() error { return nil }, func(times []nixl.Times) {
			take(times)
			if r.Progress != nil {
				r.Progress(bytes * int64(len(times)))
			}
		})
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
	d.Bytes = bytes * int64(r.Iterations)
	keep := func(times []nixl.Times) {
		for _, t := range times {
			d.Add(series.Stamps(t))
		}
	}
	if !r.Recreate && !r.Reregister {
		for _, b := range batches {
			d.Prep.Add(b.Prep())
		}
		return run(r.Iterations, keep)
	}
	for range r.Iterations {
		prep, err := m.again()
		if err != nil {
			return err
		}
		d.Prep.Add(prep)
		if err := run(1, keep); err != nil {
			return err
		}
	}
	return nil
}
