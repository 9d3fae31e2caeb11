package lua

import (
	"errors"
	"fmt"
	"slices"

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

const planTypeName = "perigee.plan"

// luaPlan is a prepared load as scripts see it.
type luaPlan struct {
	*play.Plan
	spec
}

// transferModule prepares plans and lanes, and collects what they measured.
type transferModule struct {
	base
	lanes        map[*luaLanes]bool // those that are open
	warnedOfCPUs bool               // that ranks which start by the clock wait for one
	notedStorage bool               // that storage operations go through the page cache
}

// open makes the types of plans and lanes.
func (r *transferModule) open() {
	r.openPlanType()
	r.openLanesType()
}

// close closes the lanes that the script has left open.
func (r *transferModule) close() error {
	var errs []error
	for l := range r.lanes {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (r *transferModule) exports() map[string]function {
	return map[string]function{
		"prepare":     r.collective(r.prepare),
		"prepare_all": r.collective(r.prepareAll),
		"apart":       r.collective(r.apart),
		"warmup":      r.collective(r.warmup),
		"expect":      r.collective(r.expect),
		"save":        r.collective(r.save),
		"collect":     r.collective(r.collect),
		"default_mem": r.collective(r.defaultMem),
		"engine":      r.collective(r.engine),
		"lanes":       r.collective(r.openLanes),
	}
}

// planMethods are the functions of a plan: plan:run(). An error in those that
// move bytes or meet other ranks leaves the others waiting.
func (r *transferModule) planMethods() map[string]function {
	simple := func(f func(p *luaPlan) error) function {
		return onPlan(func(_ *glua.LState, p *luaPlan) (int, error) { return 0, f(p) })
	}
	return map[string]function{
		"run":                r.collective(onPlan(r.planRun)),
		"post":               r.collective(simple(func(p *luaPlan) error { return p.Post() })),
		"wait":               r.collective(simple(r.planWait)),
		"done":               r.collective(onPlan(planDone)),
		"verify":             r.collective(simple(func(p *luaPlan) error { return play.Verify(p.Plan) })),
		"fill":               r.collective(onPlan(planRound(play.Fill))),
		"check":              r.collective(onPlan(planRound(play.Check))),
		"release":            simple(func(p *luaPlan) error { return p.Release() }),
		"barrier":            r.collective(r.waiting(simple(func(p *luaPlan) error { return p.Barrier() }))),
		"initiators_barrier": r.collective(r.waiting(simple(func(p *luaPlan) error { return p.InitiatorsBarrier() }))),
		"times":              onPlan(planTimes),
		"peer_times":         onPlan(planPeerTimes),
		"received":           onPlan(planReceived),
	}
}

// planFields are the plain values of a plan: plan.bytes.
var planFields = map[string]func(L *glua.LState, p *luaPlan) glua.LValue{
	"name":         func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LString(p.name) },
	"bytes":        func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LNumber(p.bytes.Total()) },
	"mem":          func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LString(p.mem.String()) },
	"op":           func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LString(p.op.String()) },
	"shards":       func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LNumber(p.shards) },
	"lane":         func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LNumber(p.lane) },
	"ranks":        func(L *glua.LState, p *luaPlan) glua.LValue { return intList(L, p.Ranks) },
	"senders":      func(L *glua.LState, p *luaPlan) glua.LValue { return intList(L, p.bytes.Senders()) },
	"initiators":   func(L *glua.LState, p *luaPlan) glua.LValue { return intList(L, p.Initiators) },
	"takes_part":   func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LBool(p.TakesPart()) },
	"prep_seconds": func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LNumber(float64(p.Prep()) / 1e9) },
	"initiates":    func(_ *glua.LState, p *luaPlan) glua.LValue { return glua.LBool(p.Initiates()) },
}

func (r *transferModule) openPlanType() {
	methods := r.functions(r.planMethods())
	r.newType(planTypeName, map[string]function{
		"__index": onPlan(func(L *glua.LState, p *luaPlan) (int, error) {
			name := L.Get(2).String()
			if field, ok := planFields[name]; ok {
				L.Push(field(L, p))
				return 1, nil
			}
			return pushMember(L, methods, "plan", name)
		}),
		"__tostring": onPlan(func(L *glua.LState, p *luaPlan) (int, error) {
			L.Push(glua.LString(fmt.Sprintf("plan %d %s", p.Number, p.name)))
			return 1, nil
		}),
	})
}

func onPlan(f func(L *glua.LState, p *luaPlan) (int, error)) function {
	return func(L *glua.LState) (int, error) {
		p, err := userData[*luaPlan](L, 1, "a plan; methods are called with a colon: plan:run()")
		if err != nil {
			return 0, err
		}
		return f(L, p)
	}
}

func plansArg(L *glua.LState, n int) ([]*play.Plan, error) {
	t := L.CheckTable(n)
	plans := make([]*play.Plan, t.Len())
	for i := range plans {
		v := t.RawGetInt(i + 1)
		ud, _ := v.(*glua.LUserData)
		if ud == nil {
			ud = &glua.LUserData{}
		}
		p, ok := ud.Value.(*luaPlan)
		if !ok {
			return nil, fault.New(fault.Script, "element %d of the list of plans is %s, want a plan", i+1, describe(v))
		}
		plans[i] = p.Plan
	}
	return plans, nil
}

// session is the experiment's, which opens the engine when it is first needed.
func (r *Runtime) session() (*session.Session, error) {
	if _, err := r.world(); err != nil {
		return nil, err
	}
	return r.env.Session()
}

// prepare{matrix = m or exchange = {...}, mem =, op =, shards =, lane =, name =, metadata =}.
func (r *transferModule) prepare(L *glua.LState) (int, error) {
	plans, err := r.prepareList([]*glua.LTable{L.CheckTable(1)})
	if err != nil {
		return 0, err
	}
	L.Push(plans[0])
	return 1, nil
}

// prepareAll: prepare_all of a list of such tables, with one exchange
// of addresses for all.
func (r *transferModule) prepareAll(L *glua.LState) (int, error) {
	t := L.CheckTable(1)
	list := make([]*glua.LTable, t.Len())
	for i := range list {
		e, ok := t.RawGetInt(i + 1).(*glua.LTable)
		if !ok {
			return 0, fault.New(fault.Script, "element %d is %s, want a table as for transfer.prepare", i+1,
				describe(t.RawGetInt(i+1)))
		}
		list[i] = e
	}
	plans, err := r.prepareList(list)
	if err != nil {
		return 0, err
	}
	out := L.CreateTable(len(plans), 0)
	for _, p := range plans {
		out.Append(p)
	}
	L.Push(out)
	return 1, nil
}

func (r *transferModule) prepareList(list []*glua.LTable) ([]*glua.LUserData, error) {
	s, err := r.session()
	if err != nil {
		return nil, err
	}
	specs := make([]spec, len(list))
	loads := make([]load.Load, len(list))
	for i, t := range list {
		if specs[i], err = r.specFrom(t); err != nil {
			return nil, err
		}
		if loads[i] = specs[i].load; specs[i].start == startClock {
			loads[i] = load.Clocked{Load: loads[i]}
			r.warnOfFewCPUs(r.env.World.Hosts())
		}
	}
	plans, err := play.Prepare(s, loads)
	if err != nil {
		return nil, err
	}
	out := make([]*glua.LUserData, len(plans))
	for i, p := range plans {
		r.env.Prepared(p.Reserved)
		out[i] = newUserData(r.L, planTypeName, &luaPlan{p, specs[i]})
		r.record(specs[i])
	}
	if slices.ContainsFunc(specs, func(s spec) bool { return s.mem == nixl.VRAM }) {
		if err := r.env.NoteGPUs(); err != nil {
			return nil, err
		}
	}
	stored := func(s spec) bool { p, ok := s.load.(load.Pattern); return ok && len(p.Storage) > 0 }
	if !r.notedStorage && slices.ContainsFunc(specs, stored) {
		r.notedStorage = true
		r.env.Note("storage_ops: files are reached through the page cache: its bandwidth, not that of a disk")
	}
	return out, nil
}

// warnOfFewCPUs notes, once, that ranks cannot start by the clock where they wait for a CPU.
func (r *transferModule) warnOfFewCPUs(hosts []spmd.Host) {
	if r.warnedOfCPUs {
		return
	}
	r.warnedOfCPUs = true
	for _, h := range hosts {
		if h.CPUs > 0 && len(h.Ranks) > h.CPUs {
			r.env.Note(fmt.Sprintf("start by the clock: %s has %d CPUs for %d ranks, so that ranks wait for a CPU while others start: "+
				"starts will be late; use at most as many ranks as CPUs", h.Name, h.CPUs, len(h.Ranks)))
			return
		}
	}
}

// record describes a plan in the result. The plan's number is its place there.
func (r *transferModule) record(s spec) {
	d := r.env.Doc
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
func (r *transferModule) apart(L *glua.LState) (int, error) {
	plans, err := plansArg(L, 1)
	if err != nil {
		return 0, err
	}
	s, err := r.session()
	if err != nil {
		return 0, err
	}
	list, err := play.Apart(s, plans)
	if err != nil {
		return 0, err
	}
	if list == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	out := L.CreateTable(len(list), 0)
	for i, p := range list {
		old := L.CheckTable(1).RawGetInt(i + 1).(*glua.LUserData).Value.(*luaPlan)
		out.Append(newUserData(r.L, planTypeName, &luaPlan{p, old.spec}))
	}
	L.Push(out)
	return 1, nil
}

// warmup(plans, iterations).
func (r *transferModule) warmup(L *glua.LState) (int, error) {
	plans, err := plansArg(L, 1)
	if err != nil {
		return 0, err
	}
	n, err := integerArg(L, 2, 0)
	if err != nil {
		return 0, err
	}
	return 0, play.Warmup(plans, n)
}

// expect(plans, runs) announces that each of the plans will be recorded so many times.
func (r *transferModule) expect(L *glua.LState) (int, error) {
	plans, err := plansArg(L, 1)
	if err != nil {
		return 0, err
	}
	runs, err := integerArg(L, 2, 0)
	if err != nil {
		return 0, err
	}
	list := make([]*session.Reserved, len(plans))
	for i, p := range plans {
		list[i] = p.Reserved
	}
	return 0, r.env.Expect(list, int64(runs))
}

// save(plans, gap). What is saved goes into the result as with collect, which will return it.
func (r *transferModule) save(L *glua.LState) (int, error) {
	plans, err := plansArg(L, 1)
	if err != nil {
		return 0, err
	}
	if _, err := r.world(); err != nil {
		return 0, err
	}
	return 0, r.env.SaveRuns(plans, L.OptBool(2, false))
}

// collect(plans). At rank 0 a list with one entry per plan:
// {runs = {...}, isolated = seconds}; nil at the others. What is collected goes
// into the result under the current phase.
func (r *transferModule) collect(L *glua.LState) (int, error) {
	plans, err := plansArg(L, 1)
	if err != nil {
		return 0, err
	}
	if _, err := r.world(); err != nil {
		return 0, err
	}
	all, err := r.env.Collect(plans)
	if err != nil {
		return 0, err
	}
	if all == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	out := L.CreateTable(len(all), 0)
	for _, c := range all {
		entry := collected(L, c.Runs)
		entry.RawSetString("storage", storageRuns(L, c.Storage))
		out.Append(entry)
	}
	L.Push(out)
	return 1, nil
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
	if len(list) > 0 {
		t.RawSetString("isolated", glua.LNumber(series.Isolated(list)/1e9))
	}
	return t
}

// defaultMem: default_mem() is "vram" or "dram".
func (r *transferModule) defaultMem(L *glua.LState) (int, error) {
	if _, err := r.world(); err != nil {
		return 0, err
	}
	mem, err := r.env.DefaultMem()
	if err != nil {
		return 0, err
	}
	L.Push(glua.LString(mem.String()))
	return 1, nil
}

// engine() is a table with name, version, backend.
func (r *transferModule) engine(L *glua.LState) (int, error) {
	s, err := r.session()
	if err != nil {
		return 0, err
	}
	i := s.Info()
	L.Push(toLua(L, map[string]any{"name": i.Name, "version": i.Version, "backend": i.Backend}))
	return 1, nil
}

// planRound: fill(round) and check(round).
func planRound(step func(p *play.Plan, round int) error) func(L *glua.LState, p *luaPlan) (int, error) {
	return func(L *glua.LState, p *luaPlan) (int, error) {
		round, err := optionalInteger(L, 2, 0, 0)
		if err != nil {
			return 0, err
		}
		return 0, step(p.Plan, round)
	}
}

// planRun: plan:run{iterations = 1, record = true} or plan:run(n).
func (r *transferModule) planRun(L *glua.LState, p *luaPlan) (int, error) {
	n, record := int64(1), true
	if t, ok := L.Get(2).(*glua.LTable); ok {
		f := newFields("plan:run", t)
		n, record = f.integer("iterations", 1, 0), f.boolean("record", true)
		if err := f.err(); err != nil {
			return 0, err
		}
	} else {
		i, err := optionalInteger(L, 2, 1, 0)
		if err != nil {
			return 0, err
		}
		n = int64(i)
	}
	if record {
		if err := r.env.Recording(p.Reserved, n); err != nil {
			return 0, err
		}
	}
	return 0, p.Run(int(n), record)
}

// planWait: wait() records a run, as run does.
func (r *transferModule) planWait(p *luaPlan) error {
	if err := r.env.Recording(p.Reserved, 1); err != nil {
		return err
	}
	return p.Wait(true)
}

func planDone(L *glua.LState, p *luaPlan) (int, error) {
	done, err := p.Done()
	if err != nil {
		return 0, err
	}
	L.Push(glua.LBool(done))
	return 1, nil
}

// planTimes: times() of this rank's last run, in seconds: post is how long
// posting took, total from the first post to the last completion; nil if this
// rank has not run it.
func planTimes(L *glua.LState, p *luaPlan) (int, error) {
	t, _, ok := p.Last()
	if !ok {
		L.Push(glua.LNil)
		return 1, nil
	}
	L.Push(toLua(L, map[string]any{
		"post":  float64(t.Posted-t.Start) / 1e9,
		"total": float64(t.End-t.Start) / 1e9,
	}))
	return 1, nil
}

// planPeerTimes: peer_times() of this rank's last run: peer -> seconds from the
// first post until that peer's transfer was complete; nil if this rank has not
// run it.
func planPeerTimes(L *glua.LState, p *luaPlan) (int, error) {
	t, posts, ok := p.Last()
	if !ok {
		L.Push(glua.LNil)
		return 1, nil
	}
	out := L.NewTable()
	for i, done := range t.Done {
		out.RawSetInt(posts[i].Peer, glua.LNumber(float64(done-t.Start)/1e9))
	}
	L.Push(out)
	return 1, nil
}

// mostShown bounds how much of a message received returns.
const mostShown = 1 << 20

// planReceived: received(most) gives the first bytes of each message in the
// receive buffer: sender -> hexadecimal digits.
func planReceived(L *glua.LState, p *luaPlan) (int, error) {
	most, err := optionalInteger(L, 2, 16, 0)
	if err != nil {
		return 0, err
	}
	heads, err := play.Received(p.Plan, min(most, mostShown))
	if err != nil {
		return 0, err
	}
	out := L.NewTable()
	for sender, b := range heads {
		out.RawSetInt(sender, glua.LString(fmt.Sprintf("%x", b)))
	}
	L.Push(out)
	return 1, nil
}
