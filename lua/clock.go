package lua

import (
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/clock"
	"perigee/internal/fault"
)

// clockModule has the common time line, and sleep.
type clockModule struct{ base }

func (r *clockModule) exports() map[string]function {
	return map[string]function{
		"now":         r.now,
		"sleep":       r.sleep,
		"wall":        clockWall,
		"uncertainty": r.uncertainty,
	}
}

// now() in seconds on the common time line.
func (r *clockModule) now(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(float64(w.Now()) / 1e9))
	return 1, nil
}

// maxSleep keeps a mistyped sleep within what a time.Duration can hold.
const maxSleep = 365 * 24 * time.Hour

// sleep(seconds). It ends early only if the job fails.
func (r *clockModule) sleep(L *glua.LState) (int, error) {
	seconds := float64(L.CheckNumber(1))
	if !(seconds >= 0 && seconds <= maxSleep.Seconds()) {
		return 0, fault.New(fault.Script, "sleep of %v seconds: want 0 to %v", seconds, maxSleep.Seconds())
	}
	end := clock.Now() + int64(seconds*1e9)
	r.env.Idle(time.Now().Add(time.Duration(seconds * 1e9)))
	defer r.env.Busy()
	return 0, clock.SleepUntil(r.context(), end)
}

// clockWall: wall() in seconds since 1970, of this host.
func clockWall(L *glua.LState) (int, error) {
	L.Push(glua.LNumber(float64(time.Now().UnixNano()) / 1e9))
	return 1, nil
}

// uncertainty() in seconds, between any two ranks.
func (r *clockModule) uncertainty(L *glua.LState) (int, error) {
	w, err := r.world()
	if err != nil {
		return 0, err
	}
	L.Push(glua.LNumber(float64(w.Uncertainty(w.All().Ranks())) / 1e9))
	return 1, nil
}
