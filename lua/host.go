package lua

import (
	"io"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/internal/result"
	"perigee/internal/traffic/session"
	"perigee/lua/files"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/spmd"
)

// host is the rank at which a scenario runs, as modules see it.
type host struct {
	vm     *vm.VM
	env    modules.Env
	files  *files.Files
	loaded bool // the top level of the script has run
}

var _ modules.Host = (*host)(nil)

func newHost(out io.Writer) *host {
	blank := &experiment.Experiment{Config: experiment.Config{Out: out}}
	return &host{vm: vm.New(out), env: modules.Env{Experiment: blank}, files: files.New()}
}

// described says that the script has described itself, with these metrics.
func (h *host) described(metrics []result.MetricDef) {
	h.loaded, h.env.Metrics = true, metrics
}

// begin makes the host part of a world.
func (h *host) begin(env modules.Env) {
	h.env, h.vm.Out = env, env.Out
	h.vm.Seed(env.Seed)
}

// VM is the Lua state.
func (h *host) VM() *vm.VM { return h.vm }

// Env has the experiment, and where the rank writes to.
func (h *host) Env() *modules.Env { return &h.env }

// Files says which files the scenario may write.
func (h *host) Files() *files.Files { return h.files }

// World returns the world, which the launcher does not have.
func (h *host) World() (*spmd.World, error) {
	if h.env.World == nil {
		return nil, fault.New(fault.Script, "there is no world yet: only the function run has one")
	}
	return h.env.World, nil
}

// AtRankZero runs read at rank 0 and gives its plain data to all ranks. what names
// the reading, which must be the same at all ranks. Without a world it just reads.
func (h *host) AtRankZero(what string, read func() (any, error)) (any, error) {
	if !h.loaded {
		return nil, fault.New(fault.Script, "%s at the top level of a script, which every rank runs by itself", what).
			WithHint("read files in run, or in the function ranks")
	}
	w := h.env.World
	if w == nil {
		return read()
	}
	var packed []byte
	if w.Rank() == 0 {
		plain, err := read()
		if err != nil {
			return nil, err
		}
		packed = pack.AppendBytes(pack.AppendText(nil, what), vm.Encode(plain))
	}
	packed, err := w.All().Broadcast(0, packed)
	if err != nil {
		return nil, err
	}
	p := pack.Read(packed)
	theirs, data := p.Text(), p.Bytes()
	if err := p.End("what rank 0 has read"); err != nil {
		return nil, err
	}
	if theirs != what {
		return nil, fault.New(fault.Script, "rank 0 is in %s, this rank in %s", theirs, what)
	}
	return vm.Decode(data)
}

// Session is the experiment's, which opens the engine when it is first needed.
func (h *host) Session() (*session.Session, error) {
	if _, err := h.World(); err != nil {
		return nil, err
	}
	return h.env.Session()
}

// Collective marks a function that concerns other ranks: they meet in it, or wait
// for what it does. Where there is a world its error ends the job even if the
// script catches it, since the others cannot know that it was caught.
func (h *host) Collective(f vm.Function) vm.Function {
	f = h.refuseLost(f)
	return func(L *glua.LState) (int, error) {
		if err := h.env.Aborting(); err != nil {
			return 0, h.env.World.Fail(err)
		}
		n, err := f.Guarded(L)
		if err != nil && h.env.World != nil {
			h.env.World.Fail(h.vm.Located(L, err))
		}
		return n, err
	}
}

// refuseLost makes f an error in a world some of whose ranks have ended.
func (h *host) refuseLost(f vm.Function) vm.Function {
	return func(L *glua.LState) (int, error) {
		if w := h.env.World; w != nil && len(w.Lost()) > 0 {
			return 0, fault.New(fault.Script, "ranks %v have ended in moe.elastic: all ranks cannot do anything together any more",
				w.Lost()).WithHint("let what the others do come before it")
		}
		return f(L)
	}
}

// Waiting marks a function that waits and does not touch the result meanwhile.
func (h *host) Waiting(f vm.Function) vm.Function {
	return func(L *glua.LState) (int, error) {
		h.env.Idle(time.Time{})
		defer h.env.Busy()
		return f(L)
	}
}
