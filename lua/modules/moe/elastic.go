package moe

import (
	"fmt"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experts"
	"perigee/internal/fault"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// planRanks: plan_ranks(plan), how many ranks a plan needs.
func planRanks(L *glua.LState) (int, error) {
	plan, err := experts.ParsePlan(L.CheckString(1))
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LNumber(experts.PlanRanks(plan)))
}

// elastic: elastic{plan =, warmup =, iterations =, patience =, exit =, plane =}, a list of phases at rank 0, nil
// elsewhere.
func (r base) elastic(L *glua.LState, w *spmd.World) (_ int, err error) {
	f := vm.NewFields("moe.elastic", L.CheckTable(1))
	e := experts.Elastic{Warmup: f.Int("warmup", 50, 0), Iterations: f.Int("iterations", 50, 1)}
	text, patience, plane := f.Text("plan", "static"), f.Number("patience", 2), f.Table("plane")
	exit := f.Bool("exit", false)
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
	e.Spec.Direct = s.direct(r.Env().Engine())
	asked := fmt.Sprintf("plan %q, %d iterations, %d of warm-up, patience %v s, exit %t, %s", text, e.Iterations, e.Warmup, patience, exit,
		planeText(s.describe(e.Spec)))
	if err := r.alike("moe.elastic", asked); err != nil {
		return 0, err
	}
	var list []any // the phases so far
	if r.Env().Doc != nil {
		value := map[string]any{"plan": text}
		e.Each = func(o experts.Outcome) error {
			phase, err := plainOf[map[string]any](o)
			if err != nil {
				return err
			}
			list = append(list, phase)
			if value["phases"] = list; len(list) == 1 {
				r.addValue("ep_elastic", value)
			} else {
				r.Env().Checkpoint()
			}
			return nil
		}
	}
	if _, err := e.Play(w, r.Env().Engine(), nixl.AgentConfig{Progress: "auto"}); err != nil {
		return 0, err
	}
	if r.Env().Doc == nil {
		return vm.Return(L, glua.LNil)
	}
	return vm.Return(L, vm.ToLua(L, list))
}

// lost: lost(plan) ends the job where a plan killed ranks: it names them.
func (r base) lost(L *glua.LState) (int, error) {
	plan, err := experts.ParsePlan(L.CheckString(1))
	if err != nil {
		return 0, err
	}
	var dead []string
	for i, phase := range plan {
		for _, rank := range phase.Ranks {
			if stage, killed := phase.Killed[rank]; killed {
				dead = append(dead, fmt.Sprintf("rank %d in phase %d (%s)", rank, i+1, stage))
			}
		}
	}
	if len(dead) == 0 {
		return 0, nil
	}
	if w, err := r.World(); err != nil {
		return 0, err
	} else if w.Rank() != 0 {
		<-w.Context().Done() // rank 0 reports it
		return 0, w.Err()
	}
	return 0, fault.New(fault.RankLost, "the plan killed %s", strings.Join(dead, ", ")).
		WithHint("the survivors found them, went on without them, and all that they exchanged is right")
}
