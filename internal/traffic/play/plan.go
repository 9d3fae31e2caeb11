package play

import (
	"errors"
	"fmt"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// LoadPlan is a prepared load at one rank. A rank that takes no part has a plan
// too, which does nothing.
type LoadPlan struct {
	*session.Reserved
	s        *session.Session
	parts    []*part   // that this rank posts, one per lane
	requests *requests // of a schedule, which has no parts; nil of other loads
	clocked  bool      // the initiators agree on an instant, and start at it
	gap      bool      // in the time since the last run, which is no part of any
	posted   bool
	released bool
}

// part lists the pieces that this rank posts on one lane.
type part struct {
	*session.Bound
	posts  []load.Post
	batch  nixl.Batch
	log    []series.Logged
	last   *nixl.Times
	before before // what is posted came after this
	// running gets the outcome of a run in another goroutine; nil if there is none.
	running chan error
}

// Prepare makes plans for loads. Like all of a session's collectives it is called by all ranks with the same loads in
// the same order. The errors are those of session.Reserve, and of the engine where it cannot prepare the requests.
func Prepare(s *session.Session, loads []load.Load) ([]*LoadPlan, error) {
	reserved, err := s.Reserve(loads)
	if err != nil {
		return nil, err
	}
	plans := make([]*LoadPlan, len(reserved))
	for i, r := range reserved {
		if plans[i], err = newPlan(s, r); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// Apart makes plans of patterns that move the same bytes as the given ones, no two of them in the same memory, so that
// what one of them leaves is still there when all have run. It returns nil where they do not fit into the memory of a
// host or a GPU. Plans with storage operations stay as they are. All ranks call it.
func Apart(s *session.Session, plans []*LoadPlan) ([]*LoadPlan, error) {
	list := slices.Clone(plans)
	var patterns []load.Pattern
	var at, numbers []int
	for i, p := range plans {
		if err := p.Usable(); err != nil {
			return nil, err
		}
		if pattern, ok := patternOf(p); ok {
			patterns, at, numbers = append(patterns, pattern), append(at, i), append(numbers, p.Number)
		}
	}
	loads := make([]load.Load, len(patterns))
	for k, p := range load.Apart(patterns) {
		if loads[k] = p; plans[at[k]].clocked {
			loads[k] = load.Clocked{Load: p}
		}
	}
	if fits, err := s.Fits(loads); err != nil || !fits {
		return nil, err
	}
	reserved, err := s.ReserveAgain(loads, numbers)
	if err != nil {
		return nil, err
	}
	for k, r := range reserved {
		if list[at[k]], err = newPlan(s, r); err != nil {
			return nil, err
		}
	}
	group := s.NewGroup()
	for _, p := range list {
		p.Group = group
	}
	return list, nil
}

// patternOf returns the pattern of a plan, if it is one without storage operations.
func patternOf(p *LoadPlan) (load.Pattern, bool) {
	l := p.Load
	if c, ok := l.(load.Clocked); ok {
		l = c.Load
	}
	pattern, ok := l.(load.Pattern)
	return pattern, ok && len(pattern.Storage) == 0
}

// New makes a plan of one load.
func New(s *session.Session, l load.Load) (*LoadPlan, error) {
	plans, err := Prepare(s, []load.Load{l})
	if err != nil {
		return nil, err
	}
	return plans[0], nil
}

// newPlan prepares this rank's transfers on each lane where it posts something. A rank that only receives gets a plan
// without parts, since it still takes part in barriers and verification.
func newPlan(s *session.Session, r *session.Reserved) (*LoadPlan, error) {
	p := &LoadPlan{Reserved: r, s: s}
	_, p.clocked = r.Load.(load.Clocked)
	if schedule, ok := r.Load.(load.Schedule); ok {
		k := r.Lanes[0]
		p.requests = newRequests(schedule.Own(s.World().Rank()), k.BatchHeld)
		return p, nil
	}
	for _, b := range r.Lanes {
		posts := r.Posts(nil, s.World().Rank(), b.Number)
		if len(posts) == 0 {
			continue
		}
		k := &part{Bound: b, posts: posts}
		var err error
		if k.batch, err = p.prepare(k); err != nil {
			return nil, err
		}
		p.parts = append(p.parts, k)
	}
	return p, nil
}

func (p *LoadPlan) prepare(k *part) (nixl.Batch, error) {
	b, err := k.Batch(p.Transfers(p.s.World().Rank(), k.Number))
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "prepare %s: %w", p.what(k), err)
	}
	return b, nil
}

// what names a part in messages.
func (p *LoadPlan) what(k *part) string {
	switch {
	case k.Number == load.Files:
		return "storage_ops of " + p.Label()
	case k.Number.Given() > 0:
		return fmt.Sprintf("%s, lane %d", p.Label(), k.Number.Given())
	}
	return p.Label()
}

// Prep is how long the engine took to prepare this rank's transfers, in nanoseconds, without buffers and connections.
func (p *LoadPlan) Prep() (ns int64) {
	for _, k := range p.parts {
		ns += k.batch.Prep()
	}
	return ns
}

// Session is the session whose buffers the plan uses.
func (p *LoadPlan) Session() *session.Session { return p.s }

// TakesPart reports whether this rank is one of Ranks.
func (p *LoadPlan) TakesPart() bool { return contains(p.Ranks, p.s.World().Rank()) }

// Initiates reports whether this rank posts transfers or has a storage operation.
func (p *LoadPlan) Initiates() bool { return contains(p.Actors, p.s.World().Rank()) }

func contains(ranks []int, r int) bool {
	_, ok := slices.BinarySearch(ranks, r)
	return ok
}

// Barrier lets the ranks of the plan meet. At other ranks it does nothing. It fails when the job has failed, or at
// --timeout.
func (p *LoadPlan) Barrier() error { return p.meet(p.Ranks) }

// InitiatorsBarrier lets those ranks meet for which Initiates is true.
func (p *LoadPlan) InitiatorsBarrier() error { return p.meet(p.Actors) }

func (p *LoadPlan) meet(ranks []int) error {
	if !contains(ranks, p.s.World().Rank()) {
		return nil
	}
	g, err := p.s.World().Group(ranks)
	if err != nil {
		return err
	}
	if err := g.Barrier(); err != nil {
		return err
	}
	p.s.Met(g)
	return nil
}

// Usable returns an error if the plan can not be run now. All ranks get the same,
// whether they take part or not.
func (p *LoadPlan) Usable() error {
	switch {
	case p.released:
		return fault.New(fault.Script, "%s: the plan has been released", p.Label())
	case p.posted:
		return fault.New(fault.Script, "%s: the plan has been posted and not waited for", p.Label())
	}
	return p.s.World().Err()
}

// checkRuns validates a number of runs.
func (p *LoadPlan) checkRuns(n int) error {
	if n < 0 {
		return fault.New(fault.Script, "%s: %d runs, want at least 0", p.Label(), n)
	}
	return p.runnable()
}

// runnable is Usable for what moves all transfers at once.
func (p *LoadPlan) runnable() error {
	if p.requests != nil {
		return fault.New(fault.Script, "%s: a schedule is followed (Plan.Follow), not run", p.Label())
	}
	return p.Usable()
}

// Last returns the stamps of this rank's last run on the plan's first lane, and
// its transfers in their order; ok is false if it has not run it.
func (p *LoadPlan) Last() (t nixl.Times, posts []load.Post, ok bool) {
	if len(p.parts) == 0 || p.parts[0].last == nil || p.parts[0].Number == load.Files {
		return t, nil, false
	}
	return *p.parts[0].last, p.parts[0].posts, true
}

// TakeLogs returns what this rank recorded since the last call, by lane in the
// order of the load's lanes.
func (p *LoadPlan) TakeLogs() [][]series.Logged {
	logs := make([][]series.Logged, len(p.Reserved.Lanes))
	for i, b := range p.Reserved.Lanes {
		for _, k := range p.parts {
			if k.Bound == b {
				logs[i], k.log = k.log, nil
			}
		}
	}
	return logs
}

// Release frees the prepared transfers. What has been recorded can still be
// collected.
func (p *LoadPlan) Release() error {
	if p.released {
		return nil
	}
	var errs []error
	for _, k := range p.parts {
		if k.running != nil {
			<-k.running // the outcome no longer matters
			k.running = nil
		}
		if err := k.Use(k.batch.Release); err != nil {
			errs = append(errs, session.Explain(p.s.World(), p.what(k), err))
		}
	}
	if p.requests != nil {
		k := p.Reserved.Lanes[0]
		if err := k.Use(p.requests.release); err != nil {
			errs = append(errs, session.Explain(p.s.World(), p.Label(), err))
		}
	}
	p.released, p.posted = true, false
	return errors.Join(errs...)
}

// way is one that bytes take from a rank.
type way struct {
	lane load.Lane
	mem  nixl.Mem
	op   nixl.Op
	peer int
}

// Warmup runs plans, n times each, until this rank has reached each of its
// peers at least once in each way. The times are not kept. Files are left alone.
func Warmup(plans []*LoadPlan, n int) error {
	seen := map[way]bool{}
	for _, p := range plans {
		if err := p.checkRuns(n); err != nil {
			return err
		}
		for _, k := range p.parts {
			if !k.freshFor(seen, p) {
				continue
			}
			p.disturb()
			if err := p.runPart(k, n, false, before{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshFor reports whether a part takes a way that none before it took, and notes its ways.
func (k *part) freshFor(seen map[way]bool, p *LoadPlan) (fresh bool) {
	if k.Number == load.Files {
		return false
	}
	for _, t := range k.posts {
		if t.Peer == nixl.Self {
			continue
		}
		w := way{k.Number, p.mem(k), t.Op, t.Peer}
		fresh = fresh || !seen[w]
		seen[w] = true
	}
	return fresh
}

// mem is the kind of memory that a part moves bytes of.
func (p *LoadPlan) mem(k *part) nixl.Mem {
	sent, received := p.Messages(p.s.World().Rank(), k.Number)
	for _, m := range slices.Concat(sent, received) {
		return m.Mem
	}
	return nixl.DRAM
}
