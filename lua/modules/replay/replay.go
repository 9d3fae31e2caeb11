// Package replay is the module replay, which replays serving traces as transfers.
//
// replay.open reads a trace and a model at rank 0 of the host, and all ranks derive the same schedule of them
// (perigee/internal/replay). Its methods play it on the host's experiment, which keeps the figures in the result
// (perigee/internal/experiment). replay.ranks needs no world, so that the function ranks can refuse what cannot be
// replayed before any rank starts. spec.go reads the arguments.
package replay

import (
	"fmt"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/lua/modules"
	"perigee/lua/objects"
	"perigee/lua/vm"
	"perigee/nixl"
)

// Module is the module replay.
type Module struct{}

type instance struct{ modules.Host }

// New makes the module of a VM, and the type of replays.
func (Module) New(h modules.Host) modules.Instance {
	r := &instance{h}
	r.class().Open(h.VM())
	return r
}

// Exports lists the functions.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"open":  r.Collective(r.open),
		"ranks": r.Collective(r.ranks),
	}}
}

// replayed is a replay as scripts see it.
type replayed = experiment.PreparedReplay

const (
	replayType = "perigee.replay"
	replayWhat = "a replay; methods are called with a colon: r:play{...}"
)

// class describes replays to scripts.
func (r *instance) class() vm.Class[*replayed] {
	on := func(f func(L *glua.LState, o *replayed) (int, error)) vm.Function {
		return r.Collective(vm.On(replayWhat, f))
	}
	return vm.Class[*replayed]{Type: replayType, Name: "replay", What: replayWhat, Methods: map[string]vm.Function{
		"verify":   on(r.verify),
		"isolated": on(timed("isolated", (*replayed).Isolated)),
		"capacity": on(timed("capacity", (*replayed).Capacity)),
		"play":     on(r.play),
	}, Field: field}
}

// field returns what a replay holds.
func field(_ *glua.LState, o *replayed, key glua.LValue) (glua.LValue, error) {
	switch key.String() {
	case "requests":
		return glua.LNumber(len(o.Requests)), nil
	case "transfers":
		return glua.LNumber(len(o.Transfers)), nil
	case "bytes":
		return glua.LNumber(o.Bytes), nil
	case "seconds":
		return glua.LNumber(float64(o.SpanNS) / 1e9), nil
	}
	return nil, nil
}

// ranks: ranks(spec), how many ranks a replay needs. The trace is read and the schedule made, so that what is wrong is
// found here.
func (r *instance) ranks(L *glua.LState) (int, error) {
	s, err := r.specFrom("replay.ranks", L.CheckTable(1), nil)
	if err != nil {
		return 0, err
	}
	if _, err := r.scheduleOf(s); err != nil {
		return 0, err
	}
	return vm.Return(L, glua.LNumber(s.Prefill.Ranks()+s.Decode.Ranks()))
}

// open: open(spec) prepares a replay.
func (r *instance) open(L *glua.LState) (int, error) {
	w, err := r.World()
	if err != nil {
		return 0, err
	}
	s, err := r.specFrom("replay.open", L.CheckTable(1), w)
	if err != nil {
		return 0, err
	}
	x, err := r.scheduleOf(s)
	if err != nil {
		return 0, err
	}
	x.note(r.Env().Experiment, s.Op)
	prepared, err := r.Env().OpenReplay(x.Schedule, x.about(s))
	if err != nil {
		return 0, err
	}
	if s.Mem == nixl.DRAM {
		r.Env().NoteHostMemory()
	} else if err := r.Env().NoteGPUs(); err != nil {
		return 0, err
	}
	return vm.Return(L, vm.NewUserData(L, replayType, prepared))
}

// verify: verify{progress =} moves all transfers and checks every byte.
func (r *instance) verify(L *glua.LState, o *replayed) (int, error) {
	t, _ := L.Get(2).(*glua.LTable)
	f := vm.NewFields("r:verify", t)
	bar := progress(f)
	if err := f.Err(); err != nil {
		return 0, err
	}
	if err := o.Verify(func(transfers int) { bar.Add(transfers, 0) }); err != nil {
		return 0, err
	}
	r.Env().Note(fmt.Sprintf("verified: every byte of %d transfers arrived as it was sent", len(o.Transfers)))
	return 0, nil
}

// timed makes a method of what plays for some seconds: NAME{seconds =}.
func timed(name string, play func(*replayed, float64) error) func(L *glua.LState, o *replayed) (int, error) {
	return func(L *glua.LState, o *replayed) (int, error) {
		t, _ := L.Get(2).(*glua.LTable)
		f := vm.NewFields("r:"+name, t)
		seconds := f.Number("seconds", 3)
		if err := f.Err(); err != nil {
			return 0, err
		}
		return 0, play(o, seconds)
	}
}

// progress is the bar that a script gives, or one that is never seen.
func progress(f *vm.Fields) objects.Progress {
	given := f.Get("progress")
	if given == glua.LNil {
		return unseen{}
	}
	bar, ok := vm.Object[objects.Progress](given)
	if !ok {
		f.Fail("progress", "what result.progress returns", given)
	}
	return bar
}

type unseen struct{}

func (unseen) AddBytes(int64)   {}
func (unseen) Add(int, float64) {}

// play: play{max_late =, progress =}, the figures at rank 0, nil elsewhere.
func (r *instance) play(L *glua.LState, o *replayed) (int, error) {
	t, _ := L.Get(2).(*glua.LTable)
	f := vm.NewFields("r:play", t)
	played := experiment.Played{MaxLate: time.Duration(f.Number("max_late", 0.001) * 1e9)}
	bar, done, over := progress(f), 0, time.Duration(0)
	played.Progress = func(requests int, now time.Duration) {
		bar.Add(requests-done, (now - over).Seconds())
		done, over = requests, now
	}
	if err := f.Err(); err != nil {
		return 0, err
	}
	figures, err := o.Play(played)
	if err != nil {
		return 0, err
	}
	if figures == nil {
		return vm.Return(L, glua.LNil)
	}
	plain, err := modules.PlainOf[map[string]any](figures)
	if err != nil {
		return 0, err
	}
	delete(plain, "requests") // thousands of rows, in the result
	value := vm.ToLua(L, plain).(*glua.LTable)
	value.RawSetString("answer", vm.Texts(L, figures.Answer()))
	return vm.Return(L, value)
}
