package traffic

import (
	"fmt"
	"math"
	"slices"

	"perigee/internal/fault"
	"perigee/internal/memory"
	"perigee/internal/traffic/link"
	"perigee/nixl"
	"perigee/spmd"
)

// Session is one rank's buffers and the plans that use them. Like the
// collectives of a world, Open and Prepare are called by all ranks in the same
// order.
type Session struct {
	world *spmd.World
	agent nixl.Agent
	seed  uint64

	arenas    [2]arena              // by nixl.Mem
	linked    map[[2]int]bool       // pairs of ranks, lower first, that are connected
	plans     int                   // prepared so far
	available func() (int64, error) // host memory that can be taken
}

// arena is the pair of buffers for one kind of memory. Capacities are those of
// every rank, known to every rank.
type arena struct {
	send, recv       nixl.Buffer
	sendCap, recvCap []int64
}

// Open makes this rank's agent, and makes sure that all ranks use the same engine.
func Open(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64) (*Session, error) {
	cfg.Name = fmt.Sprintf("perigee-%d", w.Rank())
	cfg.OneHost = w.OneHost()
	agent, err := engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	info := agent.Info()
	engines, err := spmd.AllGatherValue(w.All(), info.Name+" "+info.Version+" "+info.Backend)
	if err != nil {
		agent.Close()
		return nil, err
	}
	for r, e := range engines {
		if e != engines[0] {
			agent.Close()
			return nil, fault.New(fault.Engine, "ranks use different engines: rank 0 %s, rank %d on %s %s", engines[0], r, w.Hosts()[w.HostOf(r)].Name, e).
				WithHint("install the same NIXL everywhere, or force one engine with --engine")
		}
	}
	return &Session{
		world: w, agent: agent, seed: seed, linked: map[[2]int]bool{},
		available: func() (int64, error) { return memory.Available("/") },
	}, nil
}

// Info tells what moves the bytes.
func (s *Session) Info() nixl.Info { return s.agent.Info() }

// Close releases the agent and all plans.
func (s *Session) Close() error { return s.agent.Close() }

// Prepare makes plans for patterns. Messages pass between ranks only when the
// buffers have to grow, or when two ranks exchange bytes for the first time.
// The matrices must not change any more.
func (s *Session) Prepare(patterns []Pattern) ([]*Plan, error) {
	for _, p := range patterns {
		if err := p.check(s.world.Size()); err != nil {
			return nil, err
		}
	}
	if err := s.reserve(patterns); err != nil {
		return nil, err
	}
	if err := s.connect(patterns); err != nil {
		return nil, err
	}
	plans := make([]*Plan, len(patterns))
	for i, p := range patterns {
		var err error
		if plans[i], err = s.plan(p); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// need is what one kind of memory must be able to hold at every rank.
type need struct{ send, recv []int64 }

func (s *Session) needs(patterns []Pattern) map[nixl.Mem]*need {
	n := s.world.Size()
	needs := map[nixl.Mem]*need{}
	for _, p := range patterns {
		d := needs[p.Mem]
		if d == nil {
			d = &need{make([]int64, n), make([]int64, n)}
			needs[p.Mem] = d
		}
		for r := range n {
			d.send[r] = max(d.send[r], p.Matrix.RowSum(r))
			d.recv[r] = max(d.recv[r], p.Matrix.ColumnSum(r))
		}
	}
	return needs
}

// reserve makes the buffers large enough. Each rank knows from the matrices
// alone whether any rank's buffers must grow.
func (s *Session) reserve(patterns []Pattern) error {
	needs := s.needs(patterns)
	grown := false
	for _, mem := range []nixl.Mem{nixl.DRAM, nixl.VRAM} {
		d := needs[mem]
		if d == nil {
			continue
		}
		a := &s.arenas[mem]
		if a.send != nil && covers(a.sendCap, d.send) && covers(a.recvCap, d.recv) {
			continue
		}
		if a.send != nil {
			raise(d.send, a.sendCap)
			raise(d.recv, a.recvCap)
		}
		if err := s.allocate(mem, d); err != nil {
			return err
		}
		grown = true
	}
	if !grown {
		return nil
	}
	return s.exchangeCards()
}

func covers(capacity, want []int64) bool {
	for r := range want {
		if want[r] > capacity[r] {
			return false
		}
	}
	return true
}

func raise(to, least []int64) {
	for r := range to {
		to[r] = max(to[r], least[r])
	}
}

// allocate takes new buffers of one kind. The old ones stay as long as the
// agent, for the plans that use them.
func (s *Session) allocate(mem nixl.Mem, d *need) error {
	me := s.world.Rank()
	if mem == nixl.DRAM {
		if err := s.checkMemory(d); err != nil {
			return err
		}
	}
	// Nobody takes memory before it is known to suffice.
	if err := s.world.All().Barrier(); err != nil {
		return err
	}
	a := arena{sendCap: d.send, recvCap: d.recv}
	for _, b := range []struct {
		buffer *nixl.Buffer
		size   int64
	}{{&a.send, d.send[me]}, {&a.recv, d.recv[me]}} {
		var err error
		if *b.buffer, err = s.agent.Alloc(mem, b.size); err != nil {
			if fault.KindOf(err) != fault.Internal {
				return err
			}
			return fault.New(fault.Resource, "allocate %s of %s: %w", sizeText(b.size), mem, err).
				WithHint("a smaller workload (perigee matgen --scale), or fewer ranks on this host")
		}
	}
	s.arenas[mem] = a
	return nil
}

// checkMemory lets the lowest rank of each host compare what all its ranks
// are about to take with what there is.
func (s *Session) checkMemory(d *need) error {
	host := s.world.Hosts()[s.world.HostOf(s.world.Rank())]
	if host.Ranks[0] != s.world.Rank() {
		return nil
	}
	var want int64
	for _, r := range host.Ranks {
		// Written so that absurd matrices cannot overflow the sum.
		want = satAdd(want, satAdd(d.send[r], d.recv[r]))
	}
	available, err := s.available()
	if err != nil {
		return nil // then the allocation itself will tell
	}
	if want > available {
		return fault.New(fault.Resource, "the buffers of the %d ranks on %s need %s (%d bytes), but only %s of memory are available (%d bytes)",
			len(host.Ranks), host.Name, sizeText(want), want, sizeText(available), available).
			WithHint("a smaller workload (perigee matgen --scale), fewer ranks on this host, or more hosts")
	}
	return nil
}

func satAdd(a, b int64) int64 {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// exchangeCards tells every rank how to reach the others' buffers.
func (s *Session) exchangeCards() error {
	card, err := s.agent.Card()
	if err != nil {
		return fault.New(fault.Engine, "describe the buffers: %w", err)
	}
	cards, err := s.world.All().AllGather(card)
	if err != nil {
		return err
	}
	for r, c := range cards {
		if err := s.agent.AddPeer(r, c); err != nil {
			return fault.New(fault.Engine, "reach the buffers of rank %d: %w", r, err)
		}
	}
	return nil
}

// connect opens the ways between ranks that exchange bytes for the first time.
// Until all are open every rank polls, since a connection needs both its ends.
func (s *Session) connect(patterns []Pattern) error {
	peers, anywhere := s.newPeers(patterns)
	if !anywhere {
		return nil
	}
	return link.Connect(s.world, link.Way{Agent: s.agent, Peers: peers})
}

// newPeers returns the peers that this rank meets for the first time, and
// whether any rank meets any.
func (s *Session) newPeers(patterns []Pattern) (peers []int, anywhere bool) {
	me := s.world.Rank()
	for _, p := range patterns {
		for i := range p.Matrix.Size() {
			for _, c := range p.Matrix.Row(i) {
				pair := [2]int{min(i, c.Peer), max(i, c.Peer)}
				if s.linked[pair] {
					continue
				}
				s.linked[pair] = true
				anywhere = true
				switch me {
				case pair[0]:
					peers = append(peers, pair[1])
				case pair[1]:
					peers = append(peers, pair[0])
				}
			}
		}
	}
	slices.Sort(peers)
	return peers, anywhere
}
