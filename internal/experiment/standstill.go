package experiment

import (
	"fmt"
	"slices"
	"time"

	"perigee/internal/result"
	"perigee/spmd"
)

// noteStandstills says at rank 0 which ranks stood still for seconds: what was measured then has that in it. All ranks
// call it.
func (e *Experiment) noteStandstills() error {
	all, err := spmd.GatherValue(e.World.All(), 0, e.World.Standstills())
	if err != nil || e.Doc == nil {
		return err
	}
	ranks := e.World.All().Ranks()
	for _, note := range stoodStill(all, func(at int) string {
		return fmt.Sprintf("rank %d on %s", ranks[at], e.World.HostName(ranks[at]))
	}) {
		e.Note(note)
	}
	return nil
}

// notedStandstills is how many notes there are. Where a host was frozen all of its ranks stood still.
const notedStandstills = 4

// stoodStill returns notes on the standstills of ranks, the longest first. name names the rank of a place in all.
func stoodStill(all [][]spmd.Standstill, name func(at int) string) (notes []string) {
	type rankStill struct {
		at int
		spmd.Standstill
	}
	var list []rankStill
	for at, own := range all {
		for _, s := range own {
			list = append(list, rankStill{at, s})
		}
	}
	slices.SortStableFunc(list, func(a, b rankStill) int { return int(b.NS/1e8 - a.NS/1e8) })
	for i, s := range list {
		if i == notedStandstills {
			return append(notes, result.MoreStandstills(len(list)-i))
		}
		notes = append(notes, result.StandstillNote(name(s.at), time.Duration(s.NS), s.Phase))
	}
	return notes
}
