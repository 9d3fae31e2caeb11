package experts

import (
	"encoding/binary"
	"sync/atomic"

	"perigee/internal/clock"
	"perigee/internal/pack"
	"perigee/internal/stats"
)

// Other is traffic that runs at the same ranks, on another agent: one run of a KV workload, for example.
type Other interface {
	Run(n int, record bool) error
	Initiates() bool
}

// Contention is what two kinds of traffic at the same ranks do to each other. Slowdown is the time of an iteration, or
// of a run, beside the other, over that alone.
type Contention struct {
	Alone, Beside           *Figures // of the iterations
	AloneUS, BesideUS       float64  // mean time of a run of the other traffic, over the ranks that initiate it
	Slowdown, OtherSlowdown float64
	Runs                    int // of the other traffic, beside the iterations
}

// MeasureBeside measures n iterations alone, the other traffic alone, and then both at the same time. Alone the other
// traffic runs at least so many times, and for as long as the iterations before it: a few short runs would be compared
// with thousands beside the iterations, and their chance would be the slowdown. Beside them it is repeated until all
// ranks have done their iterations. The figures are at rank 0; elsewhere it returns nil.
func (p *Plane) MeasureBeside(mode Mode, warmup, n, runs int, other Other) (*Contention, error) {
	c := &Contention{}
	var err error
	start := clock.Now()
	if c.Alone, err = p.Measure(mode, warmup, n, Steady); err != nil {
		return nil, err
	}
	took := clock.Now() - start
	if err := p.Meet(); err != nil { // all initiators start together, as they do beside the iterations
		return nil, err
	}
	until := clock.Now() + took
	alone, _, err := p.repeat(other, func(done int) bool { return done < runs || clock.Now() < until })
	if err != nil {
		return nil, err
	}
	var stop atomic.Bool
	type outcome struct {
		ns   int64
		runs int
		err  error
	}
	background := make(chan outcome, 1)
	if err := p.Meet(); err != nil {
		return nil, err
	}
	go func() {
		var o outcome
		o.ns, o.runs, o.err = p.repeat(other, func(int) bool { return !stop.Load() })
		background <- o
	}()
	c.Beside, err = p.Measure(mode, warmup, n, Steady)
	if err == nil {
		err = p.Meet() // the others' iterations want company until their end
	}
	stop.Store(true)
	o := <-background
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, err
	}
	return p.compare(c, other, alone, o.ns, o.runs)
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

// compare gathers the times of the other traffic at rank 0.
func (p *Plane) compare(c *Contention, other Other, alone, beside int64, runs int) (*Contention, error) {
	var message []byte
	if other.Initiates() {
		message = binary.AppendVarint(message, alone)
		message = binary.AppendVarint(message, beside)
		message = binary.AppendVarint(message, int64(runs))
	}
	all, err := p.world.All().Gather(0, message)
	if err != nil || p.me != 0 {
		return nil, err
	}
	var before, with []float64
	for _, message := range all {
		if len(message) == 0 {
			continue
		}
		r := pack.Read(message)
		before, with = append(before, microseconds(r.Signed())), append(with, microseconds(r.Signed()))
		c.Runs += int(r.Signed())
		if err := r.End("times of the other traffic"); err != nil {
			return nil, err
		}
	}
	c.Slowdown = c.Beside.Latency.Avg / c.Alone.Latency.Avg
	if len(before) > 0 {
		c.AloneUS, c.BesideUS = stats.Mean(before), stats.Mean(with)
		c.OtherSlowdown = c.BesideUS / c.AloneUS
	}
	return c, nil
}
