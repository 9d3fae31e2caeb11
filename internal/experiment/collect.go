package experiment

import (
	"perigee/internal/traffic/overlap"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/record"
	"perigee/nixl"
)

// runKey counts the runs of a plan in a phase.
type runKey struct {
	plan  int
	phase string
}

// Collect gathers the recorded runs of plans, which lie in the session. All ranks call it. At rank 0 it adds them to
// the result under the current phase and returns them with those that SaveRuns has gathered, one entry per plan; nil at
// the others. A plan's number is its place among the patterns of the result.
func (e *Experiment) Collect(plans []*play.Plan) ([]record.Collected, error) {
	all, err := e.gather(plans)
	e.pace.Begin()
	if err != nil || all == nil {
		return nil, err
	}
	for i, p := range plans {
		saved := e.early[p.Number]
		delete(e.early, p.Number)
		saved.Add(all[i])
		all[i] = saved
	}
	e.Checkpoint()
	return all, e.Sampled()
}

// SaveRuns gathers like Collect, if it is time: every two seconds. The result is saved as CheckpointSparingly does. All
// ranks call it equally often between runs of the plans, which may go on. With gap set the time that
// the ranks spend here is marked as no part of runs that follow each other at once.
func (e *Experiment) SaveRuns(plans []*play.Plan, gap bool) error {
	due, met, err := e.pace.Due(e.World.All())
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
	all, err := e.gather(plans) // which takes no longer than it would in the end
	if err != nil || all == nil {
		return err
	}
	for i, p := range plans {
		saved := e.early[p.Number]
		saved.Add(all[i])
		e.early[p.Number] = saved
	}
	e.CheckpointSparingly()
	return e.Sampled()
}

// gather brings recorded runs to rank 0 and adds them to the result there.
func (e *Experiment) gather(plans []*play.Plan) ([]record.Collected, error) {
	s, err := e.Session()
	if err != nil {
		return nil, err
	}
	all, err := record.Collect(s, plans)
	if err != nil || all == nil {
		return nil, err
	}
	e.markOverlaps(all, plans)
	phase := e.World.CurrentPhase()
	for i, c := range all {
		key := runKey{plans[i].Number, phase}
		e.Doc.AddRuns(key.plan, phase, e.recorded[key], c.Runs)
		e.recorded[key] += len(c.Runs)
		e.Doc.AddStorage(key.plan, phase, c.Storage)
	}
	return all, nil
}

// markOverlaps notes which messages of the plans ran at the same time.
func (e *Experiment) markOverlaps(all []record.Collected, plans []*play.Plan) {
	hosts := overlap.Hosts{Of: make([]int, e.World.Size()), Uncertainty: make([]int64, len(e.World.Hosts()))}
	for rank := range hosts.Of {
		hosts.Of[rank] = e.World.HostOf(rank)
	}
	for h := range hosts.Uncertainty {
		hosts.Uncertainty[h] = e.World.ClockUncertainty(h)
	}
	patterns := make([]overlap.Pattern, len(all))
	for i, c := range all {
		patterns[i] = overlap.Pattern{Runs: c.Runs, Read: reads(plans[i])}
	}
	overlap.Mark(patterns, hosts)
	e.Doc.Overlaps = true
}

// reads reports whether the initiators of a plan are its receivers.
func reads(p *play.Plan) bool {
	for _, rank := range p.Initiators {
		for _, lane := range p.Reserved.Lanes {
			for _, post := range p.Posts(nil, rank, lane.Number) {
				if post.Peer != nixl.Self {
					return post.Op == nixl.Read
				}
			}
		}
	}
	return false
}
