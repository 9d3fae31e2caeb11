package lanes

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/clock"
	"perigee/internal/fault"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// Case is what is measured: batches of equal blocks, over and over.
type Case struct {
	Block      int64
	Batch      int64
	Iterations int  // measured, of each lane
	Warmup     int  // not measured, before
	Recreate   bool // prepare the requests anew for every iteration
}

func (c Case) String() string { return fmt.Sprintf("%d blocks of %d bytes", c.Batch, c.Block) }

func (l *Lanes) check(c Case) error {
	switch {
	case l.closed:
		return fault.New(fault.Script, "the lanes have been closed")
	case c.Block < 1 || c.Block > l.Block:
		return fault.New(fault.Script, "blocks of %d bytes: the lanes were made for 1 to %d", c.Block, l.Block)
	case c.Batch < 1 || c.Batch > l.Batch:
		return fault.New(fault.Script, "batches of %d blocks: the lanes were made for 1 to %d", c.Batch, l.Batch)
	case c.Iterations < 1 || c.Warmup < 0:
		return fault.New(fault.Script, "%d iterations after %d: want at least 1 after 0", c.Iterations, c.Warmup)
	}
	return l.world.Err()
}

// Measure runs a case and returns what came out at rank 0, nil at the others.
func (l *Lanes) Measure(c Case) (*series.Measurement, error) {
	if err := l.check(c); err != nil {
		return nil, err
	}
	mine, err := l.measure(c)
	if err != nil {
		return nil, err
	}
	if err := l.world.SyncClocks(); err != nil {
		return nil, err
	}
	all, err := l.world.All().Gather(0, mine.Encode())
	if err != nil || all == nil {
		return nil, err
	}
	return l.join(c, all)
}

// measure runs this rank's lanes side by side. They begin when all ranks are ready.
func (l *Lanes) measure(c Case) (*series.Distribution, error) {
	records := make([]series.Distribution, len(l.lanes))
	errs := make([]error, len(l.lanes))
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	if l.initiates() {
		for i, n := range l.lanes {
			ready.Add(1)
			done.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				if errs[i] = l.play(n, c, &records[i], ready.Done, begin); errs[i] != nil {
					// The other lanes, here and elsewhere, need not go on.
					l.world.Fail(errs[i])
				}
			})
		}
	}
	ready.Wait()
	err := l.world.All().Barrier()
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
		err = l.world.All().Barrier()
	}
	sum := &series.Distribution{CPU: cpuSeconds() - before}
	for i := range records {
		sum.Merge(&records[i])
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

// play is one lane's part: prepare, warm up, say so, begin with the others, run.
func (l *Lanes) play(n *lane, c Case, r *series.Distribution, ready func(), begin <-chan struct{}) error {
	list := l.transfers(l.world.Rank(), c.Block, c.Batch, n.local.ID(), n.remoteID(), n.files)
	b, err := l.prepare(n, c, list)
	if err == nil {
		defer func() { b.Release() }()
		err = l.run(b, c, c.Warmup, func([]nixl.Times) {})
	}
	ready()
	if err != nil {
		return err
	}
	<-begin
	if err := l.world.Err(); err != nil {
		return err
	}
	r.Bytes = b.Bytes() * int64(c.Iterations)
	if !c.Recreate {
		r.Prep.Add(b.Prep())
		return l.run(b, c, c.Iterations, func(times []nixl.Times) {
			for _, t := range times {
				r.Add(series.Stamps(t))
			}
		})
	}
	for range c.Iterations {
		if err := b.Release(); err != nil {
			return link.Explain(l.world, c.String(), err)
		}
		if b, err = l.prepare(n, c, list); err != nil {
			return err
		}
		r.Prep.Add(b.Prep())
		if err := l.run(b, c, 1, func(times []nixl.Times) { r.Add(series.Stamps(times[0])) }); err != nil {
			return err
		}
	}
	return nil
}

func (n *lane) remoteID() int {
	if n.remote == nil {
		return -1
	}
	return n.remote.ID()
}

// nothing is a batch that was never prepared.
type nothing struct{ nixl.Batch }

func (nothing) Release() error { return nil }

func (l *Lanes) prepare(n *lane, c Case, list []nixl.Transfer) (nixl.Batch, error) {
	b, err := n.agent.NewBatch(list)
	if err != nil {
		return nothing{}, fault.New(link.Kind(err), "prepare %s: %w", c, err)
	}
	return b, nil
}

// mostStamps bounds the stamps that are held at a time.
const mostStamps = 1 << 14

// run runs a batch n times. Where there is a timeout, which is meant for a single run, the pieces
// that go to the engine begin small and grow as long as they take a small part of it.
func (l *Lanes) run(b nixl.Batch, c Case, n int, take func([]nixl.Times)) error {
	size := mostStamps
	if l.world.Timeout() > 0 {
		size = 1
	}
	times := make([]nixl.Times, min(n, mostStamps))
	for n > 0 {
		size = min(size, n, mostStamps)
		began := clock.Now()
		if err := b.Run(link.Control(l.world), size, times[:size]); err != nil {
			return link.Explain(l.world, c.String(), err)
		}
		take(times[:size])
		n -= size
		if time.Duration(clock.Now()-began) < l.world.Timeout()/8 {
			size *= 2
		}
	}
	return nil
}

// join makes one measurement of the records of all ranks.
func (l *Lanes) join(c Case, all [][]byte) (*series.Measurement, error) {
	m := &series.Measurement{
		Op: l.Op.String(), Local: l.Local.String(), Remote: l.Remote.String(),
		BlockBytes: c.Block, Batch: c.Batch, Threads: l.Threads, Iterations: c.Iterations, Recreate: c.Recreate,
		UncertaintyNS: l.world.Uncertainty(l.initiators()),
	}
	var sum series.Distribution
	for rank, data := range all {
		r, err := series.DecodeDistribution(data)
		if err != nil {
			return nil, fault.New(fault.Internal, "collect: times from rank %d: %w", rank, err)
		}
		part := series.RankPart{Rank: rank, Bytes: r.Bytes, CPUSeconds: r.CPU}
		if r.Start != 0 {
			part.StartNS, part.EndNS = l.world.ToCommon(rank, r.Start), l.world.ToCommon(rank, r.End)
			r.Start, r.End = part.StartNS, part.EndNS
		}
		sum.Merge(r)
		m.Ranks = append(m.Ranks, part)
	}
	m.StartNS, m.EndNS, m.Bytes, m.CPUSeconds = sum.Start, sum.End, sum.Bytes, sum.CPU
	m.Bandwidth = float64(m.Bytes) / (float64(max(m.EndNS-m.StartNS, 1)) * 1e-9)
	m.Latency, m.Prep, m.Post, m.Tx = sum.Latency.Stats(), sum.Prep.Stats(), sum.Post.Stats(), sum.Tx.Stats()
	return m, nil
}
