package experiment

import (
	"math"

	"perigee/internal/result"
	"perigee/internal/traffic/play"
)

// thinning bounds the memory of a job that runs for a given time, however many runs it makes: of each stretch of runs
// of a plan only the first ones are kept in the result, and all count in its totals. A stretch begins at a run that is
// marked as filled, or where what is kept changes.
type thinning struct {
	most    int         // of a stretch
	since   map[int]int // by plan, the runs of the stretch at hand
	gone    map[int]bool
	all     map[runKey]*result.Totals
	list    []*result.Totals // all of them, in the order in which they came
	dropped bool
}

func newThinning() thinning {
	return thinning{most: math.MaxInt, since: map[int]int{}, gone: map[int]bool{}, all: map[runKey]*result.Totals{}}
}

// Keep says that of each stretch of runs that follow each other only so many are kept in the result from now on, if
// they have not been gathered yet. All ranks call it with the same number.
func (e *Experiment) Keep(most int) {
	e.thin.most = most
	clear(e.thin.since)
}

// totals are those of a pattern in a phase.
func (t *thinning) totals(key runKey) *result.Totals {
	of := t.all[key]
	if of == nil {
		of = &result.Totals{Pattern: key.plan, Phase: key.phase}
		t.all[key], t.list = of, append(t.list, of)
	}
	return of
}

// chosen are the runs that are kept, of those gathered at once: their numbers, and whether others were left out before
// each.
type chosen map[int]bool

// of chooses.
func (t *thinning) of(plan int, c play.Collected) chosen {
	n := len(c.Runs)
	for _, s := range c.Storage { // a plan may have nothing else
		n = max(n, s.Iteration+1)
	}
	list := chosen{}
	for i := range n {
		if i < len(c.Runs) && c.Runs[i].Filled {
			t.since[plan] = 0
		}
		t.since[plan]++
		if t.since[plan] > t.most {
			t.gone[plan], t.dropped = true, true
			continue
		}
		list[i] = t.gone[plan]
		t.gone[plan] = false
	}
	return list
}

func (k chosen) has(i int) bool   { _, ok := k[i]; return ok }
func (k chosen) after(i int) bool { return k[i] }

// only returns what is kept of what was gathered. Runs of files count anew.
func (k chosen) only(c play.Collected) play.Collected {
	out := play.Collected{Mixed: c.Mixed}
	number, n := map[int]int{}, 0
	for i := range c.Runs {
		if k.has(i) {
			out.Runs = append(out.Runs, c.Runs[i])
		}
	}
	for _, s := range c.Storage {
		for ; n <= s.Iteration; n++ {
			if k.has(n) {
				number[n] = len(number)
			}
		}
	}
	for _, s := range c.Storage {
		if k.has(s.Iteration) {
			s.Iteration = number[s.Iteration]
			out.Storage = append(out.Storage, s)
		}
	}
	return out
}

// Totals are all runs of plans in the phase that is now, at rank 0: an entry for each, nil where it has none there.
func (e *Experiment) Totals(plans []*play.Plan) []*result.Totals {
	list := make([]*result.Totals, len(plans))
	for i, p := range plans {
		list[i] = e.thin.all[runKey{p.Number, e.World.CurrentPhase()}]
	}
	return list
}
