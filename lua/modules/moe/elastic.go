package moe

import (
	"fmt"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/experts"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// plan: plan(name), the phases of a plan as text: name itself, or what the JSON file of that name holds.
func (r base) plan(L *glua.LState) (int, error) {
	name := L.CheckString(1)
	text, err := r.AtRankZero("moe.plan of "+name, func() (any, error) {
		if !conf.Readable(name) {
			_, err := experts.ParsePlan(name)
			return name, err
		}
		data, err := modules.ReadText(r, name)
		if err != nil {
			return nil, err
		}
		v, err := conf.Parse(name, data)
		if err != nil {
			return nil, err
		}
		return experts.PlanText(v)
	})
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, text))
}

// planRanks: plan_ranks(plan), how many ranks a plan needs.
func planRanks(L *glua.LState) (int, error) {
	plan, err := experts.ParsePlan(L.CheckString(1))
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LNumber(experts.PlanRanks(plan)))
}

// elastic: elastic{plan =, warmup =, iterations =, patience =, exit =, each =, plane =}, a list of phases at rank 0,
// nil elsewhere.
func (r base) elastic(L *glua.LState, w *spmd.World) (_ int, err error) {
	f := vm.NewFields("moe.elastic", L.CheckTable(1))
	e := experts.Elastic{Warmup: f.Int("warmup", 50, 0), Iterations: f.Int("iterations", 50, 1)}
	text, patience, plane := f.Text("plan", "static"), f.Number("patience", 2), f.Table("plane")
	exit := f.Bool("exit", false)
	each, _ := f.Get("each").(*glua.LFunction)
	if given := f.Get("each"); each == nil && given != glua.LNil {
		f.Fail("each", "a function", given)
	}
	if exit {
		e.Exit = r.Env().Exit
	}
	if err := f.Err(); err != nil {
		return 0, err
	}
	if !(patience > 0 && patience <= 3600) {
		return 0, fault.New(fault.Usage, "the patience is %v s, want more than 0 and at most 3600", patience)
	}
	e.Patience = time.Duration(patience * float64(time.Second))
	if e.Plan, err = experts.ParsePlan(text); err != nil {
		return 0, err
	}
	s, err := r.specFrom("moe.elastic: plane", plane, w.Size())
	if err != nil {
		return 0, err
	}
	if e.Spec, err = s.plan(r.Env().Seed); err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.Session(); err != nil {
		return 0, err
	}
	cfg, err := r.agent(s.mem)
	if err != nil {
		return 0, err
	}
	r.noteMem(s.mem)
	e.Spec.Direct = s.direct(r.Env().Engine())
	asked := fmt.Sprintf("plan %q, %d iterations, %d of warm-up, patience %v s, exit %t, %s", text, e.Iterations, e.Warmup, patience, exit,
		planeText(s.describe(e.Spec)))
	if err := r.alike("moe.elastic", asked); err != nil {
		return 0, err
	}
	var list []any // the phases so far
	if r.Env().Doc != nil {
		value := map[string]any{"plan": text}
		if e.Spec.Mem == nixl.VRAM {
			value["mem"] = e.Spec.Mem.String()
		}
		e.Each = func(o experts.PhaseOutcome) error {
			phase, err := modules.PlainOf[map[string]any](o)
			if err != nil {
				return err
			}
			list = append(list, phase)
			if value["phases"] = list; len(list) == 1 {
				r.addValue("ep_elastic", value)
			} else {
				r.Env().Checkpoint()
			}
			if each != nil {
				_, err = r.VM().Call("each", each, vm.ToLua(L, phase), glua.LNumber(len(list)))
			}
			return err
		}
	}
	if _, err := e.Play(w, r.Env().Engine(), cfg); err != nil {
		return 0, err
	}
	if r.Env().Doc == nil {
		return vm.Return(L, glua.LNil)
	}
	return vm.Return(L, vm.ToLua(L, list))
}
