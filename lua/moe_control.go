package lua

import (
	"fmt"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/cli"
	"perigee/internal/experts"
	"perigee/internal/fault"
	"perigee/internal/moe"
	"perigee/internal/size"
	"perigee/nixl"
)

// moeControl: control{test =, rounds =, warmup =, ranks =, buffers =, plane =}, a list of figures at rank 0, nil
// elsewhere.
func (r *Runtime) moeControl(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	c, about, err := r.controlFrom(L.CheckTable(1), w.Size())
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.session(); err != nil {
		return 0, err
	}
	asked := fmt.Sprintf("test %s, %d rounds, %d of warm-up, %d ranks, %v experts, %d and %d bytes of buffers",
		c.Test, c.Rounds, c.Warmup, c.Ranks, about["experts"], c.Send, c.Recv)
	if err := r.alike("moe.control", asked); err != nil {
		return 0, err
	}
	if err := experts.CheckRoom(w, c.Ranks, c.Send+c.Recv); err != nil {
		return 0, err
	}
	var list []any // the figures so far
	if r.env.Doc != nil {
		c.Each = func(figures []experts.PhaseFigures) error {
			first := list == nil
			list = make([]any, len(figures))
			for i, f := range figures {
				if list[i], err = plainOf(f); err != nil {
					return err
				}
			}
			about["phases"], about["rounds"] = list, int64(len(figures[0].Rounds))
			if first {
				r.addValue("ep_control", about)
			} else {
				r.env.Checkpoint()
			}
			return nil
		}
	}
	if _, err := c.Play(w, r.env.Engine(), nixl.AgentConfig{Progress: "auto"}); err != nil {
		return 0, err
	}
	if err := w.All().Barrier(); err != nil {
		return 0, err
	}
	if r.env.Doc == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	L.Push(toLua(L, list))
	return 1, nil
}

// addValue appends to a list among the result's values, and saves the result.
func (r *Runtime) addValue(name string, v any) {
	d := r.env.Doc
	if d.Values == nil {
		d.Values = map[string]any{}
	}
	list, _ := d.Values[name].([]any)
	d.Values[name] = append(list, v)
	r.env.Checkpoint()
}

func (r *Runtime) controlFrom(t *glua.LTable, world int) (c experts.Control, about map[string]any, err error) {
	f := newFields("moe.control", t)
	c = experts.Control{
		Test: f.text("test", experts.Cycle), Rounds: int(f.integer("rounds", 1, 1)),
		Warmup: int(f.integer("warmup", 0, 0)),
		Ranks:  int(f.integer("ranks", int64(world), 1)),
	}
	buffers, plane := f.text("buffers", "routed"), f.table("plane")
	if err := f.err(); err != nil {
		return c, nil, err
	}
	if err := c.Check(world); err != nil {
		return c, nil, err
	}
	if plane == nil {
		plane = r.L.NewTable()
	}
	s, err := r.moeSpecFrom("moe.control: plane", plane, c.Ranks)
	if err != nil {
		return c, nil, err
	}
	if err := s.shape.Check(); err != nil {
		return c, nil, err
	}
	switch buffers {
	case "routed":
		plan, err := s.plan(r.env.Seed)
		if err != nil {
			return c, nil, err
		}
		c.Send, c.Recv = experts.Halves(plan)
	case "worst":
		c.Send = 0
		c.Recv = moe.BufferHint(s.shape.Tokens, s.shape.Hidden, s.shape.Experts)
	default:
		return c, nil, fault.New(fault.Usage, "unknown buffers %s, want routed or worst", quoted(buffers))
	}
	about = map[string]any{
		"test": c.Test, "ranks": int64(c.Ranks), "rounds": int64(c.Rounds),
		"experts_per_rank": int64(s.shape.ExpertsPerRank()),
		"experts":          int64(s.shape.Experts), "buffer_bytes": c.Send + c.Recv, "buffers": buffers,
	}
	r.env.Note(fmt.Sprintf("%s, %d experts per rank: %s of each rank are allocated, touched and registered",
		cli.Count(c.Ranks, "rank"), s.shape.ExpertsPerRank(), size.Decimal(c.Send+c.Recv)))
	return c, about, nil
}

// moeGrowth: growth({ranks, ...}, {seconds, ...}).
func moeGrowth(L *glua.LState) (int, error) {
	ranks, err := numbersFrom(L.CheckTable(1))
	if err != nil {
		return 0, fault.New(fault.Script, "moe.growth: %w", err)
	}
	seconds, err := numbersFrom(L.CheckTable(2))
	if err != nil {
		return 0, fault.New(fault.Script, "moe.growth: %w", err)
	}
	if len(ranks) != len(seconds) {
		return 0, fault.New(fault.Script, "moe.growth: %d numbers of ranks and %d times", len(ranks), len(seconds))
	}
	g := moe.FitGrowth(ranks, seconds)
	L.Push(toLua(L, map[string]any{"exponent": g.Exponent, "low": g.Low, "high": g.High, "r2": g.R2,
		"refused": g.Refused, "shape": g.Shape()}))
	return 1, nil
}

// planeBeside: beside{plan =, mode =, iterations =, warmup =, runs =}, a table at rank 0, nil elsewhere.
func (r *Runtime) planeBeside(L *glua.LState, p *luaPlane) (int, error) {
	f := newFields("plane:beside", L.CheckTable(2))
	given, name := f.get("plan"), f.text("mode", "e2e")
	iterations, warmup, runs := int(f.integer("iterations", 100, 2)), int(f.integer("warmup", 10, 0)),
		int(f.integer("runs", 20, 1))
	if err := f.err(); err != nil {
		return 0, err
	}
	mode, err := experts.ParseMode(name)
	if err != nil {
		return 0, err
	}
	u, _ := given.(*glua.LUserData)
	if u == nil {
		return 0, fault.New(fault.Script, "plane:beside: plan is %s, want a plan of transfer.prepare", describe(given))
	}
	plan, ok := u.Value.(*luaPlan)
	if !ok {
		return 0, fault.New(fault.Script, "plane:beside: plan is %s, want a plan of transfer.prepare", describe(given))
	}
	asked := fmt.Sprintf("plane %d, plan %d, mode %s, %d iterations, %d of warm-up, %d runs", p.number, plan.Number, name, iterations, warmup, runs)
	if err := r.alike("plane:beside", asked); err != nil {
		return 0, err
	}
	if err := p.First(); err != nil {
		return 0, err
	}
	c, err := p.MeasureBeside(mode, warmup, iterations, runs, plan)
	if err != nil {
		return 0, err
	}
	if c == nil {
		L.Push(glua.LNil)
		return 1, nil
	}
	for _, figures := range []*experts.Figures{c.Alone, c.Beside} {
		plain, err := plainOf(figures)
		if err != nil {
			return 0, err
		}
		for key, value := range p.about {
			plain[key] = value
		}
		if figures == c.Beside {
			plain["entry"] = "steady, beside other traffic"
		}
		r.addValue("ep", plain)
	}
	plain := map[string]any{
		"alone_us": c.Alone.Latency.Avg, "beside_us": c.Beside.Latency.Avg, "slowdown": c.Slowdown,
		"other_alone_us": c.AloneUS, "other_beside_us": c.BesideUS, "other_slowdown": c.OtherSlowdown,
		"other_runs": int64(c.Runs), "busy_us": c.BusyUS, "other_busy_us": c.OtherBusyUS,
	}
	r.addValue("ep_beside", plain)
	L.Push(toLua(L, plain))
	return 1, nil
}
