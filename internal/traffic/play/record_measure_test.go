package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/nixl/nixltest"
	"perigee/spmd"
)

// lanes is a session with the memory for the largest case of blocks.
type lanes struct {
	*session.Session
	load.Blocks
}

// repeat is a case, and how often it is measured.
type repeat struct {
	Block, Batch int64
	Repeat
}

func (l *lanes) plan(c repeat) (*LoadPlan, error) {
	one, err := l.Case(c.Block, c.Batch)
	if err != nil {
		return nil, err
	}
	return New(l.Session, one)
}

func (l *lanes) verify(c repeat) error {
	p, err := l.plan(c)
	if err != nil {
		return err
	}
	return errors.Join(Verify(p), p.Release())
}

func (l *lanes) measure(c repeat) (*series.Measurement, error) {
	p, err := l.plan(c)
	if err != nil {
		return nil, err
	}
	m, err := Measure(p, c.Repeat)
	return m, errors.Join(err, p.Release())
}

// playOn opens lanes at n ranks, calls body at each, and returns the errors of the ranks.
func playOn(t *testing.T, n int, engine nixl.Engine, cfg nixl.AgentConfig, b load.Blocks, body func(w *spmd.World, l *lanes) error) []error {
	t.Helper()
	return onRanks(t, n, engine, cfg, func(w *spmd.World, s *session.Session) error {
		if _, err := s.Reserve([]load.Load{b}); err != nil {
			return err
		}
		return body(w, &lanes{s, b})
	})
}

func mustPlay(t *testing.T, n int, cfg nixl.AgentConfig, b load.Blocks, body func(w *spmd.World, l *lanes) error) {
	t.Helper()
	for r, err := range playOn(t, n, new(traffictest.Engine), cfg, b, body) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// shapesOf lists the peers of each of four ranks.
var shapesOf = map[string][][]int{
	"pairwise":  {{2}, {3}, nil, nil},
	"manytoone": {{3}, {3}, {3}, nil},
	"onetomany": {{1, 2, 3}, nil, nil, nil},
	"all":       {{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}},
	"itself":    {nil, {1}, nil, nil},
}

func TestEveryShapeMovesEveryByte(t *testing.T) {
	for name, peers := range shapesOf {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			for _, threads := range []int{1, 3} {
				t.Run(fmt.Sprint(name, op, threads), func(t *testing.T) {
					mustPlay(t, 4, nixl.AgentConfig{}, load.Blocks{Peers: peers, Threads: threads, Op: op, Block: 5000, Batch: 7}, func(w *spmd.World, l *lanes) error {
						for _, c := range []repeat{{1, 1, Repeat{Iterations: 3}}, {5000, 7, Repeat{Iterations: 2, Warmup: 1}}, {4096, 2, Repeat{Iterations: 4, Recreate: true}}} {
							if err := l.verify(c); err != nil {
								return err
							}
							m, err := l.measure(c)
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

// Pipelines, prepared lists and shuffled blocks move the same bytes, whatever the shape.
func TestEveryManner(t *testing.T) {
	for name, peers := range shapesOf {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			t.Run(fmt.Sprint(name, op), func(t *testing.T) {
				b := load.Blocks{Peers: peers, Threads: 2, Op: op, Block: 5000, Batch: 7, Shuffle: new(uint64(3))}
				mustPlay(t, 4, nixl.AgentConfig{}, b, func(w *spmd.World, l *lanes) error {
					var moved atomic.Int64
					for _, r := range []Repeat{
						{Iterations: 7, Warmup: 2, Depth: 3}, {Iterations: 2, Depth: 5}, {Iterations: 3, Prepared: true},
						{Iterations: 3, Prepared: true, Recreate: true}, {Iterations: 3, Prepared: true, Depth: 2},
					} {
						c := repeat{4096, 6, r}
						c.Progress = func(n int64) { moved.Add(n) }
						if err := l.verify(c); err != nil {
							return err
						}
						moved.Store(0)
						m, err := l.measure(c)
						if err != nil {
							return err
						}
						if want := 4096 * 6 * int64(len(peers[w.Rank()])*2*(r.Iterations+r.Warmup)); moved.Load() != want {
							return fmt.Errorf("%+v: a progress of %d bytes, want %d", r, moved.Load(), want)
						}
						if m == nil {
							continue
						}
						if err := wantMeasured(m, c, peers, 2); err != nil {
							return fmt.Errorf("%+v: %w", r, err)
						}
					}
					return nil
				})
			})
		}
	}
}

func TestMannersThatDoNotGo(t *testing.T) {
	b := load.Blocks{Peers: [][]int{{1}, nil}, Threads: 1, Block: 64, Batch: 2}
	files := load.Blocks{Peers: [][]int{{0}, nil}, Threads: 1, Block: 64, Batch: 2, Remote: nixl.FILE, Store: load.Store{Path: t.TempDir(), Count: 1}}
	for _, c := range []struct {
		blocks load.Blocks
		repeat Repeat
		want   string
	}{
		{b, Repeat{Iterations: 2, Depth: 2, Recreate: true}, "cannot prepare its requests anew"},
		{b, Repeat{Iterations: 2, Depth: 2, Reregister: true}, "cannot prepare its requests anew"},
		{b, Repeat{Iterations: 2, Depth: -1}, "a pipeline of -1 iterations"},
		{b, Repeat{Iterations: 2, Reregister: true}, "does not register memory"},
		{files, Repeat{Iterations: 2, Prepared: true}, "files have no prepared lists"},
	} {
		errs := playOn(t, 2, new(traffictest.Engine), nixl.AgentConfig{}, c.blocks, func(_ *spmd.World, l *lanes) error {
			_, err := l.measure(repeat{64, 2, c.repeat})
			return err
		})
		if errs[0] == nil || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.repeat, errs[0], c.want)
		}
	}
}

// wantMeasured compares a measurement with what the case makes certain.
func wantMeasured(m *series.Measurement, c repeat, peers [][]int, threads int) error {
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
	preps *= int64(max(c.Depth, 1))
	if c.Recreate || c.Reregister {
		preps = runs
	}
	if m.Latency.Count != runs || m.Post.Count != runs || m.Tx.Count != runs || m.Prep.Count != preps {
		return fmt.Errorf("%d, %d, %d samples and %d of preparing, want %d and %d", m.Latency.Count, m.Post.Count, m.Tx.Count, m.Prep.Count, runs, preps)
	}
	span := float64(m.EndNS - m.StartNS)
	// A latency is a difference on one rank's clock, the span one on the common time line, where the clock is taken
	// to drift by 500 ppm at most.
	longest := 1.001*span + 1
	if span <= 0 || m.Bandwidth*span < 0.999e9*float64(m.Bytes) || m.Bandwidth*span > 1.001e9*float64(m.Bytes) || float64(m.Latency.Max) > longest {
		return fmt.Errorf("%v bytes per second in %v ns, longest %v", m.Bandwidth, span, m.Latency.Max)
	}
	if m.Latency.Mean > m.Post.Mean+m.Tx.Mean+1 || m.Latency.Mean < m.Post.Mean+m.Tx.Mean-1 || m.CPUSeconds < 0 {
		return fmt.Errorf("latency %v is not post %v and tx %v", m.Latency.Mean, m.Post.Mean, m.Tx.Mean)
	}
	return nil
}

// One changed byte is found, whichever way it went, and told exactly.
func TestOneFlippedByte(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		name   string
		engine traffictest.Damaged
		spec   load.Blocks
		want   string
	}{
		{"write", traffictest.Damaged{Lost: -9, Rank: 1, Buffer: 1, Flips: map[int64]byte{session.Guard + 4096 + 105: 4}}, load.Blocks{Peers: [][]int{{1}, nil}},
			"set below"},
		{"read", traffictest.Damaged{Lost: -9, Rank: 0, Buffer: 1, Flips: map[int64]byte{session.Guard + 299: 4}}, load.Blocks{Peers: [][]int{{1}, nil}, Op: nixl.Read},
			"3 blocks of 100 bytes: message from rank 1 to rank 0, block 2: byte 99 is "},
		{"write a file", traffictest.Damaged{Lost: -9, Rank: 1, Buffer: 2, Flips: map[int64]byte{0: 4}}, load.Blocks{Peers: [][]int{{0}, {1}}, Remote: nixl.FILE, Store: load.Store{Path: folder, Count: 1}},
			"3 blocks of 100 bytes: rank 1, the file, block 0: byte 0 is "},
		{"read a file", traffictest.Damaged{Lost: -9, Rank: 1, Buffer: 1, Flips: map[int64]byte{session.Guard + 101: 4}}, load.Blocks{Peers: [][]int{{0}, {1}}, Op: nixl.Read, Remote: nixl.FILE, Store: load.Store{Path: folder, Count: 2}},
			"3 blocks of 100 bytes: rank 1, the memory read to, block 1: byte 1 is "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Threads, c.spec.Block, c.spec.Batch = 1, 4096, 3
			if c.name == "write" {
				c.spec.Peers = [][]int{{1}, {1}} // the second of two regions at rank 1
				c.engine.Flips = map[int64]byte{session.Guard + 12288 + 105: 4}
				c.want = "3 blocks of 100 bytes: message from rank 1 to rank 1, block 1: byte 5 is "
			}
			errs := playOn(t, 2, &c.engine, nixl.AgentConfig{}, c.spec, func(w *spmd.World, l *lanes) error {
				return l.verify(repeat{Block: 100, Batch: 3})
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
	must.Do(t, os.WriteFile(there, make([]byte, 4*8192), 0o600))
	apis := nixltest.FileAPIs(t)
	for _, files := range []load.Store{{Path: folder, Count: 1}, {Path: folder + "/", Count: 3}, {Path: filepath.Join(folder, "new"), Count: 2}, {Path: there, Count: 1, Overwrite: true}} {
		for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
			for _, api := range apis {
				s := load.Blocks{Peers: alone(2), Threads: 2, Op: op, Remote: nixl.FILE, Block: 1000, Batch: 7, Store: files}
				mustPlay(t, 2, nixl.AgentConfig{FileAPI: api}, s, func(w *spmd.World, l *lanes) error {
					if err := l.verify(repeat{Block: 999, Batch: 7}); err != nil {
						return err
					}
					m, err := l.measure(repeat{100, 2, Repeat{Iterations: 5}})
					if err == nil && w.Rank() == 0 {
						err = wantMeasured(m, repeat{100, 2, Repeat{Iterations: 5}}, s.Peers, 2)
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

// What cannot be is refused at all ranks, and leaves nothing.
func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	must.Do(t, os.WriteFile(there, make([]byte, 20000), 0o600))
	good := load.Blocks{Peers: [][]int{{1}, nil}, Threads: 1, Block: 100, Batch: 2}
	file := load.Blocks{Peers: alone(2), Threads: 1, Block: 100, Batch: 2, Remote: nixl.FILE, Store: load.Store{Path: there, Count: 1}}
	for name, c := range map[string]struct {
		from   load.Blocks
		change func(s *load.Blocks)
		kind   fault.Kind
		words  string
	}{
		"world":        {good, func(s *load.Blocks) { s.Peers = s.Peers[:1] }, fault.Script, "1 ranks in a world of 2"},
		"threads":      {good, func(s *load.Blocks) { s.Threads = 0 }, fault.Input, "0 threads"},
		"block":        {good, func(s *load.Blocks) { s.Block = 0 }, fault.Input, "blocks of 0 bytes"},
		"batch":        {good, func(s *load.Blocks) { s.Batch = -1 }, fault.Input, "batches of -1"},
		"overflow":     {good, func(s *load.Blocks) { s.Block, s.Batch = 1<<62, 1<<20 }, fault.Input, "more than any machine has"},
		"enormous":     {good, func(s *load.Blocks) { s.Block = 1 << 55 }, fault.Resource, "memory are available"},
		"limit":        {good, func(s *load.Blocks) { s.Limit, s.Threads = 399, 2 }, fault.Input, "need 400 bytes, more than the total buffer size of 399"},
		"peer":         {good, func(s *load.Blocks) { s.Peers = [][]int{{2}, nil} }, fault.Script, "the peer 2"},
		"twice":        {good, func(s *load.Blocks) { s.Peers = [][]int{{1, 1}, nil} }, fault.Script, "twice"},
		"local file":   {good, func(s *load.Blocks) { s.Local = nixl.FILE }, fault.Input, "remote end"},
		"other's file": {file, func(s *load.Blocks) { s.Peers = [][]int{{1}, nil} }, fault.Script, "files are its own"},
		"no path":      {file, func(s *load.Blocks) { s.Store.Path = "" }, fault.Input, "path"},
		"no files":     {file, func(s *load.Blocks) { s.Store.Count = 0 }, fault.Input, "0 files"},
		"overwrite":    {file, func(s *load.Blocks) {}, fault.Input, "is not overwritten"},
		"several":      {file, func(s *load.Blocks) { s.Store.Count, s.Op = 2, nixl.Read }, fault.Input, "2 files are wanted"},
		"too short":    {file, func(s *load.Blocks) { s.Block, s.Op = 10000, nixl.Read }, fault.Input, "has 20000 bytes"},
		"interface":    {file, func(s *load.Blocks) { s.Op = nixl.Read }, fault.Usage, "TAPE"},
		"backend":      {file, func(s *load.Blocks) { s.Op = nixl.Read }, fault.Engine, "GDS"},
		"gpu":          {good, func(s *load.Blocks) { s.Remote = nixl.VRAM }, fault.Resource, "vram"},
		"full":         {file, func(s *load.Blocks) { s.Store.Path, s.Block = folder, 1<<55; s.Local = nixl.VRAM }, fault.Resource, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.from
			c.change(&s)
			cfg := map[string]nixl.AgentConfig{"interface": {FileAPI: "TAPE"}, "backend": {FileBackend: "GDS"}}[name]
			for _, err := range playOn(t, 2, new(traffictest.Engine), cfg, s, func(*spmd.World, *lanes) error { return nil }) {
				must.Fail(t, err, c.kind, c.words)
			}
		})
	}
	for name, c := range map[string]repeat{
		"block": {101, 1, Repeat{Iterations: 1}}, "batch": {1, 3, Repeat{Iterations: 1}},
		"no block": {0, 1, Repeat{Iterations: 1}}, "no iterations": {Block: 1, Batch: 1}, "warmup": {1, 1, Repeat{Iterations: 1, Warmup: -1}},
	} {
		for r, err := range playOn(t, 2, new(traffictest.Engine), nixl.AgentConfig{}, good, func(_ *spmd.World, l *lanes) error {
			_, err := l.measure(c)
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
	must.Do(t, os.WriteFile(there, make([]byte, 3*4096+200), 0o600))
	s := load.Blocks{Peers: alone(2), Threads: 2, Op: nixl.Read, Block: 100, Batch: 2, Remote: nixl.FILE, Store: load.Store{Path: there, Count: 1}}
	errs := playOn(t, 2, new(traffictest.Engine), nixl.AgentConfig{}, s, func(w *spmd.World, l *lanes) error {
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
		_, err := l.measure(repeat{100, 2, Repeat{Iterations: 1 << 30}})
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "reading file "+there) {
			t.Errorf("rank %d: got %v", r, err)
		}
	}
}

// While lanes go on their figures so far are handed out, and those of all iterations are what they would be without.
func TestSaveWhileMeasuring(t *testing.T) {
	b := load.Blocks{Op: nixl.Write, Local: nixl.DRAM, Remote: nixl.DRAM, Peers: [][]int{{1}, {0}}, Threads: 2, Block: 100, Batch: 2, Limit: 1 << 20}
	const iterations, all, size = 3, 4, 200 // lanes, and bytes of an iteration
	var saved []series.Measurement
	mustPlay(t, 2, nixl.AgentConfig{}, b, func(w *spmd.World, l *lanes) error {
		m, err := l.measure(repeat{100, 2, Repeat{
			Iterations: iterations,
			Progress:   func(int64) { time.Sleep(600 * time.Millisecond) },
			Save: func(m *series.Measurement) error {
				saved = append(saved, *m)
				return nil
			},
		}})
		if err == nil && w.Rank() == 0 && (m.Iterations != iterations || m.Asked != 0 || m.Latency.Count != iterations*all || m.Prep.Count != all ||
			m.Bytes != iterations*all*size || m.Ranks[1].Bytes != m.Bytes/2 || m.EndNS-m.StartNS < int64(time.Second)) {
			t.Errorf("%+v", m)
		}
		return err
	})
	if len(saved) == 0 {
		t.Fatal("nothing was saved")
	}
	for _, m := range saved {
		if m.Asked != iterations || m.Iterations < 1 || m.Iterations >= iterations || m.Bytes != size*m.Latency.Count || m.Bandwidth <= 0 || len(m.Ranks) != 2 {
			t.Errorf("%+v", m)
		}
	}
	broken := errors.New("no room")
	errs := playOn(t, 2, &traffictest.Engine{}, nixl.AgentConfig{}, b, func(w *spmd.World, l *lanes) error {
		_, err := l.measure(repeat{100, 2, Repeat{Iterations: 1 << 30, Save: func(*series.Measurement) error { return broken }}})
		return err
	})
	for rank, err := range errs {
		if err == nil || rank == 0 && !strings.Contains(err.Error(), broken.Error()) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
