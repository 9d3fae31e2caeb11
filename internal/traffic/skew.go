package traffic

import (
	"encoding/binary"

	"perigee/internal/clock"
	"perigee/nixl"
	"perigee/spmd"
)

// Ranks that leave a barrier together do not leave it at the same moment. How far
// apart they are tells how good the start of a measurement is. Each stamps its exit
// where no time is measured, and the stamp travels with those of the run that
// follows.

// exit is when this rank left a barrier, by its host's clock. Barrier tells
// barriers apart; 0 is none.
type exit struct {
	Barrier uint64
	NS      int64
}

// logged is a recorded run, and the barrier before it, if there was one since the
// run before.
type logged struct {
	nixl.Times
	Left exit
}

// Met notes that this rank has just left a barrier of a group.
func (s *Session) Met(g *spmd.Group) {
	s.left = exit{g.Meeting(), clock.Now()}
}

// takeExit returns the exit since the run before.
func (s *Session) takeExit() exit {
	e := s.left
	s.left = exit{}
	return e
}

func (e exit) encode(b []byte, start int64) []byte {
	b = binary.AppendUvarint(b, e.Barrier)
	if e.Barrier == 0 {
		return b
	}
	return binary.AppendVarint(b, e.NS-start)
}

func (d *decoder) exit(start int64) exit {
	e := exit{Barrier: d.unsigned()}
	if e.Barrier != 0 {
		e.NS = start + d.signed()
	}
	return e
}

// measureSkew sets a run's skew, if two or more initiators have left the same
// barrier before it. exits are in the order of the run's ranks.
func (r *PatternRun) measureSkew(exits []exit) {
	if len(exits) < 2 {
		return
	}
	first, last := exits[0].NS, exits[0].NS
	for _, e := range exits {
		if e.Barrier == 0 || e.Barrier != exits[0].Barrier {
			return
		}
		first, last = min(first, e.NS), max(last, e.NS)
	}
	skew := last - first
	r.BarrierExitSkewNS = &skew
}
