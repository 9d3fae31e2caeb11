package session

import (
	"cmp"
	"slices"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/traffic/series"
	"perigee/spmd"
)

// pace is how far ahead this rank wants the instants at which ranks start together. An instant must not come before
// the slowest rank knows it, and waiting for it costs time.
type pace struct {
	took [128]int64 // how long this rank took to learn of the latest instants, in nanoseconds
	next int
}

const (
	// shortestLead covers what lies between the end of the reduction and the wait.
	shortestLead = int64(5 * time.Microsecond)
	// firstLead is that of a rank that has learnt of no instant yet.
	firstLead = int64(200 * time.Microsecond)
	// longestLead bounds what a rank that was stopped once costs all that follow.
	longestLead = int64(20 * time.Millisecond)
)

// lead is half again as long as it took at worst lately, uncertainty being that of the clocks.
func (p *pace) lead(uncertainty int64) int64 {
	worst := slices.Max(p.took[:])
	if p.next == 0 {
		worst = firstLead + 4*uncertainty
	}
	return min(max(worst+worst/2, shortestLead), longestLead)
}

func (p *pace) learned(took int64) {
	p.took[p.next%len(p.took)] = max(took, 1)
	p.next++
}

// Agree returns an instant at which all ranks of a group can start together, soon after the last of them has called
// it. All of them call it. With one rank there is none. The instant is in nanoseconds of this host's clock.
func (s *Session) Agree(g *spmd.Group) (series.Agreed, error) {
	if g.Size() < 2 {
		return series.Agreed{}, nil
	}
	uncertainty := s.world.Uncertainty(g.Ranks())
	// Each rank proposes the soonest instant that it would be ready at if it were the last to come. The lead is
	// separate, since the last to come need not be the slowest to learn.
	got, err := g.Latest([2]int64{s.world.Now(), s.pace.lead(uncertainty)})
	if err != nil {
		return series.Agreed{}, err
	}
	now := clock.Now()
	common := s.world.ToCommon(s.world.Rank(), now)
	s.pace.learned(common - got[0])
	instant := now + got[0] + got[1] - common // by this host's clock
	return series.Agreed{NS: cmp.Or(instant, 1)}, nil
}

// spin is how long a rank keeps its CPU before an instant, where every rank of its host has one: what a thread does
// after it has slept is slow at first.
const spin = int64(time.Millisecond)

// Await returns when an instant has come, and by how much that was before the call. It returns early only when the job
// fails, with the reason.
func (s *Session) Await(a series.Agreed) (late int64, err error) {
	late = max(clock.Now()-a.NS, 0)
	if h := s.world.Hosts()[s.world.HostOf(s.world.Rank())]; len(h.Ranks) <= h.CPUs {
		if left := a.NS - clock.Now(); left > spin {
			err = clock.SleepUntil(s.world.Context(), a.NS-spin)
		}
		for clock.Now() < a.NS {
		}
		return late, err
	}
	return late, clock.SleepUntil(s.world.Context(), a.NS)
}
