// Package clock is the module clock: the time line that all ranks share, and sleep.
//
// now and uncertainty need the world of the host, which has measured the ranks' clocks against rank 0's. wall is this
// host's time of day. sleep ends early when the job fails, and lets the experiment save its result meanwhile.
package clock

import (
	"context"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/lua/modules"
	"perigee/lua/vm"
	"perigee/spmd"
)

// Module is the module clock.
type Module struct{}

type instance struct{ modules.Host }

// New makes the module of a VM.
func (Module) New(h modules.Host) modules.Instance { return &instance{h} }

// Exports lists the functions.
func (r *instance) Exports() modules.Exports {
	return modules.Exports{Functions: map[string]vm.Function{
		"now":         modules.InWorld(r, now),
		"sleep":       r.sleep,
		"wall":        wall,
		"uncertainty": modules.InWorld(r, uncertainty),
	}}
}

// now() in seconds on the common time line.
func now(L *glua.LState, w *spmd.World) (int, error) {
	return vm.Return(L, glua.LNumber(float64(w.Now())/1e9))
}

// maxSleep keeps a mistyped sleep within what a time.Duration can hold.
const maxSleep = 365 * 24 * time.Hour

// sleep(seconds). It ends early only if the job fails.
func (r *instance) sleep(L *glua.LState) (int, error) {
	number, isNumber := L.Get(1).(glua.LNumber)
	if !isNumber {
		return 0, fault.New(fault.Script, "sleep takes a number of seconds, such as 0.002, got %s", vm.Describe(L.Get(1)))
	}
	seconds := float64(number)
	if !(seconds >= 0 && seconds <= maxSleep.Seconds()) {
		return 0, fault.New(fault.Script, "sleep of %v seconds: want 0 to %v", seconds, maxSleep.Seconds())
	}
	end := clock.Now() + int64(seconds*1e9)
	ctx, env := context.Background(), r.Env()
	if env.World != nil {
		ctx = env.World.Context() // it ends when the job has failed
	}
	env.Idle(time.Now().Add(time.Duration(seconds * 1e9)))
	defer env.Busy()
	return 0, clock.SleepUntil(ctx, end)
}

// wall() in seconds since 1970, of this host.
func wall(L *glua.LState) (int, error) {
	return vm.Return(L, glua.LNumber(float64(time.Now().UnixNano())/1e9))
}

// uncertainty() in seconds, between any two ranks.
func uncertainty(L *glua.LState, w *spmd.World) (int, error) {
	return vm.Return(L, glua.LNumber(float64(w.Uncertainty(w.All().Ranks()))/1e9))
}
