package experts

import (
	"encoding/binary"
	"runtime"
	"sync/atomic"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/pack"
	"perigee/internal/kit/stats"
)

// Other is traffic that runs at the same ranks, on another agent: one run of a KV workload, for example.
type Other interface {
	Run(n int, record bool) error
	Initiates() bool
}

// Contention measures how two kinds of traffic at the same ranks slow each other down. Slowdown is the time of an
// iteration, or of a run, beside the other, over that alone.
type Contention struct {
	Alone, Beside           *PlaneFigures // of the iterations
	AloneUS, BesideUS       float64       // mean time of a run of the other traffic, over the ranks that initiate it
	Slowdown, OtherSlowdown float64
	Runs                    int // of the other traffic, beside the iterations
	// BusyUS is the mean time of an iteration beside threads that only poll, one on each rank that initiates the other
	// traffic, and OtherBusyUS that of a run of it beside such threads on all ranks: what a CPU costs that both need.
	BusyUS, OtherBusyUS float64
}

// MeasureBeside measures n iterations alone, the other traffic alone, each beside threads that only poll, and then both
// at the same time. Alone and beside polling the other traffic runs at least so many times, and for as long as the
// iterations before it: a few short runs would be compared with thousands beside the iterations, and their chance would
// be the slowdown. Beside the iterations it is repeated until all ranks have done them. The figures are at rank 0;
// elsewhere it returns nil. With save, which all ranks have or none, rank 0 calls it with the figures of the iterations
// alone while these are measured, and when they are: a pause beside the other traffic would be in what is compared.
func (p *Plane) MeasureBeside(
	mode Mode, warmup, n, runs int, other Other, save func(*PlaneFigures) error,
) (*Contention, error) {
	c := &Contention{}
	var err error
	start := clock.Now()
	if c.Alone, err = p.Measure(mode, warmup, n, Steady, save); err != nil {
		return nil, err
	}
	if save != nil && c.Alone != nil {
		if err := save(c.Alone); err != nil {
			return nil, err
		}
	}
	took := clock.Now() - start
	var times [3]int64 // of a run of the other traffic: alone, beside polling, beside the iterations
	var count int
	for k := range 2 {
		if err := p.Meet(); err != nil { // all initiators start together, as they do beside the iterations
			return nil, err
		}
		var polled func()
		if k == 1 {
			polled = poll()
		}
		until := clock.Now() + took
		times[k], _, err = p.repeat(other, func(done int) bool { return done < runs || clock.Now() < until })
		if k == 1 {
			polled()
		}
		if err != nil {
			return nil, err
		}
	}
	busy, err := p.measureWith(mode, warmup, n, func(wanted func() bool) error {
		for other.Initiates() && wanted() {
			runtime.Gosched()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.Beside, err = p.measureWith(mode, warmup, n, func(wanted func() bool) (err error) {
		times[2], count, err = p.repeat(other, func(int) bool { return wanted() })
		return err
	}); err != nil {
		return nil, err
	}
	if busy != nil {
		c.BusyUS = busy.Latency.Avg
	}
	return p.compare(c, other, times, count)
}

// poll keeps a thread busy until the returned function is called.
func poll() (end func()) {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			runtime.Gosched()
		}
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}

// measureWith measures n iterations beside something that goes on as long as it is wanted.
func (p *Plane) measureWith(mode Mode, warmup, n int, beside func(wanted func() bool) error) (*PlaneFigures, error) {
	var stop atomic.Bool
	background := make(chan error, 1)
	if err := p.Meet(); err != nil {
		return nil, err
	}
	go func() { background <- beside(func() bool { return !stop.Load() }) }()
	figures, err := p.Measure(mode, warmup, n, Steady, nil)
	if err == nil {
		err = p.Meet() // the others' iterations want company until their end
	}
	stop.Store(true)
	if failed := <-background; err == nil {
		err = failed
	}
	return figures, err
}

// repeat runs the other traffic as long as it is wanted, and returns the mean time of a run and how many there were.
func (p *Plane) repeat(other Other, wanted func(done int) bool) (ns int64, runs int, err error) {
	if !other.Initiates() {
		return 0, 0, nil
	}
	start := clock.Now()
	for runs == 0 || wanted(runs) {
		if err := other.Run(1, false); err != nil {
			p.world.Fail(err) // or the iterations would go on
			return 0, 0, err
		}
		runs++
	}
	return (clock.Now() - start) / int64(runs), runs, nil
}

// compare gathers the times of a run of the other traffic at rank 0: alone, beside polling and beside the iterations.
func (p *Plane) compare(c *Contention, other Other, times [3]int64, runs int) (*Contention, error) {
	var message []byte
	if other.Initiates() {
		for _, ns := range times {
			message = binary.AppendVarint(message, ns)
		}
		message = binary.AppendVarint(message, int64(runs))
	}
	all, err := p.world.All().Gather(0, message)
	if err != nil || p.me != 0 {
		return nil, err
	}
	var of [len(times)][]float64
	for _, message := range all {
		if len(message) == 0 {
			continue
		}
		r := pack.Read(message)
		for k := range of {
			of[k] = append(of[k], microseconds(r.Signed()))
		}
		c.Runs += int(r.Signed())
		if err := r.End("times of the other traffic"); err != nil {
			return nil, err
		}
	}
	c.Slowdown = c.Beside.Latency.Avg / c.Alone.Latency.Avg
	if len(of[0]) > 0 {
		c.AloneUS, c.OtherBusyUS, c.BesideUS = stats.Mean(of[0]), stats.Mean(of[1]), stats.Mean(of[2])
		c.OtherSlowdown = c.BesideUS / c.AloneUS
	}
	return c, nil
}
