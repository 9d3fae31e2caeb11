package traffic

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"perigee/internal/clock"
	"perigee/internal/fault"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// Plan is a prepared pattern at one rank. A rank that takes no part has a plan
// too, which does nothing.
type Plan struct {
	Pattern
	s          *Session
	number     int // in the order of preparation, the same at all ranks
	arena      arena
	ranks      []int
	initiators []int
	actors     []int      // the initiators, and ranks with storage operations
	batch      nixl.Batch // nil where this rank initiates nothing
	peers      []int      // of the batch's transfers
	log        []series.Logged
	storage    nixl.Batch // nil where this rank has no storage operation
	storageLog []series.Logged
	wait       func() error // for a posted storage operation
	storing    chan error   // gets the outcome of a storage operation that runs; nil where there is none
	last       *nixl.Times
	posted     bool
	left       series.Exit // before what is posted
	released   bool
}

// plan prepares one pattern in the present arena.
func (s *Session) plan(p Pattern, r roles) (*Plan, error) {
	a := s.arenas[p.Mem]
	plan := &Plan{
		Pattern: p, s: s, number: s.plans, arena: a,
		ranks: p.withStorage(r.ranks), initiators: r.initiators, actors: p.withStorage(r.initiators),
	}
	s.plans++
	if err := s.planStorage(plan); err != nil {
		return nil, err
	}
	transfers := p.transfers(s.world.Rank(), a.send.ID(), a.recv.ID())
	if len(transfers) == 0 {
		return plan, nil
	}
	for _, t := range transfers {
		plan.peers = append(plan.peers, t.Peer)
	}
	var err error
	if plan.batch, err = s.agent.NewBatch(transfers); err != nil {
		return nil, fault.New(link.Kind(err), "prepare %s: %w", p.label(), err)
	}
	return plan, nil
}

// Number is the plan's place in the order of preparation, from 0.
func (p *Plan) Number() int { return p.number }

// Ranks are those that send or receive in the pattern, or have storage operations, ascending.
func (p *Plan) Ranks() []int { return p.ranks }

// Initiators are the ranks that post transfers, ascending.
func (p *Plan) Initiators() []int { return p.initiators }

// TakesPart reports whether this rank is one of Ranks.
func (p *Plan) TakesPart() bool { return contains(p.ranks, p.s.world.Rank()) }

// Initiates reports whether this rank posts transfers or has a storage operation.
func (p *Plan) Initiates() bool { return p.batch != nil || p.storage != nil }

func contains(ranks []int, r int) bool {
	_, ok := slices.BinarySearch(ranks, r)
	return ok
}

// Barrier lets the pattern's ranks meet. At other ranks it does nothing.
func (p *Plan) Barrier() error { return p.meet(p.ranks) }

// InitiatorsBarrier lets those ranks meet for which Initiates is true.
func (p *Plan) InitiatorsBarrier() error { return p.meet(p.actors) }

func (p *Plan) meet(ranks []int) error {
	if !contains(ranks, p.s.world.Rank()) {
		return nil
	}
	g, err := p.s.world.Group(ranks)
	if err != nil {
		return err
	}
	if err := g.Barrier(); err != nil {
		return err
	}
	p.s.Met(g)
	return nil
}

// usable refuses a plan that cannot be run now. All ranks find the same,
// whether they take part or not.
func (p *Plan) usable() error {
	switch {
	case p.released:
		return fault.New(fault.Script, "%s: the plan has been released", p.label())
	case p.posted:
		return fault.New(fault.Script, "%s: the plan has been posted and not waited for", p.label())
	}
	return p.s.world.Err()
}

// startable refuses runs that cannot be.
func (p *Plan) startable(n int) error {
	if n < 0 {
		return fault.New(fault.Script, "%s: %d runs, want at least 0", p.label(), n)
	}
	return p.usable()
}

// Run posts this rank's transfers and waits for them, n times. Its storage operation starts with the transfers of
// each run, and the next run begins when both are through. Where record is set the times of each run are kept for
// Collect and CollectStorage.
func (p *Plan) Run(n int, record bool) error {
	if err := p.startable(n); err != nil {
		return err
	}
	if p.storage == nil {
		return p.runMessages(n, record)
	}
	for range n {
		wait := p.startStorage(record)
		err := p.runMessages(1, record)
		if err != nil {
			p.s.world.Fail(err) // or the storage operation would go on
		}
		if err := cmp.Or(err, wait()); err != nil {
			return err
		}
	}
	return nil
}

// runMessages is Run without storage.
func (p *Plan) runMessages(n int, record bool) error {
	if p.batch == nil {
		return nil
	}
	left := p.s.takeExit()
	for size := p.firstPiece(); n > 0; {
		size = min(size, n, p.mostPiece())
		began := clock.Now()
		times := p.makeTimes(size)
		if err := p.batch.Run(link.Control(p.s.world), size, times); err != nil {
			return p.explain(err)
		}
		p.keep(times, left, record)
		left = series.Exit{}
		n -= size
		if time.Duration(clock.Now()-began) < p.s.world.Timeout()/8 {
			size *= 2
		}
	}
	return nil
}

// Runs go to the engine in pieces, which bounds the memory for their stamps.
// Where there is a timeout, which is meant for a single run and not for many,
// pieces begin small and grow as long as they take a small part of it.

const mostStamps = 1 << 20

func (p *Plan) mostPiece() int { return max(mostStamps/(3+len(p.peers)), 1) }

func (p *Plan) firstPiece() int {
	if p.s.world.Timeout() > 0 {
		return 1
	}
	return p.mostPiece()
}

func (p *Plan) makeTimes(n int) []nixl.Times {
	times := make([]nixl.Times, n)
	done := make([]int64, n*len(p.peers))
	for i := range times {
		times[i].Done, done = done[:len(p.peers)], done[len(p.peers):]
	}
	return times
}

// keep notes the times of runs, the first of which came after the exit from a barrier.
func (p *Plan) keep(times []nixl.Times, left series.Exit, record bool) {
	last := times[len(times)-1]
	p.last = &last
	if !record {
		return
	}
	for _, t := range times {
		p.log = append(p.log, series.Logged{Stamps: series.Stamps(t), Left: left})
		left = series.Exit{}
	}
}

// Post starts this rank's transfers; Wait ends them and keeps their times.
func (p *Plan) Post() error {
	if err := p.usable(); err != nil {
		return err
	}
	p.posted = true
	p.wait = p.startStorage(true)
	if p.batch == nil {
		return nil
	}
	p.left = p.s.takeExit()
	if err := p.batch.Post(); err != nil {
		return p.explain(err)
	}
	return nil
}

// waitable refuses a plan that Post has not started.
func (p *Plan) waitable() error {
	if !p.posted {
		return fault.New(fault.Script, "%s: the plan has not been posted", p.label())
	}
	return p.s.world.Err()
}

// Done reports whether Wait would return at once.
func (p *Plan) Done() (bool, error) {
	if err := p.waitable(); err != nil {
		return true, err
	}
	if p.storing != nil && len(p.storing) == 0 {
		return false, nil
	}
	if p.batch == nil {
		return true, nil
	}
	done, err := p.batch.Done()
	if err != nil {
		return false, p.explain(err)
	}
	return done, nil
}

// Wait waits for what Post has started.
func (p *Plan) Wait(record bool) error {
	if err := p.waitable(); err != nil {
		return err
	}
	p.posted = false
	if p.batch == nil {
		return p.wait()
	}
	times := p.makeTimes(1)
	if err := p.batch.Wait(link.Control(p.s.world), &times[0]); err != nil {
		return p.explain(err)
	}
	p.keep(times, p.left, record)
	return p.wait()
}

func (p *Plan) explain(err error) error { return link.Explain(p.s.world, p.label(), err) }

// Last returns the times of this rank's last run, in nanoseconds of the host's
// clock, and the peers to which its Done stamps belong. ok is false if there was
// none.
func (p *Plan) Last() (t nixl.Times, peers []int, ok bool) {
	if p.last == nil {
		return t, nil, false
	}
	return *p.last, p.peers, true
}

// Release frees the prepared transfers. What has been recorded can still be
// collected.
func (p *Plan) Release() error {
	if p.released {
		return nil
	}
	if p.posted && p.wait != nil {
		p.wait() // what comes of it does not matter any more
	}
	p.released, p.posted = true, false
	var errs []error
	if p.batch != nil {
		errs = append(errs, p.batch.Release())
	}
	if p.storage != nil {
		errs = append(errs, p.s.store.use(p.storage.Release))
	}
	if err := errors.Join(errs...); err != nil {
		return p.explain(err)
	}
	return nil
}

// way is one that bytes take from a rank.
type way struct {
	mem  nixl.Mem
	op   nixl.Op
	peer int
}

// Warmup runs plans, n times each, until this rank has reached each of its
// peers at least once in each way. The times are not kept. Files are left alone.
func Warmup(plans []*Plan, n int) error {
	seen := map[way]bool{}
	for _, p := range plans {
		fresh := false
		for _, peer := range p.peers {
			w := way{p.Mem, p.Op, peer}
			fresh = fresh || !seen[w]
			seen[w] = true
		}
		if !fresh {
			continue
		}
		if err := p.startable(n); err != nil {
			return err
		}
		if err := p.runMessages(n, false); err != nil {
			return err
		}
	}
	return nil
}
