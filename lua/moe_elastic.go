package lua

import (
	"fmt"
	"slices"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experts"
	"perigee/internal/fault"
	"perigee/nixl"
)

// moePlanRanks: plan_ranks(plan), how many ranks a plan needs.
func moePlanRanks(L *glua.LState) (int, error) {
	plan, err := experts.ParsePlan(L.CheckString(1))
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(experts.PlanRanks(plan)))
	return 1, nil
}

// moeElastic: elastic{plan =, warmup =, iterations =, patience =, exit =, plane =}, a list of phases at rank 0, nil
// elsewhere.
func (r *Runtime) moeElastic(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	f := newFields("moe.elastic", L.CheckTable(1))
	e := experts.Elastic{Warmup: int(f.integer("warmup", 50, 0)), Iterations: int(f.integer("iterations", 50, 1))}
	text, patience, plane := f.text("plan", "static"), f.number("patience", 2), f.table("plane")
	exit := f.boolean("exit", false)
	if exit {
		e.Exit = r.env.Exit
	}
	if err := f.err(); err != nil {
		return 0, err
	}
	if !(patience > 0 && patience <= 3600) {
		return 0, fault.New(fault.Usage, "the patience is %v s, want more than 0 and at most 3600", patience)
	}
	e.Patience = time.Duration(patience * float64(time.Second))
	if e.Plan, err = experts.ParsePlan(text); err != nil {
		return 0, err
	}
	if plane == nil {
		plane = r.L.NewTable()
	}
	s, err := r.moeSpecFrom("moe.elastic: plane", plane, w.Size())
	if err != nil {
		return 0, err
	}
	if e.Spec, err = s.plan(r.env.Seed); err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.session(); err != nil {
		return 0, err
	}
	e.Spec.Direct = s.direct(r.env.Engine())
	asked := fmt.Sprintf("plan %q, %d iterations, %d of warm-up, patience %v s, exit %t, %s", text, e.Iterations, e.Warmup, patience, exit,
		planeText(s.describe(e.Spec)))
	if err := r.alike("moe.elastic", asked); err != nil {
		return 0, err
	}
	var list []any // the phases so far
	if r.env.Doc != nil {
		value := map[string]any{"plan": text}
		e.Each = func(o experts.Outcome) error {
			phase, err := plainOf(o)
			if err != nil {
				return err
			}
			list = append(list, phase)
			if value["phases"] = list; len(list) == 1 {
				r.addValue("ep_elastic", value)
			} else {
				r.env.Checkpoint()
			}
			return nil
		}
	}
	if _, err := e.Play(w, r.env.Engine(), nixl.AgentConfig{Progress: "auto"}); err != nil {
		return 0, err
	}
	if r.env.Doc == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	L.Push(toLua(L, list))
	return 1, nil
}

// moeLost: lost(plan) ends the job where a plan killed ranks: it names them.
func (r *Runtime) moeLost(L *glua.LState) (int, error) {
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
	if w, err := r.world(); err != nil {
		return 0, err
	} else if w.Rank() != 0 {
		<-w.Context().Done() // rank 0 reports it
		return 0, w.Err()
	}
	return 0, fault.New(fault.RankLost, "the plan killed %s", strings.Join(slices.Clip(dead), ", ")).
		WithHint("the survivors found them, went on without them, and all that they exchanged is right")
}
