package play

import (
	"fmt"
	"testing"

	"perigee/internal/kit/clock"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/spmd"
)

// A rank that is ready after the instant starts at once, and the run says by how much it was late.
func TestLateStartIsCounted(t *testing.T) {
	m := fromRows(t, []int64{0, 9}, []int64{9, 0})
	mustRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		p, err := New(s, load.Clocked{Load: load.Pattern{Matrix: m, Shards: 1}})
		if err != nil {
			return err
		}
		const late = 1_000_000
		for _, ahead := range []int64{-late, late} {
			instant := clock.Now() + ahead
			if err := p.runPart(p.parts[0], 1, true, before{agreed: series.Agreed{NS: instant}}); err != nil {
				return err
			}
			got := p.TakeLogs()[0][0]
			if got.Start < instant || got.Agreed.NS != instant || (got.Agreed.Late >= late) != (ahead < 0) {
				return fmt.Errorf("%d ns ahead: started %d after the instant, late by %d", ahead, got.Start-instant, got.Agreed.Late)
			}
		}
		return nil
	})
}

// Ranks of which only some start by the clock would wait for each other.
func TestAllRanksStartAlike(t *testing.T) {
	m := matrix.New(2)
	for _, err := range tryRanks(t, 2, func(w *spmd.World, s *session.Session) error {
		var l load.Load = load.Pattern{Matrix: m, Shards: 1}
		if w.Rank() == 1 {
			l = load.Clocked{Load: l}
		}
		_, err := New(s, l)
		return err
	}) {
		if err == nil {
			t.Error("a rank accepted that the other starts in another way")
		}
	}
}
