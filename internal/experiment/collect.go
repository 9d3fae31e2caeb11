package experiment

import (
	"fmt"
	"slices"
	"time"

	"perigee/internal/figures/metric"
	"perigee/internal/result"
	"perigee/internal/traffic/overlap"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/series"
	"perigee/spmd"
)

// runKey is the runs of a plan in a phase.
type runKey struct {
	plan  int
	phase string
}

// Collect gathers the recorded runs of plans, which lie in the session. All ranks call it. At rank 0 it adds them to
// the result, each under the phase in which it ran, and returns them with those that SaveRuns has gathered, one entry
// per plan; nil at the others. A plan's number is its place among the patterns of the result.
func (e *Experiment) Collect(plans []*play.LoadPlan) ([]play.Collected, error) {
	there, err := e.gather(plans)
	for _, p := range e.intervals {
		p.Begin()
	}
	if err != nil || !there {
		return nil, err
	}
	all := make([]play.Collected, len(plans))
	for i, p := range plans {
		all[i] = e.early[p.Number]
		delete(e.early, p.Number)
	}
	e.Checkpoint()
	return all, e.hold(e.sampled(e.allKnown(plans)))
}

// Where a threshold says abort, runs are gathered as often as this, and as many times as long as that takes passes
// between: the job is to end within a second.
const (
	abortLook  = 400 * time.Millisecond
	abortShare = 10
)

// SaveRuns gathers like Collect, if it is time: every second for the same plans. All ranks call it equally often
// between runs of the plans, which may go on. With gap set the time that the ranks spend here is marked as no part of
// runs that follow each other at once. With now set it is time: to gather many short runs takes longer than to play
// them.
func (e *Experiment) SaveRuns(plans []*play.LoadPlan, gap, now bool) error {
	due, met, err := e.due(plans)
	due, met = due || now, met || now
	if err != nil || !met {
		return err
	}
	if gap {
		for _, p := range plans {
			p.MarkGap()
		}
	}
	if !due {
		return nil
	}
	there, err := e.gather(plans) // which takes no longer than it would in the end
	if err != nil || !there {
		return err
	}
	e.Checkpoint()
	return e.sampled(e.allKnown(plans))
}

// allKnown reports whether no other run may have been at the same time as those of plans that have just been gathered:
// they are all plans, and none is under way.
func (e *Experiment) allKnown(plans []*play.LoadPlan) bool {
	return len(plans) == len(e.Doc.Patterns) && !slices.ContainsFunc(plans, (*play.LoadPlan).UnderWay)
}

// due reports, as [spmd.Interval.Due] does, whether these plans are to be saved. Plans that separate calls save have an
// interval each: one for all might be due in the calls for the same plans always.
func (e *Experiment) due(plans []*play.LoadPlan) (due, met bool, err error) {
	numbers := make([]int, len(plans))
	for i, p := range plans {
		numbers[i] = p.Number
	}
	key := fmt.Sprint(numbers)
	if interval := e.intervals[key]; interval != nil {
		return interval.Due(e.World.All())
	}
	e.intervals[key] = &spmd.Interval{}
	if slices.ContainsFunc(e.Thresholds, func(t metric.Threshold) bool { return t.AbortAfter > 0 }) {
		e.intervals[key].Every, e.intervals[key].Share = abortLook, abortShare
	}
	e.intervals[key].Begin() // the time until the next call is that of one
	return false, false, nil
}

// gather brings recorded runs to rank 0 and adds them to the result and to e.early there, which it reports. It may be
// that there are none.
func (e *Experiment) gather(plans []*play.LoadPlan) (there bool, err error) {
	s, err := e.Session()
	if err != nil {
		return false, err
	}
	if e.Doc != nil {
		defer e.store()()
	}
	all, err := play.Collect(s, plans)
	if err != nil || all == nil {
		return false, err
	}
	for i, c := range all {
		plan := plans[i].Number
		saved := e.early[plan]
		saved.Add(e.addRuns(plan, c))
		e.early[plan] = saved
		if c.Mixed != "" && !e.notedMixed {
			e.notedMixed = true
			e.Note(c.Mixed + ": runs count for the phase of their first initiator; all ranks call world.phase")
		}
	}
	return true, e.markOverlaps()
}

// addRuns adds to the result what a plan has recorded, by the phases in which it ran, and returns what of it is kept.
func (e *Experiment) addRuns(plan int, c play.Collected) play.Collected {
	kept := e.thin.of(plan, c)
	beside := map[int][]series.StorageRun{}
	for _, s := range c.Storage {
		beside[s.Iteration] = append(beside[s.Iteration], s)
	}
	fresh := map[*result.Totals]bool{}
	for i, r := range c.Runs {
		key := runKey{plan, r.Phase}
		t := e.thin.totals(key)
		m := result.Measure(plan, r.Phase, t.Runs, r)
		t.Add(&m, beside[i])
		fresh[t] = true
		if kept.has(i) {
			t.Kept++
			m.Filled = m.Filled || kept.after(i)
			c.Runs[i].Filled = m.Filled
			e.Doc.Measurements = append(e.Doc.Measurements, m)
		} else if e.board != nil {
			e.board.Count(e.Doc, &m)
		}
	}
	for t := range fresh {
		t.Settle()
	}
	if e.thin.dropped {
		e.Doc.Totals = e.thin.list
	}
	c = kept.only(c)
	type half struct {
		rank  int
		op    string
		phase string
	}
	count, phases, storage := map[half]int{}, []string{}, map[string][]series.StorageRun{}
	for _, s := range c.Storage {
		h := half{s.Rank, s.Op, s.Phase}
		s.Iteration, count[h] = count[h], count[h]+1
		if storage[s.Phase] == nil {
			phases = append(phases, s.Phase)
		}
		storage[s.Phase] = append(storage[s.Phase], s)
	}
	for _, phase := range phases {
		e.Doc.AddStorage(plan, phase, storage[phase])
	}
	return c
}

// markOverlaps notes which messages ran at the same time, among all that were collected or saved.
func (e *Experiment) markOverlaps() error {
	hosts := overlap.Hosts{Of: make([]int, e.World.Size()), Uncertainty: make([]int64, len(e.World.Hosts()))}
	for rank := range hosts.Of {
		hosts.Of[rank] = e.World.HostOf(rank)
	}
	for h := range hosts.Uncertainty {
		hosts.Uncertainty[h] = e.World.ClockUncertainty(h)
	}
	err := e.timeline.Mark(e.World.Context(), len(e.Doc.Measurements), func(i int) overlap.PatternRun {
		m := &e.Doc.Measurements[i]
		return overlap.PatternRun{Run: &m.Run, Pattern: m.Pattern, Read: e.Doc.Patterns[m.Pattern].Op == "READ"}
	}, hosts)
	e.journal.changed = append(e.journal.changed, e.timeline.Changed...)
	e.Doc.Overlaps = err == nil // that some have none says nothing else
	return err
}
