package lua

import (
	"math"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/lanes"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

const lanesTypeName = "perigee.lanes"

// luaLanes are open lanes as scripts see them.
type luaLanes struct{ *lanes.Lanes }

// lanesMethods are the functions of lanes: lanes:measure{...}.
func (r *Runtime) lanesMethods() map[string]function {
	return map[string]function{
		"measure": r.collective(onLanes(r.lanesMeasure)),
		"verify":  r.collective(onLanes(lanesVerify)),
		"close":   r.collective(onLanes(func(_ *glua.LState, l *luaLanes) (int, error) { return 0, l.Close() })),
	}
}

func (r *Runtime) lanesType() {
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

// transferLanes: lanes{peers =, threads =, op =, local_mem =, remote_mem =, block =, batch =, limit =,
// path =, files =, direct =, overwrite =, backend =, api =}.
func (r *Runtime) transferLanes(L *glua.LState) (int, error) {
	spec, err := r.lanesFrom(L.CheckTable(1))
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.session(); err != nil {
		return 0, err
	}
	opened, err := lanes.Open(r.env.World, r.engine, nixl.AgentConfig{Progress: "auto"}, r.env.Seed, spec)
	if err != nil {
		return 0, err
	}
	l := &luaLanes{opened}
	r.lanes = append(r.lanes, l)
	if spec.Remote == nixl.FILE {
		how := l.Info().Params["files"]
		if l.MadeFiles() {
			how += ", new files"
		} else {
			how += ", the file that is there"
		}
		if spec.Files.Direct {
			how += ", direct"
		}
		r.note("files: " + how)
	}
	L.Push(newUserData(L, lanesTypeName, l))
	return 1, nil
}

// lanesFrom reads the arguments of transfer.lanes.
func (r *Runtime) lanesFrom(t *glua.LTable) (s lanes.Spec, err error) {
	f := newFields("transfer.lanes", t)
	s.Threads = int(f.integer("threads", 1, math.MinInt64))
	op, local, remote := f.text("op", "WRITE"), f.text("local_mem", "dram"), f.text("remote_mem", "dram")
	s.Block, s.Batch, s.Limit = f.size("block", 0), f.integer("batch", 1, math.MinInt64), f.size("limit", 0)
	s.Files = lanes.Files{
		Path: f.text("path", ""), Count: int(f.integer("files", 1, math.MinInt64)),
		Direct: f.boolean("direct", false), Overwrite: f.boolean("overwrite", false),
	}
	s.Backend, s.API = strings.ToUpper(f.text("backend", "")), strings.ToUpper(f.text("api", ""))
	peers := f.table("peers")
	if err := f.err(); err != nil {
		return s, err
	}
	if s.Op, err = nixl.ParseOp(op); err != nil {
		return s, fault.New(fault.Script, "transfer.lanes: op: %w", err)
	}
	if s.Local, err = nixl.ParseMem(local); err != nil {
		return s, fault.New(fault.Script, "transfer.lanes: local_mem: %w", err)
	}
	if strings.EqualFold(remote, nixl.FILE.String()) {
		s.Remote = nixl.FILE
	} else if s.Remote, err = nixl.ParseMem(remote); err != nil {
		return s, fault.New(fault.Script, "transfer.lanes: remote_mem: %w", err)
	}
	if s.Remote == nixl.FILE && s.Files.Path != "" && !r.env.AllowIO && !r.storage[s.Files.Path] {
		return s, fault.New(fault.Script, "the scenario may not use %s for transfers", s.Files.Path).
			WithHint("declare an option of type storage and let the user name the file or folder, or run with --allow-io")
	}
	if s.Remote == nixl.FILE && s.Op == nixl.Write && s.Files.Overwrite && r.env.Repeat != nil && !r.env.AllowIO {
		return s, fault.New(fault.Usage, "the run that is repeated may write over %s if it is there", s.Files.Path).
			WithHint("rerun --allow-io allows that, and to write any other file")
	}
	if s.Peers, err = r.peersFrom(peers); err != nil {
		return s, err // also where the script asks before it runs, and there is no world yet
	}
	s.GPU, _ = r.env.GPU()
	return s, nil
}

// peersFrom reads a table of lists of ranks, keyed by rank. Ranks that are not there have no peers.
func (r *Runtime) peersFrom(t *glua.LTable) ([][]int, error) {
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
			err = fault.New(fault.Script, "transfer.lanes: the peers of rank %d are %s, want a list of ranks", rank, describe(v))
		default:
			peers[rank], err = ranksFrom(list)
		}
	})
	return peers, err
}

// caseFrom reads what lanes shall do.
func caseFrom(L *glua.LState, what string) (lanes.Case, error) {
	f := newFields(what, L.CheckTable(2))
	c := lanes.Case{Block: f.size("block", 0), Batch: f.integer("batch", 1, math.MinInt64)}
	if what == "lanes:measure" {
		c.Iterations, c.Warmup = int(f.integer("iterations", 1, math.MinInt64)), int(f.integer("warmup", 0, math.MinInt64))
		c.Recreate = f.boolean("recreate", false)
	}
	return c, f.err()
}

// lanesMeasure: measure{block =, batch =, iterations =, warmup =, recreate =}, a table at rank 0, nil elsewhere.
func (r *Runtime) lanesMeasure(L *glua.LState, l *luaLanes) (int, error) {
	c, err := caseFrom(L, "lanes:measure")
	if err != nil {
		return 0, err
	}
	m, err := l.Measure(c)
	if err != nil {
		return 0, err
	}
	if m == nil {
		L.Push(glua.LNil)
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
	c, err := caseFrom(L, "lanes:verify")
	if err != nil {
		return 0, err
	}
	return 0, l.Verify(c)
}
