package experiment

import (
	"cmp"
	"io"

	"perigee/internal/kit/stats"
	"perigee/internal/result"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// ceilingSizes are the bytes of the messages with which the ceiling is measured: one after the other, until the next
// one would take too long or too much memory.
var ceilingSizes = []int64{64 << 10, 512 << 10, 4 << 20, 32 << 20, 64 << 20}

const (
	ceilingWarmups = 2
	ceilingRuns    = 7
	ceilingTime    = 2.0 // seconds that these may take together
)

// ceilingPlan says which message the ceiling is that of.
type ceilingPlan struct {
	Sender, Receiver int
	Op               nixl.Op
	Mem              nixl.Mem
	Unknown          string // why there is none
}

// measureCeiling measures the rate of one large message where --ceiling asks for it. All ranks call it after the end of
// the session, so that paths and accounts are those of the run alone. What cannot be measured is a note; an error is
// one of the job.
func (e *Experiment) measureCeiling() error {
	switch {
	case !e.Job.Ceiling:
		return nil
	case e.session == nil:
		e.Note("the ceiling is not known: the run has moved nothing")
		return nil
	}
	e.looks.phase = "" // what lies between the run and the ceiling is no part of it
	e.BeginPhase(result.CeilingPhase)
	if e.Doc != nil && e.Doc.Line == nil {
		e.Doc.Line = &result.Line{From: oneHost}
	}
	plan, err := spmd.BroadcastValue(e.World.All(), 0, e.planCeiling())
	if err != nil {
		return err
	}
	var c *result.Ceiling
	if plan.Unknown == "" {
		if c, plan.Unknown, err = e.ceiling(plan); err != nil {
			return err
		}
	}
	if plan.Unknown != "" {
		e.Note("the ceiling is not known: " + plan.Unknown)
	} else if e.Doc != nil {
		e.Doc.Line.Ceiling = c
		io.WriteString(e.Out, Comment("ceiling: "+e.Doc.CeilingText()))
	}
	return e.gatherWindows()
}

// planCeiling takes the operation, the memory and the ranks of the largest message of the run between hosts, or inside
// the only host. Where the result has none it takes the first ranks of two hosts, and writes host memory.
func (e *Experiment) planCeiling() (p ceilingPlan) {
	if e.Doc == nil {
		return p
	}
	w, largest := e.World, int64(0)
	for _, pattern := range e.Doc.Patterns {
		for _, cell := range e.Doc.Matrices[pattern.Matrix].Cells {
			from, to := int(cell[0]), int(cell[1])
			if cell[2] <= largest || from == to || !w.OneHost() && w.HostOf(from) == w.HostOf(to) {
				continue
			}
			largest, p.Sender, p.Receiver = cell[2], from, to
			p.Op, _ = nixl.ParseOp(pattern.Op)
			p.Mem, _ = nixl.ParseMem(pattern.Mem)
		}
	}
	if largest == 0 && len(e.Doc.Lanes) > 0 {
		m := e.Doc.Lanes[0].Measurement
		p.Op, _ = nixl.ParseOp(m.Op)
		p.Mem, _ = nixl.ParseMem(m.Local)
	}
	if hosts := w.Hosts(); largest == 0 && len(hosts) > 1 {
		p.Sender, p.Receiver = hosts[0].Ranks[0], hosts[1].Ranks[0]
	} else if largest == 0 {
		p.Receiver = 1
	}
	if _, files := e.engine.(nixl.FilesOnly); files {
		p.Unknown = "the backend reaches files only"
	} else if w.Size() == 1 {
		p.Unknown = "there is one rank"
	}
	return p
}

// ceiling runs one message between two ranks: in growing sizes, each twice, and the last one as often as it counts. All
// ranks get the same.
func (e *Experiment) ceiling(p ceilingPlan) (c *result.Ceiling, unknown string, err error) {
	s, err := session.Open(e.World, e.engine, e.agent, e.Seed)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	loads, err := ceilingLoads(e.World.Size(), p)
	if err != nil {
		return nil, "", err
	}
	for {
		fits, err := s.Fits(loads)
		if err != nil {
			return nil, "", err
		} else if fits {
			break
		}
		if loads = loads[:len(loads)-1]; len(loads) == 0 {
			return nil, "there is no memory for one large message", nil
		}
	}
	plans, err := play.Prepare(s, loads)
	if err != nil {
		return nil, "", err
	}
	const all = ceilingWarmups + ceilingRuns
	for i, plan := range plans {
		if c, unknown, err = e.timeMessage(p, plan, ceilingSizes[i], 1, 1); c == nil {
			return nil, unknown, err
		}
		if i+1 == len(plans) || float64(all*ceilingSizes[i+1])/c.Rate > ceilingTime {
			return e.timeMessage(p, plan, ceilingSizes[i], ceilingWarmups, ceilingRuns)
		}
	}
	return nil, "", nil // there is a last plan
}

// ceilingLoads makes a load for each size.
func ceilingLoads(ranks int, p ceilingPlan) (loads []load.Load, err error) {
	for _, bytes := range ceilingSizes {
		m := matrix.New(ranks)
		if err := m.Set(p.Sender, p.Receiver, bytes); err != nil {
			return nil, err
		}
		loads = append(loads, load.Pattern{Name: "the ceiling", Matrix: m, Mem: p.Mem, Op: p.Op, Shards: 1})
	}
	return loads, nil
}

// timeMessage runs a message some times and then as often as it counts. What goes wrong at its initiator is the reason
// why the rate is not known.
func (e *Experiment) timeMessage(p ceilingPlan, plan *play.LoadPlan, bytes int64, warmups, runs int) (
	c *result.Ceiling, unknown string, err error) {
	type timed struct {
		NS     float64
		Failed string
	}
	var mine timed
	if err := plan.Run(warmups+runs, true); err != nil {
		mine.Failed = err.Error()
	}
	for _, log := range plan.TakeLogs() {
		var times []float64
		for _, k := range log[min(warmups, len(log)):] {
			times = append(times, float64(max(k.End-k.Start, 1)))
		}
		if len(times) > 0 {
			mine.NS = stats.Median(times)
		}
	}
	initiator := p.Sender
	if p.Op == nixl.Read {
		initiator = p.Receiver
	}
	t, err := spmd.BroadcastValue(e.World.All(), initiator, mine)
	if err != nil || t.Failed != "" || t.NS == 0 {
		return nil, cmp.Or(t.Failed, "no message was timed"), err
	}
	return &result.Ceiling{Sender: p.Sender, Receiver: p.Receiver, Op: p.Op.String(), Mem: p.Mem.String(), Bytes: bytes,
		Runs: runs, Rate: float64(bytes) / t.NS * 1e9}, "", nil
}
