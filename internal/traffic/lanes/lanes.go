package lanes

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"perigee/internal/fault"
	"perigee/internal/memory"
	"perigee/internal/traffic/link"
	"perigee/nixl"
	"perigee/spmd"
)

// Lanes are open lanes at one rank.
type Lanes struct {
	Spec
	world  *spmd.World
	seed   uint64
	lanes  []*lane
	info   nixl.Info
	made   bool // the files
	closed bool
}

// lane is one thread's agent. Buffer 0 is its own memory, buffer 1 what others reach, or the first file.
type lane struct {
	number  int
	agent   nixl.Agent
	local   nixl.Buffer
	remote  nixl.Buffer
	files   []fileRegion
	buffers []nixl.Buffer // of the files
}

// opened numbers the lanes of a process, whose agents need different names.
var opened atomic.Int64

// Open makes the lanes of all ranks. cfg says what the agents have in common.
func Open(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64, s Spec) (*Lanes, error) {
	if err := s.check(w.Size()); err != nil {
		return nil, err
	}
	l := &Lanes{Spec: s, world: w, seed: seed}
	err := l.open(engine, cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lanes) open(engine nixl.Engine, cfg nixl.AgentConfig) error {
	if err := l.checkMemory(); err != nil {
		return err
	}
	// Nobody takes memory before it is known to suffice.
	if err := l.world.All().Barrier(); err != nil {
		return err
	}
	cfg.OneHost, cfg.GPU = l.world.OneHost(), l.GPU
	cfg.FileBackend, cfg.FileAPI = l.Backend, l.API
	for t := range l.Threads {
		cfg.Name = fmt.Sprintf("perigee-%d-lane-%d", l.world.Rank(), opened.Add(1))
		agent, err := engine.NewAgent(cfg)
		if err != nil {
			return err
		}
		n := &lane{number: t, agent: agent}
		l.lanes = append(l.lanes, n)
		if err := l.allocate(n); err != nil {
			return err
		}
	}
	l.info = l.lanes[0].agent.Info()
	return l.connect()
}

// checkMemory lets the lowest rank of each host compare what all its ranks
// are about to take with what there is.
func (l *Lanes) checkMemory() error {
	host := l.world.Hosts()[l.world.HostOf(l.world.Rank())]
	if host.Ranks[0] != l.world.Rank() {
		return nil
	}
	var want int64
	for _, r := range host.Ranks {
		if want += l.need(r); want < 0 {
			want = 1<<63 - 1
			break
		}
	}
	available, err := memory.Available("/")
	if err != nil || want <= available {
		return nil // if the kernel does not say, the allocation itself will tell
	}
	return fault.New(fault.Resource, "the buffers of the %d ranks on %s need %d bytes, but only %d bytes of memory are available", len(host.Ranks), host.Name, want, available).
		WithHint("smaller blocks or batches, or fewer threads or ranks on this host")
}

func (l *Lanes) allocate(n *lane) error {
	me := l.world.Rank()
	alloc := func(b *nixl.Buffer, mem nixl.Mem, regions int) (err error) {
		if *b, err = n.agent.Alloc(mem, l.region()*int64(regions)); err == nil || fault.KindOf(err) != fault.Internal {
			return err
		}
		return fault.New(fault.Resource, "allocate %d bytes of %s: %w", l.region()*int64(regions), mem, err)
	}
	if err := alloc(&n.local, l.Local, l.localRegions(me)); err != nil {
		return err
	}
	if l.Remote != nixl.FILE {
		return alloc(&n.remote, l.Remote, l.remoteRegions(me))
	}
	if l.localRegions(me) == 0 {
		return nil
	}
	return l.openFiles(n)
}

// openFiles opens a lane's files, or makes them.
func (l *Lanes) openFiles(n *lane) error {
	info, err := os.Stat(l.Files.Path)
	if err == nil && !info.IsDir() {
		return l.openExisting(n)
	}
	if err != nil && strings.HasSuffix(l.Files.Path, "/") {
		return fault.New(fault.Input, "folder for files: %w", err).WithHint("make it first, or leave out the / to have a file made under this name")
	}
	l.made = true
	for k := range l.Files.Count {
		b, err := n.agent.OpenFile(nixl.File{Path: l.fileName(n.number, k, err == nil), Size: l.share(), Make: true, Direct: l.Files.Direct})
		if err != nil {
			return err
		}
		n.buffers = append(n.buffers, b)
		n.files = append(n.files, fileRegion{buffer: b.ID()})
	}
	return nil
}

// fileName names a file that is to be made, in a folder or beside a name.
func (l *Lanes) fileName(lane, k int, folder bool) string {
	path := l.Files.Path
	if folder {
		path = strings.TrimSuffix(path, "/") + "/perigee"
	} else if l.Files.Count*l.Threads*len(l.initiators()) == 1 {
		return path
	}
	return fmt.Sprintf("%s-%d-%d-%d", path, l.world.Rank(), lane, k)
}

// openExisting opens a file that is there. Each lane of each initiator has its own part of it.
func (l *Lanes) openExisting(n *lane) error {
	path := l.Files.Path
	if l.Op == nixl.Write && !l.Files.Overwrite {
		return fault.New(fault.Input, "file %s exists already, and is not overwritten", path).
			WithHint("name a file that does not exist, or a folder; or allow it with --overwrite")
	}
	if l.Files.Count > 1 {
		return fault.New(fault.Input, "file %s is there, and %d files are wanted", path, l.Files.Count).
			WithHint("name a folder, or a name that does not exist, to have files made")
	}
	all := l.initiators()
	number := slices.Index(all, l.world.Rank())*l.Threads + n.number
	size := satMultiply(l.share(), int64(len(all)*l.Threads-1)) + l.Batch*l.Block
	b, err := n.agent.OpenFile(nixl.File{Path: path, Size: size, Write: l.Op == nixl.Write, Direct: l.Files.Direct})
	if err != nil {
		return err
	}
	n.buffers = []nixl.Buffer{b}
	n.files = []fileRegion{{buffer: b.ID(), from: int64(number) * l.share()}}
	return nil
}

// connect tells the lanes of all ranks of each other and opens the ways.
func (l *Lanes) connect() error {
	if l.Remote == nixl.FILE {
		return l.world.All().Barrier()
	}
	cards := make([][]byte, len(l.lanes))
	for t, n := range l.lanes {
		var err error
		if cards[t], err = n.agent.Card(); err != nil {
			return fault.New(fault.Engine, "describe the buffers: %w", err)
		}
	}
	all, err := spmd.AllGatherValue(l.world.All(), cards)
	if err != nil {
		return err
	}
	me := l.world.Rank()
	peers := append(slices.Clone(l.Peers[me]), l.initiatorsOf(me)...)
	slices.Sort(peers)
	peers = slices.Compact(peers)
	ways := make([]link.Way, len(l.lanes))
	for t, n := range l.lanes {
		for _, p := range peers {
			if err := n.agent.AddPeer(p, all[p][t]); err != nil {
				return fault.New(fault.Engine, "reach the buffers of rank %d: %w", p, err)
			}
		}
		ways[t] = link.Way{Agent: n.agent, Peers: peers}
	}
	return link.Connect(l.world, ways...)
}

// Info tells what moves the bytes.
func (l *Lanes) Info() nixl.Info { return l.info }

// MadeFiles reports whether this rank's files were made for these lanes; if not, one was there.
func (l *Lanes) MadeFiles() bool { return l.made }

// initiates reports whether this rank posts transfers.
func (l *Lanes) initiates() bool { return len(l.Peers[l.world.Rank()]) > 0 }

// Close releases the lanes of this rank, and lets go of their files.
func (l *Lanes) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	for _, n := range l.lanes {
		errs = append(errs, n.agent.Close())
	}
	return errors.Join(errs...)
}
