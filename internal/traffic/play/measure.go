package play

import (
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// Repeat is how a plan is measured: over and over, each lane by its own thread and at its own pace.
type Repeat struct {
	Iterations int  // measured, of each lane
	Warmup     int  // not measured, before
	Recreate   bool // prepare the requests anew for every iteration
}

// Measure runs a plan's lanes side by side and returns what this rank's lanes measured. All ranks call it; they
// begin when all are ready, and return when all are through.
func (p *Plan) Measure(r Repeat) (*series.Distribution, error) {
	if r.Iterations < 1 || r.Warmup < 0 {
		return nil, fault.New(fault.Script, "%d iterations after %d: want at least 1 after 0", r.Iterations, r.Warmup)
	}
	if err := p.Usable(); err != nil {
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

// cpuSeconds is what the process has used, in user and kernel mode.
func cpuSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// mostHeld bounds the stamps that a measuring lane holds at a time.
const mostHeld = 1 << 14

// measure is one lane's part: warm up, report ready, begin with the others, run.
func (p *Plan) measure(k *part, r Repeat, d *series.Distribution, ready func(), begin <-chan struct{}) error {
	bare := &part{Bound: k.Bound} // without stamps of single transfers
	run := func(n int, take func([]nixl.Times)) error {
		return p.pieces(bare, k.batch, n, mostHeld, func() error { return nil }, take)
	}
	err := run(r.Warmup, func([]nixl.Times) {})
	ready()
	if err != nil {
		return err
	}
	<-begin
	if err := p.s.World().Err(); err != nil {
		return err
	}
	d.Bytes = k.batch.Bytes() * int64(r.Iterations)
	keep := func(times []nixl.Times) {
		for _, t := range times {
			d.Add(series.Stamps(t))
		}
	}
	if !r.Recreate {
		d.Prep.Add(k.batch.Prep())
		return run(r.Iterations, keep)
	}
	list := p.Transfers(p.s.World().Rank(), k.Number)
	for range r.Iterations {
		if err := p.recreate(k, list); err != nil {
			return err
		}
		d.Prep.Add(k.batch.Prep())
		if err := run(1, keep); err != nil {
			return err
		}
	}
	return nil
}

// recreate prepares a part's requests anew. The caller holds the lane.
func (p *Plan) recreate(k *part, list []load.Transfer) error {
	if err := k.batch.Release(); err != nil {
		return link.Explain(p.s.World(), p.what(k), err)
	}
	b, err := k.BatchHeld(list)
	if err != nil {
		return fault.New(fault.KindOf(err), "prepare %s: %w", p.what(k), err)
	}
	k.batch = b
	return nil
}
