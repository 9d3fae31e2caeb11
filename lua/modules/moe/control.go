package moe

import (
	"fmt"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/ep/experts"
	"perigee/internal/ep/moe"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/result"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/nixl"
	"perigee/spmd"
)

// control: control{test =, rounds =, warmup =, ranks =, buffers =, plane =, record =}, a list of figures at rank 0, nil
// elsewhere, and without record.
func (r base) control(L *glua.LState, w *spmd.World) (int, error) {
	c, about, err := r.controlFrom(L.CheckTable(1), w.Size())
	if err != nil {
		return 0, err
	}
	// The session says what engine all ranks use.
	if _, err := r.Session(); err != nil {
		return 0, err
	}
	cfg, err := r.agent(c.Mem)
	if err != nil {
		return 0, err
	}
	asked := fmt.Sprintf("test %s, %d rounds, %d of warm-up, %d ranks, %v experts, %d and %d bytes of buffers",
		c.Test, c.Rounds, c.Warmup, c.Ranks, about["experts"], c.Send, c.Recv)
	if err := r.alike("moe.control", asked); err != nil {
		return 0, err
	}
	if c.Mem == nixl.DRAM {
		if err := experts.CheckRoom(w, c.Ranks, c.Send+c.Recv); err != nil {
			return 0, err
		}
	}
	if record := L.CheckTable(1).RawGetString("record") != glua.LFalse; r.Env().Doc != nil && record {
		var times []*result.Numbers // of the rounds of each phase
		c.Each = func(figures []experts.PhaseFigures) error {
			first := times == nil
			if first {
				times = make([]*result.Numbers, len(figures))
			}
			var list []any
			for i, f := range figures {
				if first {
					times[i] = &result.Numbers{}
				}
				times[i].Append(f.Rounds[times[i].Len():]...)
				f.Rounds = nil
				plain, err := modules.PlainOf[map[string]any](f)
				if err != nil {
					return err
				}
				plain["rounds_ms"] = times[i]
				list = append(list, plain)
			}
			about["phases"], about["rounds"] = list, int64(times[0].Len())
			if first {
				r.addValue("ep_control", about)
			} else {
				r.Env().Checkpoint()
			}
			return nil
		}
	}
	figures, err := c.Play(w, r.Env().Engine(), cfg)
	if err != nil {
		return 0, err
	}
	if err := w.All().Barrier(); err != nil {
		return 0, err
	}
	if c.Each == nil {
		return vm.Return(L, glua.LNil)
	}
	list, err := modules.PlainOf[[]any](figures)
	if err != nil {
		return 0, err
	}
	return vm.Return(L, vm.ToLua(L, list))
}

func (r base) controlFrom(
	t *glua.LTable, world int,
) (c experts.Control, about map[string]any, err error) {
	f := vm.NewFields("moe.control", t)
	c = experts.Control{
		Test: f.Text("test", experts.Cycle), Rounds: f.Int("rounds", 1, 1),
		Warmup: f.Int("warmup", 0, 0),
		Ranks:  f.Int("ranks", world, 1),
	}
	buffers, plane := f.Choice("buffers", "routed", "worst"), f.Table("plane")
	f.Bool("record", true) // see control
	if err := f.Err(); err != nil {
		return c, nil, err
	}
	if err := c.Check(world); err != nil {
		return c, nil, err
	}
	s, err := r.specFrom("moe.control: plane", plane, c.Ranks)
	if err != nil {
		return c, nil, err
	}
	if err := s.shape.Check(); err != nil {
		return c, nil, err
	}
	c.Mem = s.mem
	switch buffers {
	case "routed":
		plan, err := s.plan(r.Env().Seed)
		if err != nil {
			return c, nil, err
		}
		c.Send, c.Recv = experts.Halves(plan)
	case "worst":
		c.Send = 0
		c.Recv = moe.BufferHint(s.shape.Tokens, s.shape.Hidden, s.shape.Experts)
	}
	about = map[string]any{
		"test": c.Test, "ranks": int64(c.Ranks), "rounds": int64(c.Rounds),
		"experts_per_rank": int64(s.shape.ExpertsPerRank()),
		"experts":          int64(s.shape.Experts), "buffer_bytes": c.Send + c.Recv, "buffers": buffers,
	}
	done := "allocated, touched and registered"
	if c.Mem == nixl.VRAM {
		about["mem"], done = c.Mem.String(), "allocated and registered in GPU memory"
	}
	r.Env().Note(fmt.Sprintf("%s, %d experts per rank: %s of each rank are %s",
		cli.Count(c.Ranks, "rank"), s.shape.ExpertsPerRank(), size.Decimal(c.Send+c.Recv), done))
	return c, about, nil
}
