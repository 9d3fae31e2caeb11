package lanes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/nixl/nixltest"
	"perigee/spmd"
)

// play opens lanes at n ranks, calls body at each, and returns the errors of the ranks.
func play(t *testing.T, n int, engine nixl.Engine, s Spec, body func(w *spmd.World, l *Lanes) error) []error {
	t.Helper()
	open := make([]*Lanes, n)
	errs := traffictest.Worlds(t, n, func(w *spmd.World) error {
		l, err := Open(w, engine, nixl.AgentConfig{}, 3, s)
		if err != nil {
			return err
		}
		open[w.Rank()] = l
		return body(w, l)
	})
	for _, l := range open {
		if l == nil {
			continue
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
	return errs
}

func mustPlay(t *testing.T, n int, s Spec, body func(w *spmd.World, l *Lanes) error) {
	t.Helper()
	for r, err := range play(t, n, new(traffictest.Engine), s, body) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// shapes are who talks with whom, for four ranks.
var shapes = map[string][][]int{
	"pairwise":  {{2}, {3}, nil, nil},
	"manytoone": {{3}, {3}, {3}, nil},
	"onetomany": {{1, 2, 3}, nil, nil, nil},
	"all":       {{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}},
	"itself":    {nil, {1}, nil, nil},
}

func TestEveryShapeMovesEveryByte(t *testing.T) {
	for name, peers := range shapes {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprint(name, op, threads), func(t *testing.T) {
					mustPlay(t, 4, Spec{Peers: peers, Threads: threads, Op: op, Block: 5000, Batch: 7}, func(w *spmd.World, l *Lanes) error {
						for _, c := range []Case{{Block: 1, Batch: 1, Iterations: 3}, {Block: 5000, Batch: 7, Iterations: 2, Warmup: 1}, {Block: 4096, Batch: 2, Iterations: 4, Recreate: true}} {
							if err := l.Verify(c); err != nil {
								return err
							}
							m, err := l.Measure(c)
							if err != nil {
								return err
							}
							if (m != nil) != (w.Rank() == 0) {
								return fmt.Errorf("rank %d: got %v", w.Rank(), m)
							}
							if m == nil {
								continue
							}
							if err := wantMeasured(m, c, peers, threads); err != nil {
								return err
							}
						}
						return nil
					})
				})
			}
		}
	}
}

// wantMeasured compares a measurement with what the case makes certain.
func wantMeasured(m *series.Measurement, c Case, peers [][]int, threads int) error {
	ways, lanes := 0, 0
	for r, list := range peers {
		ways += len(list)
		if len(list) > 0 {
			lanes += threads
		}
		if want := c.Block * c.Batch * int64(len(list)*threads*c.Iterations); m.Ranks[r].Bytes != want || (m.Ranks[r].StartNS != 0) != (want > 0) {
			return fmt.Errorf("rank %d: %+v, want %d bytes", r, m.Ranks[r], want)
		}
	}
	if want := c.Block * c.Batch * int64(ways*threads*c.Iterations); m.Bytes != want {
		return fmt.Errorf("%d bytes, want %d", m.Bytes, want)
	}
	runs, preps := int64(lanes*c.Iterations), int64(lanes)
	if c.Recreate {
		preps = runs
	}
	if m.Latency.Count != runs || m.Post.Count != runs || m.Tx.Count != runs || m.Prep.Count != preps {
		return fmt.Errorf("%d, %d, %d samples and %d of preparing, want %d and %d", m.Latency.Count, m.Post.Count, m.Tx.Count, m.Prep.Count, runs, preps)
	}
	span := float64(m.EndNS - m.StartNS)
	if span <= 0 || m.Bandwidth*span < 0.999e9*float64(m.Bytes) || m.Bandwidth*span > 1.001e9*float64(m.Bytes) || float64(m.Latency.Max) > span {
		return fmt.Errorf("%v bytes per second in %v ns, longest %v", m.Bandwidth, span, m.Latency.Max)
	}
	if m.Latency.Mean > m.Post.Mean+m.Tx.Mean+1 || m.Latency.Mean < m.Post.Mean+m.Tx.Mean-1 || m.CPUSeconds < 0 {
		return fmt.Errorf("latency %v is not post %v and tx %v", m.Latency.Mean, m.Post.Mean, m.Tx.Mean)
	}
	return nil
}

// flipping is an engine one of whose buffers, by ID, reads with another byte at a place.
type flipping struct {
	traffictest.Engine
	rank   string // part of the agent's name
	buffer int
	place  int64
}

func (f *flipping) NewAgent(cfg nixl.AgentConfig) (nixl.Agent, error) {
	a, err := f.Engine.NewAgent(cfg)
	if err != nil || !strings.HasPrefix(cfg.Name, "perigee-"+f.rank+"-") {
		return a, err
	}
	return flippingAgent{a, f}, nil
}

type flippingAgent struct {
	nixl.Agent
	f *flipping
}

func (a flippingAgent) wrap(b nixl.Buffer, err error) (nixl.Buffer, error) {
	if err != nil || b.ID() != a.f.buffer {
		return b, err
	}
	return flippedBuffer{b, a.f.place}, nil
}

func (a flippingAgent) Alloc(mem nixl.Mem, size int64) (nixl.Buffer, error) {
	return a.wrap(a.Agent.Alloc(mem, size))
}

func (a flippingAgent) OpenFile(f nixl.File) (nixl.Buffer, error) { return a.wrap(a.Agent.OpenFile(f)) }

type flippedBuffer struct {
	nixl.Buffer
	place int64
}

func (b flippedBuffer) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.Buffer.ReadAt(p, off)
	if at := b.place - off; at >= 0 && at < int64(n) {
		p[at] ^= 4
	}
	return n, err
}

// One changed byte is found, whichever way it went, and told exactly.
func TestOneFlippedByte(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		name   string
		engine flipping
		spec   Spec
		want   string
	}{
		{"write", flipping{rank: "1", buffer: 1, place: 4096 + 105}, Spec{Peers: [][]int{{1}, nil}},
			"rank 0 with rank 1, thread 0: in the peer's memory, block 1, byte 5 is "},
		{"read", flipping{rank: "0", buffer: 0, place: 299}, Spec{Peers: [][]int{{1}, nil}, Op: nixl.Read},
			"rank 0 with rank 1, thread 0: in the initiator's memory, block 2, byte 99 is "},
		{"write a file", flipping{rank: "1", buffer: 1, place: 0}, Spec{Peers: [][]int{{0}, {1}}, Remote: nixl.FILE, Files: Files{Path: folder, Count: 1}},
			"rank 1, thread 0: in the file, block 0, byte 0 is "},
		{"read a file", flipping{rank: "1", buffer: 0, place: 101}, Spec{Peers: [][]int{{0}, {1}}, Op: nixl.Read, Remote: nixl.FILE, Files: Files{Path: folder, Count: 2}},
			"rank 1, thread 0: in the memory read to, block 1, byte 1 is "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Threads, c.spec.Block, c.spec.Batch = 1, 4096, 3
			if c.name == "write" {
				c.spec.Peers = [][]int{{1}, {1}} // the second of two regions at rank 1
				c.engine.place = 12288 + 105
				c.want = "rank 1 with rank 1, thread 0: in the peer's memory, block 1, byte 5 is "
			}
			errs := play(t, 2, &c.engine, c.spec, func(w *spmd.World, l *Lanes) error {
				return l.Verify(Case{Block: 100, Batch: 3})
			})
			var found *Corruption
			for _, err := range errs {
				if e, ok := errors.AsType[*Corruption](err); ok {
					found = e
					if fault.KindOf(err) != fault.Corrupt {
						t.Errorf("%v is of kind %v", err, fault.KindOf(err))
					}
				}
			}
			if found == nil || !strings.HasPrefix(found.Error(), c.want) || found.WrongBytes != 1 || found.Got != found.Want^4 {
				t.Errorf("got %v, %v\nwant %s", found, errs, c.want)
			}
			for r, err := range errs {
				if err == nil {
					t.Errorf("rank %d goes on as if nothing had happened", r)
				}
			}
		})
	}
}

func alone(ranks int) [][]int {
	peers := make([][]int, ranks)
	for r := range peers {
		peers[r] = []int{r}
	}
	return peers
}

// Files that are made leave nothing, whatever they are called; those that are there are shared out.
func TestFiles(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, make([]byte, 4*8192), 0o600); err != nil {
		t.Fatal(err)
	}
	apis := nixltest.FileAPIs(t)
	for _, files := range []Files{{Path: folder, Count: 1}, {Path: folder + "/", Count: 3}, {Path: filepath.Join(folder, "new"), Count: 2}, {Path: there, Count: 1, Overwrite: true}} {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			for _, api := range apis {
				s := Spec{Peers: alone(2), Threads: 2, Op: op, Remote: nixl.FILE, Block: 1000, Batch: 7, Files: files, API: api}
				mustPlay(t, 2, s, func(w *spmd.World, l *Lanes) error {
					if err := l.Verify(Case{Block: 999, Batch: 7}); err != nil {
						return err
					}
					m, err := l.Measure(Case{Block: 100, Batch: 2, Iterations: 5})
					if err == nil && w.Rank() == 0 {
						err = wantMeasured(m, Case{Block: 100, Batch: 2, Iterations: 5}, s.Peers, 2)
					}
					return err
				})
			}
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != "there" {
		t.Errorf("in the folder: %v, %v", left, err)
	}
}

// A single file has the very name that the user gave.
func TestFileNames(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Peers: alone(1), Threads: 1, Files: Files{Path: "x", Count: 1}}, "x"},
		{Spec{Peers: alone(2), Threads: 1, Files: Files{Path: "x", Count: 1}}, "x-0-3-4"},
		{Spec{Peers: alone(1), Threads: 2, Files: Files{Path: "x", Count: 1}}, "x-0-3-4"},
		{Spec{Peers: alone(1), Threads: 1, Files: Files{Path: "x", Count: 2}}, "x-0-3-4"},
	} {
		traffictest.Worlds(t, 1, func(w *spmd.World) error {
			l := &Lanes{Spec: c.spec, world: w}
			if got := l.fileName(3, 4, false); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			return nil
		})
	}
}

// What cannot be is refused at all ranks, and leaves nothing.
func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, make([]byte, 20000), 0o600); err != nil {
		t.Fatal(err)
	}
	good := Spec{Peers: [][]int{{1}, nil}, Threads: 1, Block: 100, Batch: 2}
	file := Spec{Peers: alone(2), Threads: 1, Block: 100, Batch: 2, Remote: nixl.FILE, Files: Files{Path: there, Count: 1}}
	for name, c := range map[string]struct {
		from   Spec
		change func(s *Spec)
		kind   fault.Kind
		words  string
	}{
		"world":        {good, func(s *Spec) { s.Peers = s.Peers[:1] }, fault.Script, "1 ranks in a world of 2"},
		"threads":      {good, func(s *Spec) { s.Threads = 0 }, fault.Input, "0 threads"},
		"block":        {good, func(s *Spec) { s.Block = 0 }, fault.Input, "blocks of 0 bytes"},
		"batch":        {good, func(s *Spec) { s.Batch = -1 }, fault.Input, "batches of -1"},
		"overflow":     {good, func(s *Spec) { s.Block, s.Batch = 1<<62, 1<<20 }, fault.Input, "more than any machine has"},
		"enormous":     {good, func(s *Spec) { s.Block = 1 << 55 }, fault.Resource, "memory are available"},
		"limit":        {good, func(s *Spec) { s.Limit, s.Threads = 399, 2 }, fault.Input, "need 400 bytes, more than the total buffer size of 399"},
		"peer":         {good, func(s *Spec) { s.Peers = [][]int{{2}, nil} }, fault.Script, "the peer 2"},
		"twice":        {good, func(s *Spec) { s.Peers = [][]int{{1, 1}, nil} }, fault.Script, "twice"},
		"local file":   {good, func(s *Spec) { s.Local = nixl.FILE }, fault.Input, "remote end"},
		"other's file": {file, func(s *Spec) { s.Peers = [][]int{{1}, nil} }, fault.Script, "files are its own"},
		"no path":      {file, func(s *Spec) { s.Files.Path = "" }, fault.Input, "path"},
		"no files":     {file, func(s *Spec) { s.Files.Count = 0 }, fault.Input, "0 files"},
		"overwrite":    {file, func(s *Spec) {}, fault.Input, "is not overwritten"},
		"several":      {file, func(s *Spec) { s.Files.Count, s.Op = 2, nixl.Read }, fault.Input, "2 files are wanted"},
		"too short":    {file, func(s *Spec) { s.Block, s.Op = 10000, nixl.Read }, fault.Input, "has 20000 bytes"},
		"interface":    {file, func(s *Spec) { s.API = "TAPE"; s.Op = nixl.Read }, fault.Usage, "TAPE"},
		"backend":      {file, func(s *Spec) { s.Backend = "GDS"; s.Op = nixl.Read }, fault.Engine, "GDS"},
		"gpu":          {good, func(s *Spec) { s.Remote = nixl.VRAM }, fault.Resource, "vram"},
		"full":         {file, func(s *Spec) { s.Files.Path, s.Block = folder, 1<<55; s.Local = nixl.VRAM }, fault.Resource, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.from
			c.change(&s)
			for r, err := range play(t, 2, new(traffictest.Engine), s, func(*spmd.World, *Lanes) error { return nil }) {
				if err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.words) {
					t.Errorf("rank %d: got %v (%v), want kind %v and %q", r, err, fault.KindOf(err), c.kind, c.words)
				}
			}
		})
	}
	for name, c := range map[string]Case{
		"block": {Block: 101, Batch: 1, Iterations: 1}, "batch": {Block: 1, Batch: 3, Iterations: 1},
		"no block": {Batch: 1, Iterations: 1}, "no iterations": {Block: 1, Batch: 1}, "warmup": {Block: 1, Batch: 1, Iterations: 1, Warmup: -1},
	} {
		for r, err := range play(t, 2, new(traffictest.Engine), good, func(_ *spmd.World, l *Lanes) error {
			_, err := l.Measure(c)
			return err
		}) {
			if err == nil || fault.KindOf(err) != fault.Script {
				t.Errorf("%s: rank %d: got %v", name, r, err)
			}
		}
	}
	if data, err := os.ReadFile(there); err != nil || string(data) != string(make([]byte, 20000)) {
		t.Errorf("the file was changed: %v", err)
	}
}

// A lane that fails ends those of all ranks, and the one that is at fault is told.
func TestOneLaneFails(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, make([]byte, 3*4096+200), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Spec{Peers: alone(2), Threads: 2, Op: nixl.Read, Block: 100, Batch: 2, Remote: nixl.FILE, Files: Files{Path: there, Count: 1}}
	errs := play(t, 2, new(traffictest.Engine), s, func(w *spmd.World, l *Lanes) error {
		if err := w.All().Barrier(); err != nil {
			return err
		}
		if w.Rank() == 0 {
			// Now the last lane's part is gone.
			if err := os.Truncate(there, 3*4096); err != nil {
				return err
			}
		}
		if err := w.All().Barrier(); err != nil {
			return err
		}
		_, err := l.Measure(Case{Block: 100, Batch: 2, Iterations: 1 << 30})
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "reading file "+there) {
			t.Errorf("rank %d: got %v", r, err)
		}
	}
}
