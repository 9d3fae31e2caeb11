package session

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/traffic/cpuwait"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/nixl"
	"perigee/spmd"
)

// Session is one rank's lanes. Like the collectives of a world, Open and Reserve
// are called by all ranks in the same order.
type Session struct {
	world  *spmd.World
	engine nixl.Engine
	cfg    nixl.AgentConfig
	seed   uint64
	info   nixl.Info

	ledger    *Ledger
	calls     int                       // of Reserve
	loads     int                       // reserved so far
	lanes     map[load.Lane]*Lane       // those that are open at this rank
	turns     map[load.Lane]*sync.Mutex // by Lane.Given
	left      series.Exit               // from a barrier, until something runs
	pace      pace                      // of starts by the clock
	available func() (int64, error)     // host memory that can be allocated
	closed    bool
	groups    int // of loads that share no memory

	// Waits looks for how long threads of this rank wait for a CPU; nil where ranks share a process.
	Waits *cpuwait.Watch

	// Filled are loads whose buffers hold known bytes until they are checked, with the label of what has run into the
	// same memory since; empty for none.
	Filled map[*Reserved]string
}

// NewGroup is a number for loads that share no memory with each other.
func (s *Session) NewGroup() int {
	s.groups++
	return s.groups
}

// opened numbers the agents of a process, whose names must differ.
var opened atomic.Int64

// Open makes this rank's first agent, and makes sure that all ranks use the same engine. Different engines are an
// error of the kind Engine that names the first rank whose engine is not that of rank 0.
func Open(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64) (*Session, error) {
	own := NewLedger()
	own.alone = true
	s, err := OpenIn(w, engine, cfg, seed, own)
	if err == nil {
		s.available = func() (int64, error) { return memory.Available("/") }
	}
	return s, err
}

// OpenIn is Open for the ranks of a simulation: they share a ledger, and their engine takes no memory for buffers.
func OpenIn(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64, ledger *Ledger) (*Session, error) {
	cfg.OneHost = w.OneHost()
	s := &Session{
		world: w, engine: engine, cfg: cfg, seed: seed, ledger: ledger, lanes: map[load.Lane]*Lane{},
		turns:     map[load.Lane]*sync.Mutex{},
		Filled:    map[*Reserved]string{},
		available: func() (int64, error) { return math.MaxInt64, nil },
	}
	first, err := s.lane(0)
	if err != nil {
		return nil, err
	}
	s.info = first.agent.Info()
	if f, ok := engine.(nixl.FilesOnly); ok {
		s.info.Backend, s.info.Params = f.FilesOnly().Name, f.FilesOnly().Params // what connects ranks moves nothing
	}
	w.Log().Info("opened the engine", "engine", s.info.Name, "backend", s.info.Backend, "params", s.info.Params,
		"one_host", cfg.OneHost)
	if err := agreeOnEngine(w, s.info.Name+" "+s.info.Version+" "+s.info.Backend); err != nil {
		first.agent.Close()
		return nil, err
	}
	return s, nil
}

// FirstDifferent compares what ranks hold with what rank 0 holds. It returns rank 0's
// and that of the first rank that differs, or -1 for none. All ranks get the same.
func FirstDifferent(w *spmd.World, mine string) (leading, other string, rank int, err error) {
	if leading, err = spmd.BroadcastValue(w.All(), 0, mine); err != nil {
		return "", "", -1, err
	}
	differs := w.Size()
	if mine != leading {
		differs = w.Rank()
	}
	first, err := spmd.AllReduce(w.All(), []int{differs}, spmd.Min)
	if err != nil || first[0] == w.Size() {
		return leading, "", -1, err
	}
	other, err = spmd.BroadcastValue(w.All(), first[0], mine)
	return leading, other, first[0], err
}

// agreeOnEngine fails at all ranks if one uses another engine than rank 0.
func agreeOnEngine(w *spmd.World, engine string) error {
	leading, other, rank, err := FirstDifferent(w, engine)
	if err != nil || rank < 0 {
		return err
	}
	return fault.New(fault.Engine, "ranks use different engines: rank 0 %s, rank %d on %s %s",
		leading, rank, w.Hosts()[w.HostOf(rank)].Name, other).
		WithHint("install the same NIXL everywhere, or force one engine with --engine")
}

// World is the world whose ranks share the session.
func (s *Session) World() *spmd.World { return s.world }

// Seed begins the known bytes of a verification.
func (s *Session) Seed() uint64 { return s.seed }

// Info identifies the engine and its settings.
func (s *Session) Info() nixl.Info { return s.info }

// Close releases all lanes with their buffers, files and connections.
func (s *Session) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, l := range s.lanes {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// Reserved is a load for which everything is in place.
type Reserved struct {
	load.Load
	load.Roles
	Number int // in the order of reservation, the same at all ranks
	Lanes  []*Bound
	Group  int // of loads that share no memory with each other; 0 for none
}

// Reserve makes buffers, files and connections for loads. See the package's comment for its steps. Loads that differ
// between ranks are an error of the kind Script, and a lack of memory one of the kind Resource.
func (s *Session) Reserve(loads []load.Load) ([]*Reserved, error) {
	list, err := s.ReserveAgain(loads, nil)
	for _, r := range list {
		r.Number = s.loads
		s.loads++
	}
	return list, err
}

// ReserveAgain is Reserve for loads that move the same bytes as others did: they have the numbers of these.
func (s *Session) ReserveAgain(loads []load.Load, numbers []int) ([]*Reserved, error) {
	if s.closed {
		return nil, fault.New(fault.Script, "the lanes have been closed")
	}
	for _, d := range loads {
		if err := d.Check(s.world.Size()); err != nil {
			return nil, err
		}
	}
	if err := s.agree(loads); err != nil {
		return nil, err
	}
	step := s.ledger.step(s.calls, s.world.Size(), loads)
	if err := s.reachable(step); err != nil {
		s.ledger.drop(s.calls)
		return nil, err
	}
	if err := s.fulfil(step, loads); err != nil {
		s.ledger.drop(s.calls)
		return nil, err
	}
	s.calls++
	list := make([]*Reserved, len(loads))
	for i, d := range loads {
		list[i] = &Reserved{Load: d, Roles: step.roles[i]}
		if numbers != nil {
			list[i].Number = numbers[i]
		}
		for _, lane := range d.Lanes() {
			list[i].Lanes = append(list[i].Lanes, s.bind(d, lane))
		}
	}
	return list, nil
}

// reachable refuses a step in which ranks exchange bytes where the engine reaches files only.
func (s *Session) reachable(step *step) error {
	f, ok := s.engine.(nixl.FilesOnly)
	if !ok || !slices.ContainsFunc(step.lanes, func(n *laneStep) bool { return len(n.pairs) > 0 }) {
		return nil
	}
	return f.NotForRanks()
}

// fulfil takes the steps in the order of the package's comment. Cards come after the buffers that they describe, and
// connections need the cards.
func (s *Session) fulfil(step *step, loads []load.Load) error {
	if err := s.openLanes(step, loads); err != nil {
		return err
	}
	defer s.world.Allocating(step.bytes)()
	if err := s.allocate(step); err != nil {
		return err
	}
	if err := s.openFiles(loads); err != nil {
		return err
	}
	if err := s.exchangeCards(step); err != nil {
		return err
	}
	return s.connect(step)
}

// Met notes that this rank has just left a barrier of a group. The ranks stamp their exits
// where nothing is being timed, and the stamp travels with those of the run that follows:
// how far apart the exits are says how good the start of a measurement is.
func (s *Session) Met(g *spmd.Group) {
	s.left = series.Exit{Barrier: g.Meeting(), NS: clock.Now()}
}

// TakeExit returns the exit from a barrier since the previous run, if there was one.
func (s *Session) TakeExit() series.Exit {
	e := s.left
	s.left = series.Exit{}
	return e
}

// AgentsOf is with what the names of all agents of a rank begin.
func AgentsOf(rank int) string { return fmt.Sprintf("perigee-%d-", rank) }

// name is an agent's name, unique in the job.
func (s *Session) name(lane load.Lane) string {
	return fmt.Sprintf("%slane%d-%d", AgentsOf(s.world.Rank()), lane, opened.Add(1))
}
