package session

import (
	"cmp"
	"slices"
	"time"

	"perigee/internal/clock"
	"perigee/internal/traffic/series"
	"perigee/spmd"
)

// pace is how far ahead this rank wants the instants at which ranks start together. An instant must not come before
// the slowest rank knows it, and waiting for it costs time.
type pace struct {
	took [8]int64 // how long this rank took to learn of the latest instants, in nanoseconds
	next int
}

const (
	// shortestLead covers what lies between the end of the reduction and the wait.
	shortestLead = int64(10 * time.Microsecond)
	// firstLead is that of a rank that has learnt of no instant yet.
	firstLead = int64(200 * time.Microsecond)
	// longestLead bounds what a rank that was stopped once costs all that follow.
	longestLead = int64(20 * time.Millisecond)
)

// lead is half again as long as it took lately, uncertainty being that of the clocks.
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

// Agree returns an instant at which all ranks of a group can start together, soon after the last of them has
// called it. All of them call it. With one rank there is none.
func (s *Session) Agree(g *spmd.Group) (series.Agreed, error) {
	if g.Size() < 2 {
		return series.Agreed{}, nil
	}
	uncertainty := s.world.Uncertainty(g.Ranks())
	// Each rank proposes the soonest instant that it would be ready at if it were the last to come. The lead is
	// separate, since the last to come need not be the slowest to learn.
	got, err := spmd.AllReduce(g, []int64{s.world.Now(), s.pace.lead(uncertainty)}, spmd.Max)
	if err != nil {
		return series.Agreed{}, err
	}
	now, common := clock.Now(), s.world.Now()
	s.pace.learned(common - got[0])
	instant := now + got[0] + got[1] - common // by this host's clock
	return series.Agreed{NS: cmp.Or(instant, 1)}, nil
}
