package transfer

import (
	"fmt"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/traffic/play"
	"perigee/lua/modules"
	"perigee/lua/vm"
)

// plan is a prepared load as scripts see it.
type plan struct {
	*play.LoadPlan
	spec
}

// Prepared is the load for other modules, as perigee/lua/objects says.
func (p *plan) Prepared() *play.LoadPlan { return p.LoadPlan }

const planType = "perigee.plan"

func newPlan(L *glua.LState, p *play.LoadPlan, s spec) *glua.LUserData {
	return vm.NewUserData(L, planType, &plan{p, s})
}

// planClass describes plans to scripts: plan:run(). An error in those functions that
// move bytes or meet other ranks leaves the others waiting.
func planClass(h modules.Host) vm.Class[*plan] {
	const what = "a plan; methods are called with a colon: plan:run()"
	on := func(f func(L *glua.LState, p *plan) (int, error)) vm.Function { return vm.On(what, f) }
	simple := func(f func(p *plan) error) vm.Function {
		return on(func(_ *glua.LState, p *plan) (int, error) { return 0, f(p) })
	}
	runs := planRuns{h}
	return vm.Class[*plan]{Type: planType, Name: "plan", What: what, Field: planField, Methods: map[string]vm.Function{
		"run":                h.Collective(on(runs.run)),
		"post":               h.Collective(simple(func(p *plan) error { return p.Post() })),
		"wait":               h.Collective(simple(runs.wait)),
		"done":               h.Collective(on(planDone)),
		"verify":             h.Collective(simple(func(p *plan) error { return play.Verify(p.LoadPlan) })),
		"fill":               h.Collective(on(planRound(play.Fill))),
		"check":              h.Collective(on(planRound(play.Check))),
		"gap":                simple(func(p *plan) error { p.MarkGap(); return nil }),
		"release":            simple(func(p *plan) error { return p.Release() }),
		"barrier":            h.Collective(h.Waiting(simple(func(p *plan) error { return p.Barrier() }))),
		"initiators_barrier": h.Collective(h.Waiting(simple(func(p *plan) error { return p.InitiatorsBarrier() }))),
		"times":              on(planTimes),
		"peer_times":         on(planPeerTimes),
		"received":           on(planReceived),
	}, Meta: map[string]vm.Function{"__tostring": on(func(L *glua.LState, p *plan) (int, error) {
		return vm.Return(L, glua.LString(fmt.Sprintf("plan %d %s", p.Number, p.name)))
	})}}
}

// planFields are the plain values of a plan: plan.bytes.
var planFields = map[string]func(L *glua.LState, p *plan) glua.LValue{
	"name":         func(_ *glua.LState, p *plan) glua.LValue { return glua.LString(p.name) },
	"bytes":        func(_ *glua.LState, p *plan) glua.LValue { return glua.LNumber(p.bytes.Total()) },
	"mem":          func(_ *glua.LState, p *plan) glua.LValue { return glua.LString(p.mem.String()) },
	"op":           func(_ *glua.LState, p *plan) glua.LValue { return glua.LString(p.op.String()) },
	"shards":       func(_ *glua.LState, p *plan) glua.LValue { return glua.LNumber(p.shards) },
	"lane":         func(_ *glua.LState, p *plan) glua.LValue { return glua.LNumber(p.lane) },
	"ranks":        func(L *glua.LState, p *plan) glua.LValue { return vm.Numbers(L, p.Ranks) },
	"senders":      func(L *glua.LState, p *plan) glua.LValue { return vm.Numbers(L, p.bytes.Senders()) },
	"initiators":   func(L *glua.LState, p *plan) glua.LValue { return vm.Numbers(L, p.Initiators) },
	"takes_part":   func(_ *glua.LState, p *plan) glua.LValue { return glua.LBool(p.TakesPart()) },
	"prep_seconds": func(_ *glua.LState, p *plan) glua.LValue { return glua.LNumber(float64(p.Prep()) / 1e9) },
	"initiates":    func(_ *glua.LState, p *plan) glua.LValue { return glua.LBool(p.Initiates()) },
}

func planField(L *glua.LState, p *plan, key glua.LValue) (glua.LValue, error) {
	if field, ok := planFields[key.String()]; ok {
		return field(L, p), nil
	}
	return nil, nil
}

// planRuns are the methods that announce recorded runs to the experiment.
type planRuns struct{ modules.Host }

// planRound: fill(round) and check(round).
func planRound(step func(p *play.LoadPlan, round int) error) func(L *glua.LState, p *plan) (int, error) {
	return func(L *glua.LState, p *plan) (int, error) {
		round, err := vm.OptionalInteger(L, 2, 0, 0)
		if err != nil {
			return 0, err
		}
		return 0, step(p.LoadPlan, round)
	}
}

// run: plan:run{iterations = 1, record = true} or plan:run(n).
func (r planRuns) run(L *glua.LState, p *plan) (int, error) {
	n, record := int64(1), true
	if t, ok := L.Get(2).(*glua.LTable); ok {
		f := vm.NewFields("plan:run", t)
		n, record = f.Integer("iterations", 1, 0), f.Bool("record", true)
		if err := f.Err(); err != nil {
			return 0, err
		}
	} else {
		i, err := vm.OptionalInteger(L, 2, 1, 0)
		if err != nil {
			return 0, err
		}
		n = int64(i)
	}
	if record {
		if err := r.Env().Recording(p.Reserved, n); err != nil {
			return 0, err
		}
	}
	return 0, p.Run(int(n), record)
}

// wait() records a run, as run does.
func (r planRuns) wait(p *plan) error {
	if err := r.Env().Recording(p.Reserved, 1); err != nil {
		return err
	}
	return p.Wait(true)
}

func planDone(L *glua.LState, p *plan) (int, error) {
	done, err := p.Done()
	if err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LBool(done))
}

// planTimes: times() of this rank's last run, in seconds: post is how long
// posting took, total from the first post to the last completion; nil if this
// rank has not run it.
func planTimes(L *glua.LState, p *plan) (int, error) {
	t, _, ok := p.Last()
	if !ok {
		return vm.Return(L, glua.LNil)
	}
	return vm.Return(L, vm.ToLua(L, map[string]any{
		"post":  float64(t.Posted-t.Start) / 1e9,
		"total": float64(t.End-t.Start) / 1e9,
	}))
}

// planPeerTimes: peer_times() of this rank's last run: peer -> seconds from the
// first post until that peer's transfer was complete; nil if this rank has not
// run it.
func planPeerTimes(L *glua.LState, p *plan) (int, error) {
	t, posts, ok := p.Last()
	if !ok {
		return vm.Return(L, glua.LNil)
	}
	out := L.NewTable()
	for i, done := range t.Done {
		out.RawSetInt(posts[i].Peer, glua.LNumber(float64(done-t.Start)/1e9))
	}
	return vm.Return(L, out)
}

// mostShown bounds how much of a message received returns.
const mostShown = 1 << 20

// planReceived: received(most) gives the first bytes of each message in the
// receive buffer: sender -> hexadecimal digits.
func planReceived(L *glua.LState, p *plan) (int, error) {
	most, err := vm.OptionalInteger(L, 2, 16, 0)
	if err != nil {
		return 0, err
	}
	heads, err := play.Received(p.LoadPlan, min(most, mostShown))
	if err != nil {
		return 0, err
	}
	out := L.NewTable()
	for sender, b := range heads {
		out.RawSetInt(sender, glua.LString(fmt.Sprintf("%x", b)))
	}
	return vm.Return(L, out)
}
