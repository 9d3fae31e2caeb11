// Package transfer is the module transfer, which moves bytes between ranks and gathers how long that took.
//
// transfer.prepare makes a plan of a matrix, with files beside the traffic where asked, or of a list of messages
// (spec.go): memory, connections and transfers that plan:run posts again and again (plan.go). transfer.collect gathers
// the runs of plans at rank 0 and puts them into the result. transfer.lanes opens lanes (lanes.go): threads that each
// move blocks to peers or files as fast as they can, with their own session and memory.
//
// All of it stands on the experiment of the host: its session with the engine, its account of what recorded runs will
// take, its result at rank 0. The host's files say which files storage operations and lanes may use. The packages
// below internal/traffic do the work; here are only arguments, and tables for what they return.
package transfer

import (
	"errors"
	"math"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// Module is the module transfer.
type Module struct{}

// instance prepares plans, and collects what they measured.
type instance struct {
	modules.Host
	lanes        laneSet
	warnedOfCPUs bool // that ranks which start by the clock wait for one
	notedStorage bool // that storage operations go through the page cache
}

// New makes the module of a VM, and the types of plans and lanes.
func (Module) New(h modules.Host) modules.Instance {
	r := &instance{Host: h, lanes: laneSet{h, map[*lanes]bool{}}}
	planClass(h).Open(h.VM())
	r.lanes.class().Open(h.VM())
	return r
}

// Exports lists the functions.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"prepare":     r.Collective(r.prepare),
		"prepare_all": r.Collective(r.prepareAll),
		"apart":       r.Collective(onPlans(r.apart)),
		"warmup":      r.Collective(onPlans(r.warmup)),
		"expect":      r.Collective(onPlans(r.expect)),
		"save":        r.Collective(onPlans(r.save)),
		"keep":        r.Collective(r.keep),
		"collect":     r.Collective(onPlans(r.collect)),
		"totals":      r.Collective(onPlans(r.totals)),
		"default_mem": r.Collective(modules.InWorld(r, r.defaultMem)),
		"engine":      r.Collective(r.engine),
		"lanes":       r.Collective(r.lanes.open),
	}}
}

// Close closes the lanes that the script has left open.
func (r *instance) Close() error {
	var errs []error
	for l := range r.lanes.opened {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// onPlans makes a function of what takes a list of plans first.
func onPlans(f func(L *glua.LState, plans []*play.LoadPlan) (int, error)) vm.Function {
	return func(L *glua.LState) (int, error) {
		t := L.CheckTable(1)
		if err := vm.List("the list of plans", "the keys 1, 2, 3 ...", t); err != nil {
			return 0, err
		}
		plans := make([]*play.LoadPlan, t.Len())
		for i := range plans {
			p, ok := vm.Object[*plan](t.RawGetInt(i + 1))
			if !ok {
				return 0, fault.New(fault.Script, "element %d of the list of plans is %s, want a plan", i+1,
					vm.Describe(t.RawGetInt(i+1)))
			}
			plans[i] = p.LoadPlan
		}
		return f(L, plans)
	}
}

// prepare{matrix = m or exchange = {...}, mem =, op =, shards =, lane =, name =, metadata =}.
func (r *instance) prepare(L *glua.LState) (int, error) {
	plans, err := r.prepareList(L, []*glua.LTable{L.CheckTable(1)})
	if err != nil {
		return 0, err
	}
	return vm.Return(L, plans[0])
}

// prepareAll: prepare_all of a list of such tables, with one exchange
// of addresses for all.
func (r *instance) prepareAll(L *glua.LState) (int, error) {
	var list []*glua.LTable
	err := vm.Each(L.CheckTable(1), "element %d", "a table as for transfer.prepare", func(_ int, t *glua.LTable) error {
		list = append(list, t)
		return nil
	})
	if err != nil {
		return 0, err
	}
	plans, err := r.prepareList(L, list)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.NewList(L, plans, func(p *glua.LUserData) glua.LValue { return p }))
}

func (r *instance) prepareList(L *glua.LState, list []*glua.LTable) ([]*glua.LUserData, error) {
	s, err := r.Session()
	if err != nil {
		return nil, err
	}
	specs := make([]spec, len(list))
	loads := make([]load.Load, len(list))
	for i, t := range list {
		if specs[i], err = specFrom(r, t); err != nil {
			return nil, err
		}
		if loads[i] = specs[i].load; specs[i].start == startClock {
			loads[i] = load.Clocked{Load: loads[i]}
			r.warnOfFewCPUs(r.Env().World.Hosts())
		}
	}
	plans, err := play.Prepare(s, loads)
	if err != nil {
		return nil, err
	}
	out := make([]*glua.LUserData, len(plans))
	for i, p := range plans {
		r.Env().Prepared(p.Reserved)
		out[i] = newPlan(L, p, specs[i])
		r.record(specs[i])
	}
	if slices.ContainsFunc(specs, func(s spec) bool { return s.mem == nixl.DRAM }) {
		r.Env().NoteHostMemory()
	}
	if slices.ContainsFunc(specs, func(s spec) bool { return s.mem == nixl.VRAM }) {
		if err := r.Env().NoteGPUs(); err != nil {
			return nil, err
		}
	}
	stored := func(s spec) bool { p, ok := s.load.(load.Pattern); return ok && len(p.Storage) > 0 }
	if !r.notedStorage && slices.ContainsFunc(specs, stored) {
		r.notedStorage = true
		r.Env().Note("storage_ops: files are reached through the page cache: its bandwidth, not that of a disk")
	}
	return out, nil
}

// warnOfFewCPUs notes, once, that ranks cannot start by the clock where they wait for a CPU.
func (r *instance) warnOfFewCPUs(hosts []spmd.Host) {
	if r.warnedOfCPUs {
		return
	}
	r.warnedOfCPUs = true
	for _, h := range hosts {
		if short, _ := h.Short(); short != "" {
			r.Env().Note("start by the clock: " + short + ", so that ranks wait for a CPU while others start: " +
				"starts will be late; use at most as many ranks as CPUs")
			return
		}
	}
}

// record describes a plan in the result. The plan's number is its place there.
func (r *instance) record(s spec) {
	d := r.Env().Doc
	if d == nil {
		return
	}
	d.Patterns = append(d.Patterns, result.Pattern{
		Name: s.name, Kind: s.kind, Matrix: d.AddMatrix(s.bytes, s.file), Mem: s.mem.String(), Op: s.op.String(),
		Shards: s.shards, Senders: len(s.bytes.Senders()), Metadata: s.metadata,
		SleepBefore: s.sleepBefore, SleepAfter: s.sleepAfter, Meet: s.meet,
	})
}

// apart(plans): the same patterns, no two of them in the same memory; nil where that does not fit.
func (r *instance) apart(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	s, err := r.Session()
	if err != nil {
		return 0, err
	}
	list, err := play.Apart(s, plans)
	if err != nil {
		return 0, err
	}
	if list == nil {
		return vm.Return(L, glua.LNil)
	}
	out := L.CreateTable(len(list), 0)
	for i, p := range list {
		old, _ := vm.Object[*plan](L.CheckTable(1).RawGetInt(i + 1))
		out.Append(newPlan(L, p, old.spec))
	}
	return vm.Return(L, out)
}

// warmup(plans, iterations).
func (r *instance) warmup(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	n, err := vm.IntegerArg(L, 2, 0)
	if err != nil {
		return 0, err
	}
	return 0, play.Warmup(plans, n)
}

// expect(plans, runs) announces that each of the plans will be recorded so many times.
func (r *instance) expect(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	runs, err := vm.IntegerArg(L, 2, 0)
	if err != nil {
		return 0, err
	}
	list := make([]*session.Reserved, len(plans))
	for i, p := range plans {
		list[i] = p.Reserved
	}
	return 0, r.Env().Expect(list, int64(runs))
}

// save(plans, gap, now). What is saved goes into the result as with collect, which will return it.
func (r *instance) save(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	if _, err := r.World(); err != nil {
		return 0, err
	}
	return 0, r.Env().SaveRuns(plans, L.OptBool(2, false), L.OptBool(3, false))
}

// keep(n). Of the runs of each plan that are gathered from now on the first n are kept; without n all.
func (r *instance) keep(L *glua.LState) (int, error) {
	most, err := vm.OptionalInteger(L, 1, math.MaxInt, 0)
	if err != nil {
		return 0, err
	}
	r.Env().Keep(most)
	return 0, nil
}

// totals(plans). At rank 0 a list with one entry per plan, {runs =, kept =, seconds =, latency =, rank_seconds =,
// rank_bytes =}, or false for one without runs in this phase; nil at the others.
func (r *instance) totals(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	if _, err := r.World(); err != nil {
		return 0, err
	}
	if r.Env().Doc == nil {
		return vm.Return(L, glua.LNil)
	}
	return vm.Return(L, vm.NewList(L, r.Env().Totals(plans), func(t *result.Totals) glua.LValue {
		if t == nil {
			return glua.LFalse
		}
		e, seconds, bytes := L.NewTable(), L.NewTable(), L.NewTable()
		e.RawSetString("runs", glua.LNumber(t.Runs))
		e.RawSetString("kept", glua.LNumber(t.Kept))
		e.RawSetString("seconds", glua.LNumber(float64(t.TotalNS)/1e9))
		if t.Kept < t.Runs {
			e.RawSetString("latency", glua.LNumber(t.Latencies.Quantile(0.5)/1e9))
		}
		for _, k := range t.Ranks {
			seconds.RawSetInt(k.Rank, glua.LNumber(float64(k.NS)/1e9))
			bytes.RawSetInt(k.Rank, glua.LNumber(k.Bytes))
		}
		e.RawSetString("rank_seconds", seconds)
		e.RawSetString("rank_bytes", bytes)
		return e
	}))
}

// collect(plans). At rank 0 a list with one entry per plan:
// {runs = {...}, mean = seconds, isolated = seconds}; nil at the others. What is
// collected goes into the result, each run under the phase in which it ran.
func (r *instance) collect(L *glua.LState, plans []*play.LoadPlan) (int, error) {
	if _, err := r.World(); err != nil {
		return 0, err
	}
	all, err := r.Env().Collect(plans)
	if err != nil {
		return 0, err
	}
	if all == nil {
		return vm.Return(L, glua.LNil)
	}
	return vm.Return(L, vm.NewList(L, all, func(c play.Collected) glua.LValue {
		entry := collected(L, c.Runs)
		entry.RawSetString("storage", storageRuns(L, c.Storage))
		return entry
	}))
}

func collected(L *glua.LState, list []series.Run) *glua.LTable {
	t := L.NewTable()
	runs := L.CreateTable(len(list), 0)
	for _, run := range list {
		e := L.CreateTable(0, 6)
		e.RawSetString("start", glua.LNumber(float64(run.StartNS)/1e9))
		e.RawSetString("stop", glua.LNumber(float64(run.EndNS)/1e9))
		e.RawSetString("latency", glua.LNumber(float64(run.LatencyNS())/1e9))
		e.RawSetString("uncertainty", glua.LNumber(float64(run.UncertaintyNS)/1e9))
		if skew := run.BarrierExitSkewNS; skew != nil {
			e.RawSetString("barrier_exit_skew", glua.LNumber(float64(*skew)/1e9))
		}
		if skew := run.StartSkewNS; skew != nil {
			e.RawSetString("start_skew", glua.LNumber(float64(*skew)/1e9))
		}
		e.RawSetString("late", glua.LNumber(run.Late()))
		if run.Filled {
			e.RawSetString("filled", glua.LTrue)
		}
		e.RawSetString("mean_bandwidth", glua.LNumber(run.MeanBandwidth()))
		seconds, bytes := L.CreateTable(0, len(run.Ranks)), L.CreateTable(0, len(run.Ranks))
		for _, k := range run.Ranks {
			seconds.RawSetInt(k.Rank, glua.LNumber(float64(k.DurationNS())/1e9))
			bytes.RawSetInt(k.Rank, glua.LNumber(k.Bytes))
		}
		e.RawSetString("rank_seconds", seconds)
		e.RawSetString("rank_bytes", bytes)
		runs.Append(e)
	}
	t.RawSetString("runs", runs)
	mean := func(name string, runs []series.Run) {
		if len(runs) > 0 {
			t.RawSetString(name, glua.LNumber(series.Mean(runs)/1e9))
		}
	}
	mean("mean", list)
	other := func(r series.Run) bool { return r.Phase != result.IsolatedPhase }
	mean("isolated", slices.DeleteFunc(slices.Clone(list), other))
	return t
}

// defaultMem: default_mem() is "vram" or "dram".
func (r *instance) defaultMem(L *glua.LState, _ *spmd.World) (int, error) {
	mem, err := r.Env().DefaultMem()
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LString(mem.String()))
}

// engine() is a table with name, version, backend.
func (r *instance) engine(L *glua.LState) (int, error) {
	s, err := r.Session()
	if err != nil {
		return 0, err
	}
	i := s.Info()
	return vm.Return(L, vm.ToLua(L, map[string]any{"name": i.Name, "version": i.Version, "backend": i.Backend}))
}
