package experiment

import (
	"math"

	"perigee/internal/result"
	"perigee/internal/traffic/play"
)

// thinning bounds the memory of a job that runs for a given time, however many runs it makes: only some are kept in the
// result, and all count in its totals.
type thinning struct {
	most     int          // runs of each plan to keep from the last Keep on
	recorded map[int]int  // by plan, runs since then that this rank has begun to record
	gathered map[int]int  // by plan, runs since then that were gathered, at rank 0
	gone     map[int]bool // by plan, whether runs were left out since the last that is kept
	all      map[runKey]*result.Totals
	list     []*result.Totals // all of them, in the order in which they came
	dropped  bool
}

func newThinning() thinning {
	return thinning{most: math.MaxInt, recorded: map[int]int{}, gathered: map[int]int{}, gone: map[int]bool{},
		all: map[runKey]*result.Totals{}}
}

// Keep says that of the runs of each plan that are gathered from now on, until the next call, only the first ones are
// kept in the result. All ranks call it with the same number.
func (e *Experiment) Keep(most int) {
	e.thin.most = most
	clear(e.thin.recorded)
	clear(e.thin.gathered)
}

// staying counts those that are kept of runs which are about to be recorded.
func (t *thinning) staying(plan int, runs int64) int64 {
	runs = min(runs, int64(t.most-t.recorded[plan]))
	t.recorded[plan] += int(runs)
	return runs
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
		if t.gathered[plan] >= t.most {
			t.gone[plan], t.dropped = true, true
			continue
		}
		t.gathered[plan]++
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
func (e *Experiment) Totals(plans []*play.LoadPlan) []*result.Totals {
	list := make([]*result.Totals, len(plans))
	for i, p := range plans {
		list[i] = e.thin.all[runKey{p.Number, e.World.CurrentPhase()}]
	}
	return list
}
