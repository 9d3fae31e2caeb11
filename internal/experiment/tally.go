package experiment

import (
	"slices"
	"sync"

	"perigee/nixl"
	"perigee/spmd"
)

// moved counts what a rank's transfers have moved in a phase.
type moved struct {
	Phase          string
	Bytes, Between int64 // of all; of those whose peer is on another host
	Requests       int64
}

// tally counts at this rank what is played, on whichever agent. A batch is counted once it has run, in Go: the timed
// loop of the engine knows nothing of it.
type tally struct {
	world   *spmd.World
	mu      sync.Mutex
	agents  []*countedAgent // that are open
	closing func()          // is called before an agent closes that has moved something; may be nil
	// Of closed agents: a script may open and close thousands.
	phasesClosed  []moved
	libraryClosed libraryCount
	namesClosed   []string // of those that an exporter has counted
}

// counting returns the engine with agents that this tally counts.
func (t *tally) counting(engine nixl.Engine) nixl.Engine {
	counted := countedEngine{engine, t}
	if f, ok := engine.(nixl.FilesOnly); ok {
		return countedFiles{counted, f}
	}
	return counted
}

// phases adds up what all agents have moved, by phase.
func (t *tally) phases() (list []moved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list = slices.Clone(t.phasesClosed)
	for _, a := range t.agents {
		for _, m := range a.phases {
			list = addPhase(list, *m)
		}
	}
	return list
}

// settle asks the library about all batches that are still prepared.
func (t *tally) settle() (sum libraryCount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum = t.libraryClosed
	for _, a := range t.agents {
		a.settle()
		sum.add(a.library)
	}
	return sum
}

// exported names the agents that have moved something, which an exporter must know.
func (t *tally) exported() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.Clone(t.namesClosed)
	for _, a := range t.agents {
		if a.requests() > 0 {
			names = append(names, a.name)
		}
	}
	return names
}

// forget adds up what an agent that closes has moved.
func (t *tally) forget(a *countedAgent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.agents, a) {
		return // it was closed before
	}
	for _, m := range a.phases {
		t.phasesClosed = addPhase(t.phasesClosed, *m)
	}
	t.libraryClosed.add(a.library)
	if a.requests() > 0 && t.closing != nil {
		t.namesClosed = append(t.namesClosed, a.name)
	}
	t.agents = slices.DeleteFunc(t.agents, func(open *countedAgent) bool { return open == a })
}

// addPhase adds to the entry of a phase, or appends one.
func addPhase(list []moved, m moved) []moved {
	i := slices.IndexFunc(list, func(have moved) bool { return have.Phase == m.Phase })
	if i < 0 {
		return append(list, m)
	}
	list[i].Bytes += m.Bytes
	list[i].Between += m.Between
	list[i].Requests += m.Requests
	return list
}

type countedEngine struct {
	nixl.Engine
	tally *tally
}

// filesOnly names the embedded interface other than its method, which a field of the same name would hide.
type filesOnly = nixl.FilesOnly

// countedFiles implements nixl.FilesOnly as the engine that it counts.
type countedFiles struct {
	countedEngine
	filesOnly
}

var _ nixl.FilesOnly = countedFiles{}

// Path implements nixl.PathEngine: what counts does not hide what the engine says of its paths.
func (e countedEngine) Path(prefix string) nixl.Path {
	if p, ok := e.Engine.(nixl.PathEngine); ok {
		return p.Path(prefix)
	}
	return nixl.Path{Source: e.Engine.Info().Name, Unknown: "the engine does not say what moves the bytes"}
}

// NewAgent makes an agent whose transfers are counted.
func (e countedEngine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	agent, err := e.Engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	a := &countedAgent{Agent: agent, tally: e.tally, name: cfg.Name, live: map[*countedBatch]struct{}{}}
	e.tally.mu.Lock()
	defer e.tally.mu.Unlock()
	e.tally.agents = append(e.tally.agents, a)
	return a, nil
}

// countedAgent is used by one goroutine at a time, as every agent.
type countedAgent struct {
	nixl.Agent
	tally   *tally
	name    string
	phases  []*moved
	current *moved // of phases
	live    map[*countedBatch]struct{}
	library libraryCount
}

// libraryCount is what the library says of each request, times its runs.
type libraryCount struct {
	Bytes   int64
	Unknown bool // it says nothing of some
}

func (c *libraryCount) add(more libraryCount) {
	c.Bytes += more.Bytes
	c.Unknown = c.Unknown || more.Unknown
}

// add counts n runs in the phase that is now.
func (a *countedAgent) add(n int, per moved) {
	if phase := a.tally.world.CurrentPhase(); a.current == nil || a.current.Phase != phase {
		a.enter(phase)
	}
	a.current.Bytes += int64(n) * per.Bytes
	a.current.Between += int64(n) * per.Between
	a.current.Requests += int64(n) * per.Requests
}

// enter makes a phase the current one.
func (a *countedAgent) enter(phase string) {
	if i := slices.IndexFunc(a.phases, func(m *moved) bool { return m.Phase == phase }); i >= 0 {
		a.current = a.phases[i]
		return
	}
	if len(a.phases) == mostWindows {
		a.phases = append(a.phases, &moved{Phase: laterPhases})
	}
	if len(a.phases) > mostWindows {
		a.current = a.phases[mostWindows]
		return
	}
	a.current = &moved{Phase: phase}
	a.phases = append(a.phases, a.current)
}

// requests counts what the agent has posted.
func (a *countedAgent) requests() (n int64) {
	for _, m := range a.phases {
		n += m.Requests
	}
	return n
}

// settle takes the library's count of what is still prepared.
func (a *countedAgent) settle() {
	for b := range a.live {
		b.settle()
	}
}

// Disconnect takes the library's count before it removes peers, and batches with them.
func (a *countedAgent) Disconnect(peers []int) error {
	a.settle()
	return a.Agent.Disconnect(peers)
}

// Close takes the library's count and closes the agent.
func (a *countedAgent) Close() error {
	a.settle()
	if a.requests() > 0 && a.tally.closing != nil {
		a.tally.closing()
	}
	a.tally.forget(a)
	return a.Agent.Close()
}

// NewBatch prepares transfers that are counted.
func (a *countedAgent) NewBatch(transfers []nixl.Transfer) (nixl.Batch, error) {
	b, err := a.Agent.NewBatch(transfers)
	if err != nil {
		return nil, err
	}
	var between int64
	for _, t := range transfers {
		if a.leaves(t.Peer) {
			between += t.Bytes()
		}
	}
	return a.counted(b, between), nil
}

// leaves reports whether what is moved with a peer leaves this host.
func (a *countedAgent) leaves(peer int) bool {
	w := a.tally.world
	return peer >= 0 && peer < w.Size() && w.HostOf(peer) != w.HostOf(w.Rank())
}

func (a *countedAgent) counted(b nixl.Batch, between int64) nixl.Batch {
	c := &countedBatch{Batch: b, agent: a,
		per: moved{Bytes: b.Bytes(), Between: between, Requests: int64(b.Len())}}
	a.live[c] = struct{}{}
	return c
}

// countedList remembers what a prepared list is of.
type countedList struct {
	nixl.List
	peer  int
	descs []nixl.Desc
}

// PrepareList remembers the peer beside the list.
func (a *countedAgent) PrepareList(peer, buffer int, descs []nixl.Desc) (nixl.List, error) {
	l, err := a.Agent.PrepareList(peer, buffer, descs)
	if err != nil {
		return nil, err
	}
	return &countedList{l, peer, descs}, nil
}

// PickBatch prepares picks that are counted.
func (a *countedAgent) PickBatch(picks []nixl.Pick) (nixl.Batch, error) {
	var between int64
	bare := slices.Clone(picks)
	for i, p := range picks {
		if l, ok := p.Local.(*countedList); ok {
			bare[i].Local = l.List
		}
		l, ok := p.Remote.(*countedList)
		if !ok {
			continue
		}
		if bare[i].Remote = l.List; !a.leaves(l.peer) {
			continue
		}
		for _, k := range p.RemoteIndex {
			if k >= 0 && int(k) < len(l.descs) { // the engine refuses other positions
				between += l.descs[k].Len
			}
		}
	}
	b, err := a.Agent.PickBatch(bare)
	if err != nil {
		return nil, err
	}
	return a.counted(b, between), nil
}

// countedBatch counts its runs.
type countedBatch struct {
	nixl.Batch
	agent *countedAgent
	per   moved // of a run
	runs  int64 // that the library has not been asked about
}

func (b *countedBatch) count(n int) {
	b.runs += int64(n)
	b.agent.add(n, b.per)
}

// Run runs the batch n times and counts that.
func (b *countedBatch) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	err := b.Batch.Run(ctl, n, times)
	if err == nil {
		b.count(n)
	}
	return err
}

// Wait waits for the transfers and counts them.
func (b *countedBatch) Wait(ctl nixl.Control, t *nixl.Times) error {
	err := b.Batch.Wait(ctl, t)
	if err == nil {
		b.count(1)
	}
	return err
}

// settle asks the library how many bytes a run has moved.
func (b *countedBatch) settle() {
	if b.runs == 0 {
		return
	}
	m, ok := b.Batch.(nixl.Measured)
	var bytes int64
	if ok {
		bytes, ok = m.Measured()
	}
	b.agent.library.add(libraryCount{b.runs * bytes, !ok})
	b.runs = 0
}

// Release takes the library's count and frees the batch.
func (b *countedBatch) Release() error {
	b.settle()
	delete(b.agent.live, b)
	return b.Batch.Release()
}
