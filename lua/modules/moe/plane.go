package moe

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/experts"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// plane is an open data plane as scripts see it.
type plane struct {
	*experts.Plane                // nil after its close
	about          map[string]any // what the result says of it
	number         int            // how many were opened before
}

// plainOf makes plain data of figures, with what the result says of the plane.
func (p *plane) plainOf(figures *experts.PlaneFigures) (map[string]any, error) {
	plain, err := modules.PlainOf[map[string]any](figures)
	if err == nil {
		maps.Copy(plain, p.about)
	}
	return plain, err
}

// planes makes data planes, and closes those that a script has left open.
type planes struct {
	base
	open   []*plane
	opened int // so far
}

const (
	planeType = "perigee.plane"
	planeWhat = "a data plane; methods are called with a colon: plane:measure{...}"
)

// class describes data planes to scripts: plane:measure{...}.
func (r *planes) class() vm.Class[*plane] {
	on := func(f func(L *glua.LState, p *plane) (int, error)) vm.Function { return vm.On(planeWhat, whileOpen(f)) }
	return vm.Class[*plane]{Type: planeType, Name: "data plane", What: planeWhat, Methods: map[string]vm.Function{
		"measure": r.Collective(on(r.measure)),
		"beside":  r.Collective(on(r.beside)),
		"verify":  r.Collective(on(r.verify)),
		"matrix":  on(planeMatrix),
		"close":   r.Collective(vm.On(planeWhat, r.close)),
	}}
}

// make: open(spec) makes a data plane.
func (r *planes) make(L *glua.LState, w *spmd.World) (int, error) {
	s, err := r.specFrom("moe.open", L.CheckTable(1), w.Size())
	if err != nil {
		return 0, err
	}
	plan, err := s.plan(r.Env().Seed)
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.Session(); err != nil {
		return 0, err
	}
	plan.Direct = s.direct(r.Env().Engine())
	about := s.describe(plan)
	cfg, err := r.agent(s.mem)
	if err != nil {
		return 0, err
	}
	staged, memory := "each rank's messages staged in one piece", "registered"
	if plan.Direct {
		staged = "each message written by itself"
	}
	if s.mem == nixl.VRAM {
		memory = "registered in GPU memory, with a copy in the host's"
	}
	r.noteMem(s.mem)
	r.Env().Note(fmt.Sprintf("routing %s, %s, seed %d; placement %s; %s, %s; requests prepared once and posted again",
		s.routing.Family, s.routing.Replacement(), s.routing.Seed, s.placed, s.payload, staged))
	r.Env().Note(fmt.Sprintf("memory of a rank: %s %s, %s in all",
		size.Decimal(about["registered_bytes"].(int64)), memory, size.Decimal(about["memory_bytes"].(int64))))
	if err := r.alike("moe.open", planeText(about)); err != nil {
		return 0, err
	}
	opened, err := experts.Open(w, r.Env().Engine(), cfg, plan)
	if err != nil {
		return 0, err
	}
	p := &plane{Plane: opened, about: about, number: r.opened}
	r.opened++
	r.open = append(r.open, p)
	return vm.Return(L, vm.NewUserData(L, planeType, p))
}

// close: close(). What is closed is forgotten: a script may open a plane for each of thousands of measurements.
func (r *planes) close(_ *glua.LState, p *plane) (int, error) {
	if p.Plane == nil {
		return 0, nil
	}
	open := p.Plane
	p.Plane = nil
	r.open = slices.DeleteFunc(r.open, func(other *plane) bool { return other == p })
	return 0, open.Close()
}

// whileOpen refuses a method of a data plane that is closed.
func whileOpen(f func(L *glua.LState, p *plane) (int, error)) func(L *glua.LState, p *plane) (int, error) {
	return func(L *glua.LState, p *plane) (int, error) {
		if p.Plane == nil {
			return 0, fault.New(fault.Script, "the data plane is closed: use it before its close()")
		}
		return f(L, p)
	}
}

// planeText names a plane; two that are described differently have different names.
func planeText(about map[string]any) string {
	text, err := json.Marshal(about)
	if err != nil {
		return err.Error() // texts and finite numbers: this does not happen
	}
	return fmt.Sprintf("a plane of %v tokens of %v channels, topk %v, routing %v, seed %v (%.4x)", about["tokens"], about["hidden"],
		about["topk"], about["routing"], about["routing_seed"], sha256.Sum256(text))
}

// planeMatrix: matrix(mode), the bytes that the messages of a mode take from each rank to each, itself included.
func planeMatrix(L *glua.LState, p *plane) (int, error) {
	mode, err := experts.ParseMode(L.CheckString(2))
	if err != nil {
		return 0, err
	}
	m, err := p.Matrix(mode)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, objects.NewMatrix(L, m, ""))
}

// measure: measure{mode =, iterations =, warmup =, entry =, fresh =, metric =, labels =, record =}, a table at rank 0,
// nil elsewhere. With record = false the result does not hold it.
func (r *planes) measure(L *glua.LState, p *plane) (int, error) {
	f := vm.NewFields("plane:measure", L.CheckTable(2))
	name := f.Text("mode", "e2e")
	iterations, warmup, fresh := f.Int("iterations", 100, 1), f.Int("warmup", 10, 0),
		f.Bool("fresh", false)
	record, k := f.Bool("record", true), keeper{base: r.base, p: p, metric: f.Text("metric", "")}
	labels := f.Table("labels")
	entered := f.Text("entry", map[bool]string{true: experts.Fresh.String(), false: experts.Steady.String()}[fresh])
	if err := f.Err(); err != nil {
		return 0, err
	}
	mode, err := experts.ParseMode(name)
	if err != nil {
		return 0, err
	}
	entry, err := experts.ParseEntry(entered)
	if err != nil {
		return 0, err
	}
	switch {
	case k.metric == "" && labels != nil:
		return 0, fault.New(fault.Script, "plane:measure: labels have no effect without a metric, whose samples have them")
	case k.metric != "" && !record:
		return 0, fault.New(fault.Script, "plane:measure: metric has no effect with record = false, which keeps no samples")
	case k.metric != "":
		if k.labels, err = modules.LabelsFrom(r, "plane:measure", k.metric, labels); err != nil {
			return 0, err
		}
	}
	asked := fmt.Sprintf("plane %d, mode %s, %d iterations, %d of warm-up, entry %s", p.number, name, iterations, warmup, entered)
	if !record {
		asked += ", not recorded"
	}
	if err := r.alike("plane:measure", asked); err != nil {
		return 0, err
	}
	if err := p.First(); err != nil {
		return 0, err
	}
	var save func(*experts.PlaneFigures) error
	if record {
		save = k.save
	}
	figures, err := p.Measure(mode, warmup, iterations, entry, save)
	if err != nil {
		return 0, err
	}
	if figures == nil {
		return vm.Return(L, glua.LNil)
	}
	if record {
		if err := k.save(figures); err != nil {
			return 0, err
		}
	}
	plain, err := p.plainOf(figures)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, plain))
}

// keeper keeps the figures of one measurement in the result of rank 0 while it goes on, and the times of its iterations
// as samples of a metric if it has one.
type keeper struct {
	base
	p       *plane
	metric  string
	labels  result.Labels
	kept    map[string]any // nil before the first
	lists   map[string]*result.Numbers
	sampled int // iterations
}

func (k *keeper) save(f *experts.PlaneFigures) error {
	err := k.keep(f)
	k.Env().Checkpoint()
	return err
}

// keep replaces the figures by newer ones of more iterations, and adds these to the lists of all.
func (k *keeper) keep(f *experts.PlaneFigures) error {
	if k.kept == nil {
		k.kept, k.lists = map[string]any{}, map[string]*result.Numbers{}
		k.putValue("ep", k.kept)
	}
	from := k.sampled
	k.sampled = len(f.MostUS)
	for name, list := range map[string][]float64{"least_us": f.LeastUS, "median_us": f.MedianUS, "most_us": f.MostUS} {
		if k.lists[name] == nil {
			k.lists[name] = &result.Numbers{}
		}
		k.lists[name].Append(list[from:]...)
	}
	single := *f
	single.LeastUS, single.MedianUS, single.MostUS = nil, nil, nil
	plain, err := k.p.plainOf(&single)
	if err != nil {
		return err
	}
	clear(k.kept)
	maps.Copy(k.kept, plain)
	for name, list := range k.lists {
		k.kept[name] = list
	}
	if k.metric == "" {
		return nil
	}
	return modules.AddSamples(k, k.metric, k.labels, f.MostUS[from:]...)
}

// verify: verify{sabotage =, arrived =, state =}.
func (r *planes) verify(L *glua.LState, p *plane) (int, error) {
	t, _ := L.Get(2).(*glua.LTable)
	f := vm.NewFields("plane:verify", t)
	sabotage, arrived, state := f.Text("sabotage", ""), f.Bool("arrived", true), f.Text("state", "")
	err := f.Err()
	if err == nil {
		err = r.alike("plane:verify", fmt.Sprintf("plane %d, sabotage %q, arrived %t, state %q", p.number, sabotage, arrived, state))
	}
	if err != nil {
		return 0, err
	}
	var checked *experts.Checked
	if state == "" {
		checked, err = p.Verify(experts.Options{Sabotage: experts.Sabotage(sabotage), SkipArrived: !arrived})
	} else {
		var mode experts.Mode
		if mode, err = experts.ParseMode(state); err == nil {
			checked, err = p.CheckState(mode)
		}
	}
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, map[string]any{
		"messages": checked.Messages, "tokens": checked.Tokens,
		"difference": checked.Unshifted, "shifted": checked.Shifted, "relative": checked.Relative,
	}))
}

// beside: beside{plan =, mode =, iterations =, warmup =, runs =, record =}, likewise.
func (r *planes) beside(L *glua.LState, p *plane) (int, error) {
	f := vm.NewFields("plane:beside", L.CheckTable(2))
	given, name := f.Get("plan"), f.Text("mode", "e2e")
	iterations, warmup, runs := f.Int("iterations", 100, 2), f.Int("warmup", 10, 0),
		f.Int("runs", 20, 1)
	record := f.Bool("record", true)
	if err := f.Err(); err != nil {
		return 0, err
	}
	mode, err := experts.ParseMode(name)
	if err != nil {
		return 0, err
	}
	plan, ok := vm.Object[objects.PlanObject](given)
	if !ok {
		return 0, fault.New(fault.Script, "plane:beside: plan is %s, want a plan of transfer.prepare", vm.Describe(given))
	}
	other := plan.Prepared()
	asked := fmt.Sprintf("plane %d, plan %d, mode %s, %d iterations, %d of warm-up, %d runs", p.number, other.Number, name, iterations, warmup, runs)
	if err := r.alike("plane:beside", asked); err != nil {
		return 0, err
	}
	if err := p.First(); err != nil {
		return 0, err
	}
	k := keeper{base: r.base, p: p}
	var save func(*experts.PlaneFigures) error
	if record {
		save = k.save
	}
	c, err := p.MeasureBeside(mode, warmup, iterations, runs, other, save)
	if err != nil {
		return 0, err
	}
	if c == nil {
		return vm.Return(L, glua.LNil)
	}
	if record {
		c.Beside.Entry = "steady, beside other traffic"
		beside := keeper{base: r.base, p: p}
		if err := beside.save(c.Beside); err != nil {
			return 0, err
		}
	}
	plain := map[string]any{
		"alone_us": c.Alone.Latency.Avg, "beside_us": c.Beside.Latency.Avg, "slowdown": c.Slowdown,
		"other_alone_us": c.AloneUS, "other_beside_us": c.BesideUS, "other_slowdown": c.OtherSlowdown,
		"other_runs": int64(c.Runs), "busy_us": c.BusyUS, "other_busy_us": c.OtherBusyUS,
	}
	if record {
		r.addValue("ep_beside", plain)
	}
	return vm.Return(L, vm.ToLua(L, plain))
}
