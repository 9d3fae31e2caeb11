package lua

import (
	"cmp"
	"errors"
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

const lanesTypeName = "perigee.lanes"

// luaLanes are open lanes as scripts see them: their own session, whose memory is enough for the
// largest blocks and batches.
type luaLanes struct {
	*session.Session
	blocks load.Blocks
}

// lanesMethods are the functions of lanes: lanes:measure{...}.
func (r *transferModule) lanesMethods() map[string]function {
	return map[string]function{
		"measure": r.collective(onLanes(r.lanesMeasure)),
		"verify":  r.collective(onLanes(lanesVerify)),
		"close":   r.collective(onLanes(r.closeLanes)),
	}
}

func (r *transferModule) openLanesType() {
	methods := r.functions(r.lanesMethods())
	r.newType(lanesTypeName, map[string]function{"__index": onLanes(func(L *glua.LState, l *luaLanes) (int, error) {
		return pushMember(L, methods, "lanes", L.Get(2).String())
	})})
}

func onLanes(f func(L *glua.LState, l *luaLanes) (int, error)) function {
	return func(L *glua.LState) (int, error) {
		l, err := userData[*luaLanes](L, 1, "lanes; methods are called with a colon: lanes:measure{...}")
		if err != nil {
			return 0, err
		}
		return f(L, l)
	}
}

// openLanes: lanes{peers =, threads =, op =, local_mem =, remote_mem =, block =, batch =, limit =,
// path =, files =, direct =, overwrite =, backend =, api =, huge_pages =, shuffle =, shuffle_seed =}.
func (r *transferModule) openLanes(L *glua.LState) (int, error) {
	spec, cfg, err := r.lanesFrom(L.CheckTable(1))
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.session(); err != nil {
		return 0, err
	}
	l, first, err := newLanes(r.env.World, r.env.Engine(), cfg, r.env.Seed, spec)
	if err != nil {
		return 0, err
	}
	r.lanes[l] = true
	if spec.GPU() {
		if err := r.env.NoteGPUs(); err != nil {
			return 0, err
		}
	}
	if spec.Remote == nixl.FILE {
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
		r.env.Note("files: " + how)
	}
	L.Push(newUserData(L, lanesTypeName, l))
	return 1, nil
}

// newLanes opens lanes and makes everything that the largest blocks and batches need. It also returns this rank's
// first lane.
func newLanes(
	w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64, spec load.Blocks,
) (*luaLanes, *session.Bound, error) {
	if err := spec.Check(w.Size()); err != nil {
		return nil, nil, err
	}
	s, err := session.Open(w, engine, cfg, seed)
	if err != nil {
		return nil, nil, err
	}
	reserved, err := s.Reserve([]load.Load{spec})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return &luaLanes{s, spec}, reserved[0].Lanes[0], nil
}

// closeLanes: close().
func (r *transferModule) closeLanes(_ *glua.LState, l *luaLanes) (int, error) {
	delete(r.lanes, l)
	return 0, l.Close()
}

// lanesFrom reads the arguments of transfer.lanes.
func (r *transferModule) lanesFrom(t *glua.LTable) (s load.Blocks, cfg nixl.AgentConfig, err error) {
	f := newFields("transfer.lanes", t)
	s.Threads = int(f.integer("threads", 1, math.MinInt64))
	op, local, remote := f.text("op", "WRITE"), f.text("local_mem", "dram"), f.text("remote_mem", "dram")
	s.Block, s.Batch, s.Limit = f.size("block", 0), f.integer("batch", 1, math.MinInt64), f.size("limit", 0)
	s.Store = load.Store{
		Path: f.text("path", ""), Count: int(f.integer("files", 1, math.MinInt64)),
		Direct: f.boolean("direct", false), Overwrite: f.boolean("overwrite", false),
	}
	cfg.FileBackend, cfg.FileAPI = strings.ToUpper(f.text("backend", "")), strings.ToUpper(f.text("api", ""))
	if f.boolean("huge_pages", false) {
		cfg.HugePages = nixl.HugeOn
	}
	shuffle, seed := f.boolean("shuffle", false), uint64(f.integer("shuffle_seed", 0, 0))
	if shuffle {
		s.Shuffle = &seed
	}
	peers := f.table("peers")
	if err := f.err(); err != nil {
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
	if s.Remote == nixl.FILE && s.Local == nixl.VRAM && (cfg.FileBackend == "" || cfg.FileBackend == "POSIX") {
		return s, cfg, fault.New(fault.Usage, "transfer.lanes: the backend POSIX moves bytes between files and host memory only").
			WithHint("take the backend GDS for the memory of a GPU")
	}
	if s.Remote == nixl.FILE && s.Store.Path != "" && !r.files.AllowIO && !r.files.storage[s.Store.Path] {
		refused := fault.New(fault.Script, "the scenario may not use %s for transfers", s.Store.Path)
		if r.files.Repeated {
			return s, cfg, refused.WithHint("the result names it, and not you: perigee rerun --allow-io uses it")
		}
		return s, cfg, refused.
			WithHint("declare an option of type storage and let the user name the file or folder, or run with --allow-io")
	}
	if s.Remote == nixl.FILE && s.Op == nixl.Write && s.Store.Overwrite && r.env.Repeat != nil && !r.files.AllowIO {
		return s, cfg, fault.New(fault.Usage, "the run that is repeated may write over %s if it is there",
			s.Store.Path).
			WithHint("rerun --allow-io allows that, and to write any other file")
	}
	if s.Peers, err = r.peersFrom(peers); err != nil {
		return s, cfg, err // also where the script asks before it runs, and there is no world yet
	}
	if s.GPU() {
		cfg.GPU, _ = r.env.GPUOf()
	}
	cfg.VRAM, cfg.Progress = s.GPU() && s.Remote != nixl.FILE, "auto"
	return s, cfg, nil
}

// peersFrom reads a table of lists of ranks, keyed by rank. Ranks that are not there have no peers.
func (r *transferModule) peersFrom(t *glua.LTable) ([][]int, error) {
	w, err := r.world()
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fault.New(fault.Script, "transfer.lanes: peers is missing, want a table of lists of ranks, keyed by rank")
	}
	peers := make([][]int, w.Size())
	t.ForEach(func(k, v glua.LValue) {
		rank, ok := wholeNumber(k)
		list, isTable := v.(*glua.LTable)
		switch {
		case err != nil:
		case !ok || rank < 0 || rank >= int64(w.Size()):
			err = fault.New(fault.Script, "transfer.lanes: peers has the key %s, want ranks below %d", k, w.Size())
		case !isTable:
			err = fault.New(fault.Script, "transfer.lanes: the peers of rank %d are %s, want a list of ranks", rank,
				describe(v))
		default:
			peers[rank], err = ranksFrom(list)
		}
	})
	return peers, err
}

// planFor prepares what lanes shall do, and reads how often.
func planFor(L *glua.LState, l *luaLanes, what string) (*play.Plan, load.Blocks, play.Repeat, error) {
	var repeat play.Repeat
	f := newFields(what, L.CheckTable(2))
	block, batch := f.size("block", 0), f.integer("batch", 1, math.MinInt64)
	if what == "lanes:measure" {
		repeat.Iterations, repeat.Warmup = int(f.integer("iterations", 1, math.MinInt64)),
			int(f.integer("warmup", 0, math.MinInt64))
		repeat.Recreate = f.boolean("recreate", false)
		repeat.Depth = int(f.integer("depth", 1, 1))
		repeat.Prepared, repeat.Reregister = f.boolean("prepared", false), f.boolean("reregister", false)
		if bar := f.bar("progress"); bar != nil {
			repeat.Progress = bar.addBytes
		}
		f.boolean("record", true) // see lanesMeasure
	}
	if err := f.err(); err != nil {
		return nil, l.blocks, repeat, err
	}
	one, err := l.blocks.Case(block, batch)
	if err != nil {
		return nil, one, repeat, err
	}
	p, err := play.New(l.Session, one)
	return p, one, repeat, err
}

// lanesMeasure: measure{block =, batch =, iterations =, warmup =, recreate =, depth =, prepared =, reregister =,
// progress =, record =}, a table at rank 0, nil elsewhere. With record = false the result does not hold it.
func (r *transferModule) lanesMeasure(L *glua.LState, l *luaLanes) (int, error) {
	p, blocks, repeat, err := planFor(L, l, "lanes:measure")
	if err != nil {
		return 0, err
	}
	m, err := play.Measure(p, repeat)
	if err := cmp.Or(err, p.Release()); err != nil {
		return 0, err
	}
	if m == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	m.Op, m.Local, m.Remote, m.Threads = blocks.Op.String(), blocks.Local.String(), blocks.Remote.String(),
		blocks.Threads
	m.BlockBytes, m.Batch = blocks.Size()
	if L.CheckTable(2).RawGetString("record") == glua.LFalse {
		L.Push(measured(L, m))
		return 1, nil
	}
	r.env.Doc.Lanes = append(r.env.Doc.Lanes, result.Lanes{Phase: r.env.World.CurrentPhase(), Measurement: *m})
	r.env.Checkpoint()
	if err := r.env.Sampled(); err != nil {
		return 0, err
	}
	L.Push(measured(L, m))
	return 1, nil
}

func measured(L *glua.LState, m *series.Measurement) *glua.LTable {
	t := toLua(L, map[string]any{
		"bytes": m.Bytes, "seconds": float64(m.EndNS-m.StartNS) / 1e9, "uncertainty": float64(m.UncertaintyNS) / 1e9,
		"bandwidth": m.Bandwidth, "cpu_seconds": m.CPUSeconds,
	}).(*glua.LTable)
	for name, s := range map[string]series.Stats{"latency": m.Latency, "prep": m.Prep, "post": m.Post, "tx": m.Tx} {
		t.RawSetString(name, toLua(L, map[string]any{
			"count": s.Count, "mean": s.Mean / 1e9, "min": float64(s.Min) / 1e9, "max": float64(s.Max) / 1e9,
			"p50": float64(s.P50) / 1e9, "p99": float64(s.P99) / 1e9, "p999": float64(s.P999) / 1e9,
		}))
	}
	return t
}

// lanesVerify: verify{block =, batch =}.
func lanesVerify(L *glua.LState, l *luaLanes) (int, error) {
	p, _, _, err := planFor(L, l, "lanes:verify")
	if err != nil {
		return 0, err
	}
	return 0, cmp.Or(play.Verify(p), p.Release())
}
