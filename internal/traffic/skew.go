package traffic

import (
	"perigee/internal/clock"
	"perigee/internal/traffic/series"
	"perigee/spmd"
)

// Ranks that leave a barrier together do not leave it at the same moment. How far
// apart they are tells how good the start of a measurement is. Each stamps its exit
// where no time is measured, and the stamp travels with those of the run that
// follows.

// Met notes that this rank has just left a barrier of a group.
func (s *Session) Met(g *spmd.Group) {
	s.left = series.Exit{Barrier: g.Meeting(), NS: clock.Now()}
}

// takeExit returns the exit since the run before.
func (s *Session) takeExit() series.Exit {
	e := s.left
	s.left = series.Exit{}
	return e
}
