package shm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// Engine implements nixl.Engine. The zero value is ready.
type Engine struct{}

// New returns the engine. It needs no closing.
func New() *Engine { return &Engine{} }

// Info implements nixl.Engine. The version is that of the perigee binary.
func (*Engine) Info() nixl.Info {
	return nixl.Info{Name: "shm", Version: version.Version, Backend: "memfd", Can: nixl.Can{Copies: true}}
}

// NewAgent implements nixl.Engine. It needs nothing from the configuration but
// that all peers are on this host.
func (e *Engine) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	if !cfg.OneHost {
		return nil, fault.New(fault.Engine, "the shm engine serves ranks of one host only").
			WithHint("use --engine nixl")
	}
	own, err := kernel.Self()
	if err != nil {
		return nil, fault.New(fault.Engine, "the shm engine needs /proc: %w", err)
	}
	if len(cfg.Name) > nameSize {
		return nil, fault.New(fault.Internal, "shm: agent name of %d bytes: want at most %d", len(cfg.Name), nameSize)
	}
	a := &agent{
		engine: e, own: own, cfg: cfg,
		name:      cmp.Or(cfg.Name, fmt.Sprintf("pid %d, agent %d", own.PID, unnamed.Add(1))),
		peers:     map[int]*peer{},
		numbers:   map[string]int{},
		processes: map[kernel.ProcessID]*kernel.Watched{},
		mapped:    map[bufferID]mapping{},
		batches:   map[*batch]struct{}{},
		lists:     map[*list]struct{}{},
		copied:    map[way]int64{},
		mail:      mail{fd: -1, entry: cardBuffer{fd: -1}, boxes: map[string]*outbox{}},
	}
	account.begin(a.name)
	return a, nil
}

// unnamed counts the agents of this process whose configuration has no name.
var unnamed atomic.Int64

type bufferID struct {
	owner kernel.ProcessID
	cardBuffer
}

// mapping is a buffer of a peer in this process.
type mapping struct {
	agent string // that has the buffer
	data  []byte
}

// peer holds the contents of a card, and the process behind it once it was needed.
type peer struct {
	card    card
	process *kernel.Watched
}

type agent struct {
	engine  *Engine
	own     kernel.ProcessID
	name    string
	cfg     nixl.AgentConfig
	queue   *queue // nil until the first file
	buffers []*buffer
	peers   map[int]*peer
	numbers map[string]int // of peers, by the agent's name
	// Processes and mappings stay until Disconnect or Close: batches made before a peer's
	// card was replaced may still use them.
	processes map[kernel.ProcessID]*kernel.Watched
	mapped    map[bufferID]mapping
	batches   map[*batch]struct{}
	lists     map[*list]struct{}
	closed    bool
	copied    map[way]int64 // pieces, of batches that were released

	lock sync.Mutex // of mail
	mail mail
}

var errClosed = errors.New("shm: the agent is closed")

// Info implements nixl.Agent. Its Params describe how files are reached once one was opened.
func (a *agent) Info() nixl.Info {
	info := a.engine.Info()
	if a.queue != nil {
		info.Params = map[string]string{"files": "POSIX " + a.fileAPI()}
		if access := a.access(); access != "" {
			info.Params["file_access"] = access
		}
	}
	return info
}

// Alloc makes a buffer of the next number. One of 0 bytes has a number but no memory, since peers count buffers.
func (a *agent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	if a.closed {
		return nil, errClosed
	}
	if mem != nixl.DRAM {
		return nil, fault.New(fault.Resource, "the shm engine has no %s buffers", mem).
			WithHint("use memory type dram (mem_type: dram, or --mem-type dram), or --engine nixl")
	}
	if size < 0 {
		return nil, fmt.Errorf("shm: a buffer of %d bytes", size)
	}
	if len(a.buffers) == maxBuffers {
		return nil, fault.New(fault.Resource, "shm: more than %d buffers", maxBuffers)
	}
	m, entry := emptyMemfd, cardBuffer{fd: -1}
	if size > 0 {
		var err error
		if m, err = allocate(size, a.cfg.HugePages); err != nil {
			return nil, err
		}
		if entry, err = describe(m.fd, size); err != nil {
			return nil, errors.Join(err, m.Free())
		}
	}
	return a.keep(&m, entry), nil
}

// keep makes memory the next buffer.
func (a *agent) keep(memory device.Memory, entry cardBuffer) *buffer {
	b := &buffer{Memory: memory, id: len(a.buffers), entry: entry}
	a.buffers = append(a.buffers, b)
	return b
}

// Reregister implements nixl.Agent.
func (a *agent) Reregister(int) error { return nixl.ErrNoRegistration }

// VRAMLeft implements nixl.Agent.
func (a *agent) VRAMLeft() (string, int64, error) {
	return "", 0, fault.New(fault.Resource, "the shm engine has no vram buffers")
}

func (a *agent) Card() ([]byte, error) {
	if a.closed {
		return nil, errClosed
	}
	a.openInbox()
	c := card{owner: a.own, name: a.name, inbox: a.mail.entry}
	for _, b := range a.buffers {
		c.buffers = append(c.buffers, b.entry)
	}
	return c.encode(), nil
}

// AddPeer takes a peer's card. A peer that comes back under its number with another name is a new agent; with the same
// name it has more buffers.
func (a *agent) AddPeer(number int, text []byte) error {
	if a.closed {
		return errClosed
	}
	c, err := decodeCard(text)
	if err != nil {
		return fault.New(fault.Engine, "peer %d: %w", number, err)
	}
	if old := a.peers[number]; old != nil && old.card.name != c.name {
		delete(a.numbers, old.card.name)
	}
	a.peers[number], a.numbers[c.name] = &peer{card: c}, number
	a.mail.heard = 0 // what an unknown sender has put in can be received now
	return a.renew(c)
}

// renew closes the way to an inbox that an agent of this name has no longer.
func (a *agent) renew(c card) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	box := a.mail.boxes[c.name]
	if box == nil || box.owner == c.owner && box.entry == c.inbox {
		return nil
	}
	delete(a.mail.boxes, c.name)
	return box.close()
}

// Connect has nothing to open, but knows its peers.
func (a *agent) Connect(peers []int) error {
	for _, p := range peers {
		if a.peers[p] == nil {
			return fmt.Errorf("shm: peer %d was not added", p)
		}
	}
	return nil
}

func (*agent) Connected() (bool, error) { return true, nil }

// Progress sends notices for which a peer had no room before.
func (a *agent) Progress() error {
	if a.closed {
		return errClosed
	}
	a.flush()
	return nil
}

// Disconnect implements nixl.Agent.
func (a *agent) Disconnect(peers []int) error {
	if a.closed {
		return errClosed
	}
	var errs []error
	for _, number := range peers {
		if p := a.peers[number]; p != nil {
			errs = append(errs, a.disconnect(number, p))
		}
	}
	return errors.Join(errs...)
}

// disconnect releases what uses a peer, then its mappings, its notices and, if no other peer lives in the same
// process, the watch on it. Batches go first: they point into the mappings.
func (a *agent) disconnect(number int, p *peer) error {
	var errs []error
	for b := range a.batches {
		if slices.ContainsFunc(b.tasks, func(t task) bool { return t.peer != nil && t.number == number }) {
			errs = append(errs, b.Release())
			b.broken = fault.New(fault.Internal, "peer %d was disconnected", number)
		}
	}
	for l := range a.lists {
		if l.number == number {
			errs = append(errs, l.Release())
		}
	}
	delete(a.peers, number)
	name := p.card.name
	for other, q := range a.peers {
		if q.card.name == name { // one agent under two numbers
			a.numbers[name] = other
			return errors.Join(errs...)
		}
	}
	delete(a.numbers, name)
	w, err := a.watch(p.card.owner)
	errs = append(errs, a.discard(name, err != nil || w.Gone()))
	for id, m := range a.mapped {
		if m.agent == name {
			errs = append(errs, unmap(m.data))
			delete(a.mapped, id)
		}
	}
	shared := func(q *peer) bool { return q.card.owner == p.card.owner }
	if w != nil && !slices.ContainsFunc(slices.Collect(maps.Values(a.peers)), shared) {
		w.Stop()
		delete(a.processes, p.card.owner)
	}
	return errors.Join(errs...)
}

func (a *agent) NewBatch(transfers []nixl.Transfer) (nixl.Batch, error) {
	if a.closed {
		return nil, errClosed
	}
	tasks := make([]task, 0, len(transfers))
	for _, t := range transfers {
		task, err := a.prepare(t)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return a.batchOf(tasks), nil
}

func (a *agent) batchOf(tasks []task) *batch {
	b := &batch{agent: a, tasks: tasks}
	for _, t := range tasks {
		b.bytes += t.bytes
		b.prep += t.prep
	}
	b.list()
	a.batches[b] = struct{}{}
	return b
}

// prepare checks one transfer and finds the memory at both ends.
func (a *agent) prepare(t nixl.Transfer) (task, error) {
	if t.Peer == nixl.Self {
		return a.prepareFile(t)
	}
	p := a.peers[t.Peer]
	if p == nil {
		return task{}, fmt.Errorf("shm: peer %d was not added", t.Peer)
	}
	if t.LocalBuffer < 0 || t.LocalBuffer >= len(a.buffers) {
		return task{}, fmt.Errorf("shm: transfer with peer %d: no local buffer %d", t.Peer, t.LocalBuffer)
	}
	if t.RemoteBuffer < 0 || t.RemoteBuffer >= len(p.card.buffers) {
		return task{}, fmt.Errorf("shm: transfer with peer %d: it has no buffer %d", t.Peer, t.RemoteBuffer)
	}
	if a.buffers[t.LocalBuffer].file() != nil {
		return task{}, fmt.Errorf("shm: transfer with peer %d: local buffer %d is a file; "+
			"files are at the remote end, with Peer Self", t.Peer, t.LocalBuffer)
	}
	local := a.buffers[t.LocalBuffer].Bytes()
	if err := t.Check(int64(len(local)), p.card.buffers[t.RemoteBuffer].size); err != nil {
		return task{}, fmt.Errorf("shm: %w", err)
	}
	remote, err := a.reach(p, t.RemoteBuffer)
	if err != nil {
		return task{}, fmt.Errorf("shm: peer %d: %w", t.Peer, err)
	}
	return newTask(t, p, local, remote), nil
}

// reach maps a peer's buffer, once, with its pages present: the first run must
// not be the one that faults them in.
func (a *agent) reach(p *peer, buffer int) ([]byte, error) {
	if p.process == nil {
		process, err := a.watch(p.card.owner)
		if err != nil {
			return nil, err
		}
		p.process = process
	}
	if p.process.Gone() {
		return nil, kernel.ProcessLost(p.card.owner)
	}
	id := bufferID{p.card.owner, p.card.buffers[buffer]}
	if m, ok := a.mapped[id]; ok {
		return m.data, nil
	}
	data, err := mapPeer(id.owner, id.cardBuffer, a.cfg.HugePages)
	if err == nil {
		a.mapped[id] = mapping{p.card.name, data}
	}
	return data, err
}

// watch finds the process behind a card, once.
func (a *agent) watch(owner kernel.ProcessID) (*kernel.Watched, error) {
	if w := a.processes[owner]; w != nil {
		return w, nil
	}
	if !owner.SameHost(a.own) {
		return nil, fault.New(fault.Engine, "it runs on another host").
			WithHint("the shm engine serves ranks of one host only; use --engine nixl")
	}
	if !owner.SameSpace(a.own) {
		return nil, fault.New(fault.Engine, "it runs in another pid namespace (another container)").
			WithHint("start the ranks of a host in one container, or use --engine nixl")
	}
	w, err := kernel.Watch(a.own, owner)
	if err == nil {
		a.processes[owner] = w
	}
	return w, err
}

// Close ends what is under way before it unmaps anything, since a copy into memory that is gone would be a signal. Own
// buffers go last; peers that have mapped them keep the pages.
func (a *agent) Close() error {
	if a.closed {
		return nil
	}
	a.closed = true
	var errs []error
	for b := range a.batches {
		errs = append(errs, b.Release())
	}
	if a.queue != nil {
		errs = append(errs, a.queue.Close())
	}
	for _, p := range a.processes {
		p.Stop()
	}
	errs = append(errs, a.mail.close())
	for _, m := range a.mapped {
		errs = append(errs, unmap(m.data))
	}
	for _, b := range slices.Backward(a.buffers) {
		errs = append(errs, b.Free())
	}
	a.mapped, a.processes, a.peers, a.buffers = nil, nil, nil, nil
	account.end(a)
	return errors.Join(errs...)
}
