package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/nixl"
)

// Lane is one agent of this rank with its buffers, files and peers. An agent is
// for one goroutine at a time, and so are its batches: hold Use.
type Lane struct {
	number load.Lane
	agent  nixl.Agent
	arenas [2]arena // by nixl.Mem
	files  map[string]*openFile
	cards  [][]byte // of all ranks, after an all-gather
	peers  []int    // whose buffers are reachable

	Running sync.WaitGroup // goroutines that use the lane
	using   *sync.Mutex    // of the lane that the user knows: its agents for host and for GPU memory take turns
}

// arena is the pair of buffers for one kind of memory.
type arena struct{ send, recv nixl.Buffer }

// openFile is a file as one lane uses it.
type openFile struct {
	nixl.Buffer
	from     int64 // where the lane's part begins
	writable bool
	made     bool
}

// Use calls f while no other goroutine uses the lane's agent or its batches.
func (l *Lane) Use(f func() error) error {
	l.using.Lock()
	defer l.using.Unlock()
	return f()
}

func (l *Lane) close() error {
	l.Running.Wait()
	return l.agent.Close()
}

// lane opens a lane at this rank, once.
func (s *Session) lane(number load.Lane) (*Lane, error) {
	if l := s.lanes[number]; l != nil {
		return l, nil
	}
	cfg := s.cfg
	cfg.Name = s.name(number)
	cfg.VRAM = cfg.VRAM || number.GPU()
	agent, err := s.engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	if s.turns[number.Given()] == nil {
		s.turns[number.Given()] = new(sync.Mutex)
	}
	l := &Lane{number: number, agent: agent, files: map[string]*openFile{}, using: s.turns[number.Given()]}
	s.lanes[number] = l
	return l, nil
}

// openLanes opens the lanes of a step. On the lane for files a rank that has none opens nothing.
func (s *Session) openLanes(step *step, loads []load.Load) error {
	for _, n := range step.lanes {
		if n.lane == load.Files && len(s.filesOn(n.lane, loads)) == 0 {
			continue
		}
		if _, err := s.lane(n.lane); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) filesOn(lane load.Lane, loads []load.Load) (list []load.File) {
	for _, d := range on(loads, lane) {
		list = append(list, d.Files(s.world.Rank(), lane)...)
	}
	return list
}

// key identifies a file among those of a lane.
func key(f load.File) string { return f.Path + "\x00" + f.Made }

// openFiles opens what this rank needs for loads: each file once, as large as the largest load wants it.
func (s *Session) openFiles(loads []load.Load) error {
	for _, number := range lanesOf(loads) {
		l := s.lanes[number]
		var wanted []load.File
		for _, f := range s.filesOn(number, loads) {
			i := slices.IndexFunc(wanted, func(w load.File) bool { return key(w) == key(f) })
			if i < 0 {
				wanted = append(wanted, f)
				continue
			}
			w := &wanted[i]
			w.Size, w.Existing = max(w.Size, f.Size), max(w.Existing, f.Existing)
			w.Write, w.Overwrite = w.Write || f.Write, w.Overwrite || f.Overwrite
		}
		for _, f := range wanted {
			if err := l.Use(func() error { return l.openFile(f) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// openFile opens a file unless it is open as it is needed.
func (l *Lane) openFile(f load.File) error {
	known := l.files[key(f)]
	if known != nil && (known.writable || !f.Write) {
		want := f.Existing
		if known.made {
			want = f.Size
		}
		if known.Size() >= want {
			return nil
		}
	}
	o, err := l.open(f)
	if err == nil {
		l.files[key(f)] = o
	}
	return err
}

// open opens a file that is there, or makes one. The order of the cases decides about data of the user: nothing that
// exists is written to unless the load allows it.
func (l *Lane) open(f load.File) (*openFile, error) {
	info, err := os.Stat(f.Path)
	switch {
	case err == nil && info.IsDir() && f.InFolder == "":
		return nil, fault.New(fault.Input, "%s: file_path %s is a folder, want a file", f.For, f.Path)
	case err == nil && info.IsDir():
		return l.create(f, filepath.Join(f.Path, f.InFolder))
	case errors.Is(err, fs.ErrNotExist) && f.Path[len(f.Path)-1] == '/':
		return nil, fault.New(fault.Input, "folder for %s: %w", f.For, err).
			WithHint("make it first, or leave out the / to have a file made under this name")
	case errors.Is(err, fs.ErrNotExist):
		return l.create(f, f.Made)
	case f.Write && !f.Overwrite:
		return nil, fault.New(fault.Input, "%s: file %s exists already, and is not overwritten", f.For,
			f.Path).WithHint("%s", f.Allow)
	case f.Several > 1:
		return nil, fault.New(fault.Input, "%s: file %s is there, and %d files are wanted", f.For, f.Path, f.Several).
			WithHint("name a folder, or a name that does not exist, to have files made")
	}
	b, err := l.agent.OpenFile(nixl.File{
		Path: f.Path, Size: f.Existing, Write: f.Write, Direct: f.Direct,
	})
	return &openFile{Buffer: b, from: f.From, writable: f.Write}, err
}

func (l *Lane) create(f load.File, path string) (*openFile, error) {
	b, err := l.agent.OpenFile(nixl.File{
		Path: path, Size: f.Size, Make: true, Write: f.Write, Direct: f.Direct,
	})
	return &openFile{Buffer: b, writable: true, made: true}, err
}

// Bound is one lane as a load uses it, with the buffers that were there when it was reserved.
type Bound struct {
	*Lane  // nil where this rank does not use the lane
	Number load.Lane
	arenas [2]arena
	files  []*openFile
}

func (s *Session) bind(d load.Load, number load.Lane) *Bound {
	b := &Bound{Number: number, Lane: s.lanes[number]}
	if b.Lane == nil {
		return b
	}
	b.arenas = b.Lane.arenas
	for _, f := range d.Files(s.world.Rank(), number) {
		b.files = append(b.files, b.Lane.files[key(f)])
	}
	return b
}

// MadeFiles reports whether the lane's files were made for it; if not, they were there.
func (b *Bound) MadeFiles() bool {
	return slices.ContainsFunc(b.files, func(f *openFile) bool { return f.made })
}

// Info identifies the lane's agent and its settings.
func (b *Bound) Info() nixl.Info { return b.agent.Info() }

// Agent is the lane's agent, for notices. It is for one goroutine at a time, as [Lane.Use] says.
func (b *Bound) Agent() nixl.Agent { return b.agent }

// Buffer returns the buffer at a place, and what to add to offsets in it.
func (b *Bound) Buffer(p load.Place) (buffer nixl.Buffer, from int64) {
	switch {
	case p.Mem == nixl.FILE:
		return b.files[p.File].Buffer, b.files[p.File].from
	case p.Side == load.Recv:
		return b.arenas[p.Mem].recv, Guard
	}
	return b.arenas[p.Mem].send, 0
}

// Batch prepares transfers.
func (b *Bound) Batch(list []load.Transfer) (batch nixl.Batch, err error) {
	err = b.Use(func() error {
		batch, err = b.BatchHeld(list)
		return err
	})
	return batch, err
}

// BatchHeld is Batch for a caller that holds the lane.
func (b *Bound) BatchHeld(list []load.Transfer) (nixl.Batch, error) {
	batch, err := b.agent.NewBatch(b.Transfers(list))
	if err != nil {
		return nil, fault.New(KindOf(err), "%w", err)
	}
	return batch, nil
}

// Transfers are those of a load as the lane's agent takes them.
func (b *Bound) Transfers(list []load.Transfer) []nixl.Transfer {
	transfers := make([]nixl.Transfer, len(list))
	for i, t := range list {
		local, here := b.Buffer(t.Local)
		remote, there := b.Buffer(t.Remote)
		transfers[i] = nixl.Transfer{
			Op: t.Op, Peer: t.Peer, LocalBuffer: local.ID(), RemoteBuffer: remote.ID(),
			Local: shifted(t.LocalAt, here), Remote: shifted(t.RemoteAt, there), Notice: t.Notice,
		}
	}
	return transfers
}

func shifted(list []nixl.Desc, by int64) []nixl.Desc {
	if by == 0 {
		return list
	}
	out := make([]nixl.Desc, len(list))
	for i, d := range list {
		out[i] = nixl.Desc{Off: d.Off + by, Len: d.Len}
	}
	return out
}
