package play

import (
	"errors"
	"fmt"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/series"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// Collected holds the runs that one plan recorded since it was last collected.
type Collected struct {
	Runs    []series.Run
	Storage []series.StorageRun
	// Mixed says of a run that its initiators were in different phases; empty for none.
	Mixed string
}

// Add appends what was recorded after c, before it was last collected.
func (c *Collected) Add(more Collected) {
	first := 0
	for _, s := range c.Storage {
		first = max(first, s.Iteration+1)
	}
	for _, s := range more.Storage {
		s.Iteration += first
		c.Storage = append(c.Storage, s)
	}
	c.Runs = append(c.Runs, more.Runs...)
}

// Collect gathers the recorded runs of plans, each of them once, in their order. A plan that is there twice, or that
// the ranks have not run equally often, is an error of the kind Script.
func Collect(s *session.Session, plans []*LoadPlan) ([]Collected, error) {
	w := s.World()
	// The runs lie between the last comparison of the clocks and this one.
	if err := w.SyncClocks(); err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, p := range plans {
		if seen[p.Number] {
			return nil, fault.New(fault.Script, "collect: %s is there twice", p.Label())
		}
		seen[p.Number] = true
	}
	looks, logs, err := gather(s, plans)
	if err != nil || logs == nil {
		return nil, err
	}
	list := make([]Collected, len(plans))
	first := 0 // the plan's first log
	for i, p := range plans {
		log := func(rank, lane int) []series.Logged { return logs[rank][first+lane] }
		if list[i], err = assemble(w, p, log); err != nil {
			return nil, err
		}
		first += len(p.Reserved.Lanes)
	}
	addWaits(s, list, looks)
	return list, nil
}

// gather takes the logs of plans to rank 0, by rank, then by plan and lane, and what each rank has seen of its
// threads. The other ranks get nil, and not before rank 0 has all: what they do wrong next ends the job, and rank 0
// keeps what it has.
func gather(s *session.Session, plans []*LoadPlan) (looks [][]series.Look, logs [][][]series.Logged, err error) {
	w := s.World()
	var mine []series.Log
	for _, p := range plans {
		for _, log := range p.TakeLogs() {
			mine = append(mine, series.Log{Plan: p.Number, Runs: log})
		}
	}
	all, err := w.All().Gather(0, series.EncodeLogs(s.Waits.Take(), mine))
	if err != nil {
		return nil, nil, err
	}
	err = w.All().Barrier()
	if all == nil {
		return nil, nil, err
	}
	// Rank 0 meets a failure later: all is here.
	looks, logs = make([][]series.Look, len(all)), make([][][]series.Logged, len(all))
	for r, data := range all {
		if looks[r], logs[r], err = series.DecodeLogs(data, shapes(plans, r)); err != nil {
			return nil, nil, foreign(r, err)
		}
	}
	return looks, logs, nil
}

func shapes(plans []*LoadPlan, rank int) (list []series.Shape) {
	var posts []load.Post
	for _, p := range plans {
		for _, b := range p.Reserved.Lanes {
			posts = p.Posts(posts[:0], rank, b.Number)
			list = append(list, series.Shape{Plan: p.Number, Transfers: len(posts)})
		}
	}
	return list
}

// foreign words an error in what a rank has sent.
func foreign(rank int, err error) error {
	if errors.Is(err, series.ErrPlans) {
		return fault.New(fault.Script, "collect: times from rank %d: %w", rank, err).
			WithHint("all ranks must collect the same plans in the same order")
	}
	return fault.New(fault.Internal, "collect: times from rank %d: %w", rank, err)
}

// recorded lists the pieces that one rank posted on one lane.
type recorded struct {
	rank  int
	posts []load.Post
	log   []series.Logged
}

// assemble joins the runs of all ranks of one plan.
func assemble(w *spmd.World, p *LoadPlan, log func(rank, lane int) []series.Logged) (c Collected, err error) {
	var messages []recorded
	for _, rank := range p.Actors {
		for i, b := range p.Reserved.Lanes {
			switch k := (recorded{rank, p.Posts(nil, rank, b.Number), log(rank, i)}); {
			case len(k.posts) == 0:
			case k.posts[0].Peer == nixl.Self:
				c.Storage = append(c.Storage, k.storageRuns(w)...)
			default:
				messages = append(messages, k)
			}
		}
	}
	c.Runs, c.Mixed, err = join(w, p, messages)
	return c, err
}

// join makes runs of the parts of all initiators. mixed is as in Collected.
func join(w *spmd.World, p *LoadPlan, parts []recorded) (runs []series.Run, mixed string, err error) {
	if len(parts) == 0 {
		return nil, "", nil
	}
	n := len(parts[0].log)
	runs = make([]series.Run, n)
	exits := make([][]series.Exit, n)
	for _, k := range parts {
		if len(k.log) != n {
			return nil, "", fault.New(fault.Script,
				"%s: rank %d has run it %d times since the last collect, rank %d %d times",
				p.Label(), parts[0].rank, n, k.rank, len(k.log)).
				WithHint("all initiators of a pattern must run it equally often")
		}
		for i, t := range k.log {
			runs[i].Add(k.rankRun(w, t))
			runs[i].Filled = runs[i].Filled || t.Filled
			switch r := &runs[i]; {
			case len(r.Ranks) == 1:
				r.Phase = t.Phase
			case r.Phase != t.Phase && mixed == "":
				mixed = fmt.Sprintf("rank %d was in the phase %s when it ran %s, rank %d in %s", r.Ranks[0].Rank, r.Phase, p.Label(),
					k.rank, t.Phase)
			}
			if t.Agreed.NS != 0 {
				// Every rank has the same instant, by its own clock.
				agreed := w.ToCommon(k.rank, t.Agreed.NS)
				runs[i].AgreedNS = &agreed
			}
			exits[i] = append(exits[i], series.Exit{Barrier: t.Left.Barrier, NS: w.ToCommon(k.rank, t.Left.NS)})
		}
	}
	for i := range runs {
		runs[i].Complete(w.Uncertainty(p.Initiators), exits[i])
	}
	return runs, mixed, nil
}

func (k recorded) rankRun(w *spmd.World, t series.Logged) series.RankRun {
	r := series.RankRun{
		Rank: k.rank, StartNS: w.ToCommon(k.rank, t.Start), PostNS: w.ToCommon(k.rank, t.Posted),
		EndNS: w.ToCommon(k.rank, t.End), LateNS: t.Agreed.Late,
	}
	for i, o := range k.posts {
		r.Bytes += o.Bytes
		r.Peers = append(r.Peers, series.PeerRun{Peer: o.Peer, Bytes: o.Bytes, EndNS: w.ToCommon(k.rank, t.Done[i])})
	}
	return r
}

// storageRuns puts one rank's runs of its storage operation on the common time line.
func (k recorded) storageRuns(w *spmd.World) (list []series.StorageRun) {
	for i, run := range k.log {
		for j, o := range k.posts {
			list = append(list, series.StorageRun{
				Rank: k.rank, Op: o.Op.String(), Iteration: i, Bytes: o.Bytes,
				StartNS: w.ToCommon(k.rank, run.Start), EndNS: w.ToCommon(k.rank, run.Done[j]), Phase: run.Phase,
			})
		}
	}
	return list
}

// Measure runs a plan repeatedly and joins what the lanes of all ranks measured. The fields
// that describe the load are the caller's to fill in.
func Measure(p *LoadPlan, r Repeat) (*series.Measurement, error) {
	w := p.Session().World()
	j := &joined{plan: p, repeat: r, ranks: make([]series.Distribution, w.Size())}
	var meanwhile gatherer
	if r.Save != nil {
		lanes, err := spmd.AllReduce(w.All(), []int{len(p.parts)}, spmd.Sum)
		if err != nil {
			return nil, err
		}
		j.lanes = lanes[0]
		meanwhile = j.save
	}
	rest, err := p.measureOwn(r, meanwhile)
	if err != nil {
		return nil, err
	}
	if err := w.SyncClocks(); err != nil {
		return nil, err
	}
	there, _, err := j.gather(rest)
	if err != nil || !there {
		return nil, err
	}
	return j.figures(), nil
}

// joined is what the lanes of all ranks have measured so far, at rank 0.
type joined struct {
	plan   *LoadPlan
	repeat Repeat
	lanes  int // of all ranks
	ranks  []series.Distribution
}

// gather adds what is new at all ranks at rank 0, where it reports true, and since when it has all. CPU times are those
// of all so far.
func (j *joined) gather(mine *series.Distribution) (there bool, since int64, err error) {
	all, err := j.plan.Session().World().All().Gather(0, mine.Encode())
	if err != nil || all == nil {
		return false, 0, err
	}
	since = clock.Now()
	for rank, data := range all {
		d, err := series.DecodeDistribution(data)
		if err != nil {
			return false, 0, foreign(rank, err)
		}
		j.ranks[rank].CPU = 0 // the new one has it
		j.ranks[rank].Merge(d)
	}
	return true, since, nil
}

// save is a gatherer that hands the figures so far to the caller of Measure, if there are some and not all.
func (j *joined) save(mine *series.Distribution) (took int64, err error) {
	there, since, err := j.gather(mine)
	if err != nil || !there {
		return 0, err
	}
	m := j.figures()
	if n := int(m.Latency.Count / int64(j.lanes)); n > 0 && n < j.repeat.Iterations {
		m.Iterations, m.Asked = n, j.repeat.Iterations
		err = j.repeat.Save(m)
	}
	return clock.Now() - since, err
}

// figures works them out.
func (j *joined) figures() *series.Measurement {
	w, r := j.plan.Session().World(), j.repeat
	m := &series.Measurement{
		Iterations: r.Iterations, Recreate: r.Recreate, UncertaintyNS: w.Uncertainty(j.plan.Actors),
	}
	var sum series.Distribution
	for rank := range j.ranks {
		d := j.ranks[rank]
		own := series.RankPart{Rank: rank, Bytes: d.Bytes, CPUSeconds: d.CPU}
		if d.Start != 0 {
			own.StartNS, own.EndNS = w.ToCommon(rank, d.Start), w.ToCommon(rank, d.End)
			d.Start, d.End = own.StartNS, own.EndNS
		}
		sum.Merge(&d)
		m.Ranks = append(m.Ranks, own)
	}
	m.StartNS, m.EndNS, m.Bytes, m.CPUSeconds = sum.Start, sum.End, sum.Bytes, sum.CPU
	m.Bandwidth = float64(m.Bytes) / (float64(max(m.EndNS-m.StartNS, 1)) * 1e-9)
	m.Latency, m.Prep, m.Post, m.Tx = sum.Latency.Stats(), sum.Prep.Stats(), sum.Post.Stats(), sum.Tx.Stats()
	return m
}
