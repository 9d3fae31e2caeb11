package spmd

import (
	"slices"
	"time"

	"perigee/internal/kit/clock"
)

// A rank that is stopped (SIGSTOP, a frozen cgroup), or whose host is, goes on afterwards as if nothing had been, and
// the time is in what was measured. So each rank looks at the clock again and again: where that took much longer than
// the pause between two looks, it stood still.

const (
	lookPause = 500 * time.Millisecond
	// stillLimit is how long a rank does not look before that counts. Ranks that only wait for a CPU run in turns of
	// some milliseconds: one of hundreds on a CPU may wait for seconds, so that it is longer for more than crowdedCPU
	// ranks on each.
	stillLimit = 3 * time.Second
	crowdedCPU = 16
)

// Standstill is a time for which a rank did nothing at all, other than to wait.
type Standstill struct {
	Phase string
	NS    int64
}

// standstills are those of a rank, by phase: how long they lasted together.
type standstills struct {
	limit time.Duration
	last  int64 // look, on the monotonic clock
	list  []Standstill
}

// look takes the time of a look in a phase.
func (s *standstills) look(now int64, phase string) {
	still := now - s.last
	s.last = now
	if still < s.limit.Nanoseconds() {
		return
	}
	i := slices.IndexFunc(s.list, func(other Standstill) bool { return other.Phase == phase })
	if i < 0 {
		i = len(s.list)
		s.list = append(s.list, Standstill{Phase: phase})
	}
	s.list[i].NS += still
}

// limitOf is stillLimit for the ranks of a host.
func limitOf(h Host) time.Duration {
	return stillLimit * time.Duration(max(1, len(h.Ranks)/(crowdedCPU*max(h.CPUs, 1))))
}

// watchStandstills looks at the clock until the world ends.
func (w *World) watchStandstills() {
	seen := standstills{limit: limitOf(w.Hosts()[w.HostOf(w.rank)]), last: clock.Now()}
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		before := len(seen.list)
		seen.look(clock.Now(), w.CurrentPhase())
		if len(seen.list) > 0 {
			w.still.Store(new(slices.Clone(seen.list)))
		}
		if len(seen.list) > before {
			w.log.Warn("this rank stood still", "elapsed", time.Duration(seen.list[before].NS))
		}
	}
}

// Standstills lists how long this rank has stood still, for three seconds or more at once, in the phases in which it
// did.
func (w *World) Standstills() []Standstill {
	if list := w.still.Load(); list != nil {
		return *list
	}
	return nil
}
