package traffic

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"perigee/internal/fault"
	"perigee/internal/memory"
	"perigee/internal/size"
	"perigee/internal/traffic/link"
	"perigee/internal/traffic/series"
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

	engine nixl.Engine
	cfg    nixl.AgentConfig // of the agent
	store  *store           // nil until a pattern has storage operations

	ledger    *Ledger
	calls     int                   // of Prepare
	arenas    [2]arena              // by nixl.Mem
	cards     [][]byte              // of all ranks, if all were told
	peers     []int                 // whose buffers are within reach
	plans     int                   // prepared so far
	left      series.Exit           // from a barrier, until something runs
	available func() (int64, error) // host memory that can be taken
}

// arena is the pair of buffers for one kind of memory.
type arena struct{ send, recv nixl.Buffer }

// Open makes this rank's agent, and makes sure that all ranks use the same engine.
func Open(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64) (*Session, error) {
	return OpenIn(w, engine, cfg, seed, NewLedger())
}

// OpenIn is Open for ranks of one process, which share a ledger.
func OpenIn(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64, ledger *Ledger) (*Session, error) {
	cfg.Name = fmt.Sprintf("perigee-%d", w.Rank())
	cfg.OneHost = w.OneHost()
	agent, err := engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	info := agent.Info()
	w.Log().Info("opened the engine", "engine", info.Name, "backend", info.Backend, "params", info.Params, "one_host", cfg.OneHost)
	if err := agree(w, info.Name+" "+info.Version+" "+info.Backend); err != nil {
		agent.Close()
		return nil, err
	}
	return &Session{
		world: w, agent: agent, engine: engine, cfg: cfg, seed: seed, ledger: ledger,
		available: func() (int64, error) { return memory.Available("/") },
	}, nil
}

// agree fails at all ranks if one uses another engine than rank 0.
func agree(w *spmd.World, engine string) error {
	leading, err := spmd.BroadcastValue(w.All(), 0, engine)
	if err != nil {
		return err
	}
	differs := w.Size()
	if engine != leading {
		differs = w.Rank()
	}
	first, err := spmd.AllReduce(w.All(), []int{differs}, spmd.Min)
	if err != nil || first[0] == w.Size() {
		return err
	}
	other, err := spmd.BroadcastValue(w.All(), first[0], engine)
	if err != nil {
		return err
	}
	return fault.New(fault.Engine, "ranks use different engines: rank 0 %s, rank %d on %s %s", leading, first[0], w.Hosts()[w.HostOf(first[0])].Name, other).
		WithHint("install the same NIXL everywhere, or force one engine with --engine")
}

// Info tells what moves the bytes.
func (s *Session) Info() nixl.Info { return s.agent.Info() }

// Close releases the agent and all plans, and lets go of files.
func (s *Session) Close() error {
	var err error
	if s.store != nil {
		err = s.store.close()
	}
	return errors.Join(err, s.agent.Close())
}

// Prepare makes plans for patterns. Messages pass between ranks only when the
// buffers have to grow, or when two ranks exchange bytes for the first time.
// The matrices must not change any more.
func (s *Session) Prepare(patterns []Pattern) ([]*Plan, error) {
	for _, p := range patterns {
		if err := p.check(s.world.Size()); err != nil {
			return nil, err
		}
	}
	step := s.ledger.step(s.calls, patterns)
	err := s.reserve(step)
	if err == nil {
		err = s.connect(step)
	}
	if err == nil {
		err = s.prepareStorage(patterns)
	}
	if err != nil {
		s.ledger.drop(s.calls)
		return nil, err
	}
	s.calls++
	plans := make([]*Plan, len(patterns))
	for i, p := range patterns {
		var err error
		if plans[i], err = s.plan(p, step.patterns[i]); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

// reserve makes the buffers large enough. Each rank knows from the matrices
// alone whether any rank's buffers must grow.
func (s *Session) reserve(step *step) error {
	for _, mem := range memories {
		if d := step.grown[mem]; d != nil {
			if err := s.allocate(mem, d); err != nil {
				return err
			}
		}
	}
	return nil
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
	var a arena
	for _, b := range []struct {
		buffer *nixl.Buffer
		size   int64
	}{{&a.send, d.send[me]}, {&a.recv, d.recv[me]}} {
		var err error
		if *b.buffer, err = s.agent.Alloc(mem, b.size); err != nil {
			if fault.KindOf(err) != fault.Internal {
				return err
			}
			return fault.New(fault.Resource, "allocate %s of %s: %w", size.Decimal(b.size), mem, err).
				WithHint("a smaller workload (perigee matgen --scale), or fewer ranks on this host")
		}
	}
	s.arenas[mem] = a
	s.world.Log().Info("took buffers", "memory", mem, "send_bytes", d.send[me], "receive_bytes", d.recv[me])
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
			len(host.Ranks), host.Name, size.Decimal(want), want, size.Decimal(available), available).
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

// exchangeCards tells the ranks how to reach each other's buffers. Those with whom
// this rank has exchanged bytes before get new cards where buffers have grown.
func (s *Session) exchangeCards(step *step) error {
	fresh := step.peersOf(s.world.Rank())
	if step.exchange == tellNobody {
		return s.addPeers(fresh, func(i int) []byte { return s.cards[fresh[i]] })
	}
	card, err := s.agent.Card()
	if err != nil {
		return fault.New(fault.Engine, "describe the buffers: %w", err)
	}
	all, peers := s.world.All(), fresh
	if step.exchange != tellFresh {
		peers = slices.Concat(s.peers, fresh)
	}
	if step.exchange == tellAll {
		cards, err := all.AllGather(card)
		if err != nil {
			return err
		}
		s.cards = s.ledger.keep(s.calls, cards)
		return s.addPeers(peers, func(i int) []byte { return s.cards[peers[i]] })
	}
	cards, err := all.Exchange(peers, card)
	if err != nil {
		return err
	}
	return s.addPeers(peers, func(i int) []byte { return cards[i] })
}

// addPeers puts the buffers of ranks within reach, whose cards are here.
func (s *Session) addPeers(peers []int, card func(i int) []byte) error {
	for i, peer := range peers {
		if err := s.agent.AddPeer(peer, card(i)); err != nil {
			return fault.New(fault.Engine, "reach the buffers of rank %d: %w", peer, err)
		}
	}
	return nil
}

// connect opens the ways between ranks that exchange bytes for the first time.
// Until all are open every rank polls, since a connection needs both its ends.
func (s *Session) connect(step *step) error {
	if err := s.exchangeCards(step); err != nil || len(step.pairs) == 0 {
		return err
	}
	peers := step.peersOf(s.world.Rank())
	s.peers = append(s.peers, peers...)
	return link.Connect(s.world, link.Way{Agent: s.agent, Peers: peers})
}
