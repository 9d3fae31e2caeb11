package traffic

import (
	"errors"
	"slices"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
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
	batch      nixl.Batch // nil where this rank initiates nothing
	peers      []int      // of the batch's transfers
	log        []nixl.Times
	last       nixl.Times
	released   bool
}

// plan prepares one pattern in the present arena.
func (s *Session) plan(p Pattern) (*Plan, error) {
	a := s.arenas[p.Mem]
	plan := &Plan{
		Pattern: p, s: s, number: s.plans, arena: a,
		ranks: p.Matrix.Ranks(), initiators: p.Initiators(),
	}
	s.plans++
	transfers := p.transfers(s.world.Rank(), a.send.ID(), a.recv.ID())
	if len(transfers) == 0 {
		return plan, nil
	}
	for _, t := range transfers {
		plan.peers = append(plan.peers, t.Peer)
	}
	var err error
	if plan.batch, err = s.agent.NewBatch(transfers); err != nil {
		return nil, fault.New(engineKind(err), "prepare %s: %w", p.label(), err).WithHint("%s", fault.HintOf(err))
	}
	return plan, nil
}

// engineKind keeps the kind that an engine's error has, and calls others failures of the engine.
func engineKind(err error) fault.Kind {
	if k := fault.KindOf(err); k != fault.Internal {
		return k
	}
	return fault.Engine
}

// Number is the plan's place in the order of preparation.
func (p *Plan) Number() int { return p.number }

// Ranks are those that send or receive in the pattern, ascending.
func (p *Plan) Ranks() []int { return p.ranks }

// PlanInitiators are the ranks that post transfers, ascending.
func (p *Plan) PlanInitiators() []int { return p.initiators }

// Takes reports whether this rank takes part.
func (p *Plan) Takes() bool { return contains(p.ranks, p.s.world.Rank()) }

// Initiates reports whether this rank posts transfers.
func (p *Plan) Initiates() bool { return p.batch != nil }

func contains(ranks []int, r int) bool {
	_, ok := slices.BinarySearch(ranks, r)
	return ok
}

// Barrier lets the pattern's ranks meet. At other ranks it does nothing.
func (p *Plan) Barrier() error { return p.meet(p.ranks) }

// InitiatorsBarrier lets the pattern's initiators meet.
func (p *Plan) InitiatorsBarrier() error { return p.meet(p.initiators) }

func (p *Plan) meet(ranks []int) error {
	if !contains(ranks, p.s.world.Rank()) {
		return nil
	}
	g, err := p.s.world.Group(ranks)
	if err != nil {
		return err
	}
	return g.Barrier()
}

var errReleased = fault.New(fault.Script, "the plan has been released")

// Run posts this rank's transfers and waits for them, n times. Where record is
// set the times of each run are kept for Collect.
func (p *Plan) Run(n int, record bool) error {
	if p.released {
		return errReleased
	}
	if p.batch == nil {
		return p.s.world.Err()
	}
	times := make([]nixl.Times, n)
	done := make([]int64, n*len(p.peers))
	for i := range times {
		times[i].Done, done = done[:len(p.peers)], done[len(p.peers):]
	}
	if err := p.batch.Run(p.s.control(), n, times); err != nil {
		return p.explain(err)
	}
	p.keep(times, record)
	return nil
}

func (p *Plan) keep(times []nixl.Times, record bool) {
	if len(times) == 0 {
		return
	}
	p.last = times[len(times)-1]
	if record {
		p.log = append(p.log, times...)
	}
}

// Post starts this rank's transfers; Wait ends them and keeps their times.
func (p *Plan) Post() error {
	if p.released {
		return errReleased
	}
	if p.batch == nil {
		return p.s.world.Err()
	}
	if err := p.batch.Post(); err != nil {
		return p.explain(err)
	}
	return nil
}

// Done reports whether Wait would return at once.
func (p *Plan) Done() (bool, error) {
	if p.batch == nil || p.released {
		return true, p.s.world.Err()
	}
	done, err := p.batch.Done()
	if err != nil {
		return false, p.explain(err)
	}
	return done, nil
}

// Wait waits for what Post has started.
func (p *Plan) Wait(record bool) error {
	if p.released {
		return errReleased
	}
	if p.batch == nil {
		return p.s.world.Err()
	}
	t := nixl.Times{Done: make([]int64, len(p.peers))}
	if err := p.batch.Wait(p.s.control(), &t); err != nil {
		return p.explain(err)
	}
	p.keep([]nixl.Times{t}, record)
	return nil
}

// explain names the peers' hosts in a timeout, and the job's failure in an abort.
func (p *Plan) explain(err error) error {
	if errors.Is(err, nixl.ErrAborted) {
		<-p.s.world.Context().Done()
		return p.s.world.Err()
	}
	if late, ok := errors.AsType[*nixl.TimeoutError](err); ok && len(late.Peers) > 0 {
		peer := late.Peers[0]
		host := p.s.world.Hosts()[p.s.world.HostOf(peer)].Name
		return fault.New(fault.Timeout, "%s: %w after %v (rank %d is on %s)", p.label(), err, p.s.world.Timeout(), peer, host).
			WithHint("is that rank alive? A longer --timeout helps if the transfer is only slow")
	}
	return fault.New(engineKind(err), "%s: %w", p.label(), err).WithHint("%s", fault.HintOf(err))
}

// Last returns the times of this rank's last run, in nanoseconds of the host's
// clock, and the peers to which its Done stamps belong.
func (p *Plan) Last() (nixl.Times, []int) { return p.last, p.peers }

// Release frees the prepared transfers.
func (p *Plan) Release() error {
	if p.released || p.batch == nil {
		p.released = true
		return nil
	}
	p.released = true
	return p.batch.Release()
}

// Warmup runs plans, n times each, until this rank has reached each of its
// destinations at least once. The times are not kept.
func Warmup(plans []*Plan, n int) error {
	seen := map[int]bool{}
	for _, p := range plans {
		fresh := false
		for _, peer := range p.peers {
			fresh = fresh || !seen[peer]
			seen[peer] = true
		}
		if fresh && n > 0 {
			if err := p.Run(n, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verify runs the pattern once on known bytes and checks what arrived. All
// ranks call it. The error of a rank that received wrong bytes has a
// *Corruption as its cause. The pattern's buffers must not be in use.
func (p *Plan) Verify() error {
	if p.released {
		return errReleased
	}
	if err := p.fill(); err != nil {
		return err
	}
	all := p.s.world.All()
	if err := all.Barrier(); err != nil {
		return err
	}
	if err := p.Run(1, false); err != nil {
		return err
	}
	if err := all.Barrier(); err != nil {
		return err
	}
	return p.check()
}

// message is one cell of the matrix as it lies in a buffer of this rank.
type message struct {
	peer   int
	off    int64
	bytes  int64
	stream stream
}

func (p *Plan) sent() []message {
	me := p.s.world.Rank()
	return p.messages(p.Matrix.Row(me), func(peer int) stream { return newStream(p.s.seed, p.number, me, peer) })
}

func (p *Plan) received() []message {
	me := p.s.world.Rank()
	return p.messages(p.Matrix.Column(me), func(peer int) stream { return newStream(p.s.seed, p.number, peer, me) })
}

func (p *Plan) messages(cells []matrix.Cell, key func(peer int) stream) []message {
	list := make([]message, 0, len(cells))
	var off int64
	for _, c := range cells {
		list = append(list, message{peer: c.Peer, off: off, bytes: c.Bytes, stream: key(c.Peer)})
		off += c.Bytes
	}
	return list
}

// chunk is how much of a buffer is looked at at a time.
const chunk = 4 << 20

// fill writes each message into the send buffer, and its opposite into the
// place where it will be received, so that not one byte is right by chance.
func (p *Plan) fill() error {
	for _, m := range p.sent() {
		if err := m.write(p.arena.send, false); err != nil {
			return fault.New(fault.Engine, "fill the send buffer: %w", err)
		}
	}
	for _, m := range p.received() {
		if err := m.write(p.arena.recv, true); err != nil {
			return fault.New(fault.Engine, "poison the receive buffer: %w", err)
		}
	}
	return nil
}

func (m message) write(b nixl.Buffer, flip bool) error {
	tmp := make([]byte, min(m.bytes, chunk))
	for done := int64(0); done < m.bytes; {
		part := tmp[:min(m.bytes-done, chunk)]
		m.stream.fill(part, done, flip)
		if _, err := b.WriteAt(part, m.off+done); err != nil {
			return err
		}
		done += int64(len(part))
	}
	return nil
}

func (p *Plan) check() error {
	var first *Corruption
	wrong := 0
	for _, m := range p.received() {
		c, err := m.compare(p.arena.recv)
		if err != nil {
			return fault.New(fault.Engine, "read the receive buffer: %w", err)
		}
		if c == nil {
			continue
		}
		wrong++
		if first == nil {
			c.Pattern, c.Sender, c.Receiver = p.label(), m.peer, p.s.world.Rank()
			first = c
		}
	}
	if first == nil {
		return nil
	}
	first.WrongMessages = wrong
	return fault.New(fault.Corrupt, "verification failed: %w", first)
}

// compare returns nil if the message is as it was sent.
func (m message) compare(b nixl.Buffer) (*Corruption, error) {
	var c *Corruption
	tmp := make([]byte, min(m.bytes, chunk))
	for done := int64(0); done < m.bytes; {
		part := tmp[:min(m.bytes-done, chunk)]
		if _, err := b.ReadAt(part, m.off+done); err != nil {
			return nil, err
		}
		if wrong, at := m.stream.check(part, done); wrong > 0 {
			if c == nil {
				off := done + int64(at)
				c = &Corruption{Offset: off, Want: m.stream.at(off), Got: part[at]}
			}
			c.WrongBytes += wrong
		}
		done += int64(len(part))
	}
	return c, nil
}

// Received returns the first bytes of each message in the receive buffer,
// as they are now: at most head of each, keyed by sender.
func (p *Plan) Received(head int) (map[int][]byte, error) {
	out := map[int][]byte{}
	for _, m := range p.received() {
		b := make([]byte, min(m.bytes, int64(head)))
		if _, err := p.arena.recv.ReadAt(b, m.off); err != nil {
			return nil, fault.New(fault.Engine, "read the receive buffer: %w", err)
		}
		out[m.peer] = b
	}
	return out, nil
}
