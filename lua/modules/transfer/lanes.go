package transfer

import (
	"cmp"
	"errors"
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
	"perigee/nixl"
)

// lanes are open lanes as scripts see them: their own session, whose memory is enough for the
// largest blocks and batches.
type lanes struct {
	*session.Session
	blocks load.Blocks
}

// laneSet makes lanes, and closes those that a script has left open.
type laneSet struct {
	modules.Host
	opened map[*lanes]bool
}

// class describes lanes to scripts: lanes:measure{...}.
func (r *laneSet) class() vm.Class[*lanes] {
	on := func(f func(L *glua.LState, l *lanes) (int, error)) vm.Function {
		return r.Collective(vm.On(lanesWhat, f))
	}
	return vm.Class[*lanes]{Type: lanesType, Name: "lanes", What: lanesWhat, Methods: map[string]vm.Function{
		"measure": on(r.measure),
		"verify":  on(verifyLanes),
		"close":   on(r.close),
	}}
}

const (
	lanesType = "perigee.lanes"
	lanesWhat = "lanes; methods are called with a colon: lanes:measure{...}"
)

// open: lanes{peers =, threads =, op =, local_mem =, remote_mem =, block =, batch =, limit =,
// path =, files =, direct =, overwrite =, backend =, api =, huge_pages =, shuffle =, shuffle_seed =}.
func (r *laneSet) open(L *glua.LState) (int, error) {
	spec, cfg, err := r.arguments(L.CheckTable(1))
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.Session(); err != nil {
		return 0, err
	}
	env := r.Env()
	if f, ok := env.Engine().(nixl.FilesOnly); ok {
		cfg.FileBackend = cmp.Or(cfg.FileBackend, f.FilesOnly().Name)
	}
	if spec.Remote == nixl.FILE && spec.Local == nixl.VRAM && (cfg.FileBackend == "" || cfg.FileBackend == "POSIX") {
		return 0, fault.New(fault.Usage, "transfer.lanes: the backend POSIX moves bytes between files and host memory only").
			WithHint("take the backend GDS for the memory of a GPU")
	}
	if err := spec.Check(env.World.Size()); err != nil {
		return 0, err
	}
	s, err := session.Open(env.World, env.Engine(), cfg, env.Seed)
	if err != nil {
		return 0, err
	}
	// Everything that the largest blocks and batches need.
	reserved, err := s.Reserve([]load.Load{spec})
	if err != nil {
		return 0, errors.Join(err, s.Close())
	}
	l := &lanes{s, spec}
	r.opened[l] = true
	if spec.Local == nixl.DRAM || spec.Remote == nixl.DRAM {
		env.NoteHostMemory()
	}
	if spec.GPU() {
		if err := env.NoteGPUs(); err != nil {
			return 0, err
		}
	}
	if spec.Remote == nixl.FILE {
		env.Note("files: " + filesOf(reserved[0].Lanes[0]))
	}
	return vm.Return(L, vm.NewUserData(L, lanesType, l))
}

// filesOf says how this rank's first lane reaches its files.
func filesOf(first *session.Bound) string {
	params := first.Info().Params
	how := params["files"]
	if first.MadeFiles() {
		how += ", new files"
	} else {
		how += ", the file that is there"
	}
	if access := params["file_access"]; access != "" { // a rank without lanes opens no files
		how += ", " + access
	}
	return how
}

// close: close().
func (r *laneSet) close(_ *glua.LState, l *lanes) (int, error) {
	delete(r.opened, l)
	return 0, l.Close()
}

// arguments reads the arguments of transfer.lanes.
func (r *laneSet) arguments(t *glua.LTable) (s load.Blocks, cfg nixl.AgentConfig, err error) {
	f := vm.NewFields("transfer.lanes", t)
	s.Threads = f.Int("threads", 1, math.MinInt64)
	op, local, remote := f.Text("op", "WRITE"), f.Text("local_mem", "dram"), f.Text("remote_mem", "dram")
	s.Block, s.Batch, s.Limit = f.Size("block", 0), f.Integer("batch", 1, math.MinInt64), f.Size("limit", 0)
	s.Store = load.Store{
		Path: f.Text("path", ""), Count: f.Int("files", 1, math.MinInt64),
		Direct: f.Bool("direct", false), Overwrite: f.Bool("overwrite", false),
	}
	cfg.FileBackend, cfg.FileAPI = strings.ToUpper(f.Text("backend", "")), strings.ToUpper(f.Text("api", ""))
	if f.Bool("huge_pages", false) {
		cfg.HugePages = nixl.HugeOn
	}
	shuffle, seed := f.Bool("shuffle", false), uint64(f.Integer("shuffle_seed", 0, 0))
	if shuffle {
		s.Shuffle = &seed
	}
	peers := f.Table("peers")
	if err := f.Err(); err != nil {
		return s, cfg, err
	}
	if s.Op, err = nixl.ParseOp(op); err != nil {
		return s, cfg, fault.New(fault.Script, "transfer.lanes: op: %w", err)
	}
	if s.Local, err = nixl.ParseMem(local); err != nil {
		return s, cfg, fault.New(fault.Script, "transfer.lanes: local_mem: %w", err)
	}
	if strings.EqualFold(remote, nixl.FILE.String()) {
		s.Remote = nixl.FILE
	} else if s.Remote, err = nixl.ParseMem(remote); err != nil {
		return s, cfg, fault.New(fault.Script, "transfer.lanes: remote_mem: %w", err)
	}
	if s.Remote == nixl.FILE && s.Store.Path != "" {
		if err := r.Files().MayOpen(s.Store.Path); err != nil {
			return s, cfg, err
		}
	}
	if s.Remote == nixl.FILE && s.Op == nixl.Write && s.Store.Overwrite && r.Env().Repeat != nil && !r.Files().AllowIO {
		return s, cfg, fault.New(fault.Usage, "the run that is repeated may write over %s if it is there",
			s.Store.Path).
			WithHint("rerun --allow-io allows that, and to write any other file")
	}
	if s.Peers, err = r.peersFrom(peers); err != nil {
		return s, cfg, err // also where the script asks before it runs, and there is no world yet
	}
	if s.GPU() {
		cfg.GPU, _ = r.Env().GPUOf()
	}
	cfg.VRAM, cfg.Progress = s.GPU() && s.Remote != nixl.FILE, "auto"
	return s, cfg, nil
}

// peersFrom reads a table of lists of ranks, keyed by rank. Ranks that are not there have no peers.
func (r *laneSet) peersFrom(t *glua.LTable) ([][]int, error) {
	w, err := r.World()
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fault.New(fault.Script, "transfer.lanes: peers is missing, want a table of lists of ranks, keyed by rank")
	}
	peers := make([][]int, w.Size())
	t.ForEach(func(k, v glua.LValue) {
		rank, ok := vm.WholeNumber(k)
		list, isTable := v.(*glua.LTable)
		switch {
		case err != nil:
		case !ok || rank < 0 || rank >= int64(w.Size()):
			err = fault.New(fault.Script, "transfer.lanes: peers has the key %s, want ranks below %d", k, w.Size())
		case !isTable:
			err = fault.New(fault.Script, "transfer.lanes: the peers of rank %d are %s, want a list of ranks", rank,
				vm.Describe(v))
		default:
			peers[rank], err = vm.Ranks(list)
		}
	})
	return peers, err
}

// planFor prepares what lanes shall do, and reads how often.
func planFor(L *glua.LState, l *lanes, what string) (*play.LoadPlan, load.Blocks, play.Repeat, error) {
	var repeat play.Repeat
	f := vm.NewFields(what, L.CheckTable(2))
	block, batch := f.Size("block", 0), f.Integer("batch", 1, math.MinInt64)
	if what == "lanes:measure" {
		repeat.Iterations, repeat.Warmup = f.Int("iterations", 1, math.MinInt64),
			f.Int("warmup", 0, math.MinInt64)
		repeat.Recreate = f.Bool("recreate", false)
		repeat.Depth = f.Int("depth", 1, 1)
		repeat.Prepared, repeat.Reregister = f.Bool("prepared", false), f.Bool("reregister", false)
		given := f.Get("progress")
		if bar, ok := vm.Object[objects.Progress](given); ok {
			repeat.Progress = bar.AddBytes
		} else if given != glua.LNil {
			f.Fail("progress", "what result.progress returns", given)
		}
		f.Bool("record", true) // see measure
	}
	if err := f.Err(); err != nil {
		return nil, l.blocks, repeat, err
	}
	one, err := l.blocks.Case(block, batch)
	if err != nil {
		return nil, one, repeat, err
	}
	p, err := play.New(l.Session, one)
	return p, one, repeat, err
}

// measure: measure{block =, batch =, iterations =, warmup =, recreate =, depth =, prepared =, reregister =,
// progress =, record =}, a table at rank 0, nil elsewhere. With record = false the result does not hold it.
func (r *laneSet) measure(L *glua.LState, l *lanes) (int, error) {
	p, blocks, repeat, err := planFor(L, l, "lanes:measure")
	if err != nil {
		return 0, err
	}
	record, kept := L.CheckTable(2).RawGetString("record") != glua.LFalse, -1
	keep := func(m *series.Measurement) error {
		m.Op, m.Local, m.Remote, m.Threads = blocks.Op.String(), blocks.Local.String(), blocks.Remote.String(),
			blocks.Threads
		m.BlockBytes, m.Batch = blocks.Size()
		if !record {
			return nil
		}
		d := r.Env().Doc
		if kept < 0 {
			kept, d.Lanes = len(d.Lanes), append(d.Lanes, result.Lanes{Phase: r.Env().World.CurrentPhase()})
		}
		d.Lanes[kept].Measurement = *m
		r.Env().Checkpoint()
		return nil
	}
	if record {
		repeat.Save = keep
	}
	m, err := play.Measure(p, repeat)
	if err := cmp.Or(err, p.Release()); err != nil {
		return 0, err
	}
	if m == nil {
		return vm.Return(L, glua.LNil)
	}
	if err := keep(m); err != nil {
		return 0, err
	}
	if record {
		if err := r.Env().Sampled(); err != nil {
			return 0, err
		}
	}
	return vm.Return(L, measured(L, m))
}

func measured(L *glua.LState, m *series.Measurement) *glua.LTable {
	t := vm.ToLua(L, map[string]any{
		"bytes": m.Bytes, "seconds": float64(m.EndNS-m.StartNS) / 1e9, "uncertainty": float64(m.UncertaintyNS) / 1e9,
		"bandwidth": m.Bandwidth, "cpu_seconds": m.CPUSeconds,
	}).(*glua.LTable)
	for name, s := range map[string]series.Stats{"latency": m.Latency, "prep": m.Prep, "post": m.Post, "tx": m.Tx} {
		t.RawSetString(name, vm.ToLua(L, map[string]any{
			"count": s.Count, "mean": s.Mean / 1e9, "min": float64(s.Min) / 1e9, "max": float64(s.Max) / 1e9,
			"p50": float64(s.P50) / 1e9, "p99": float64(s.P99) / 1e9, "p999": float64(s.P999) / 1e9,
		}))
	}
	return t
}

// verifyLanes: verify{block =, batch =}.
func verifyLanes(L *glua.LState, l *lanes) (int, error) {
	p, _, _, err := planFor(L, l, "lanes:verify")
	if err != nil {
		return 0, err
	}
	return 0, cmp.Or(play.Verify(p), p.Release())
}
