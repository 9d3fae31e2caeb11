package experts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/stats"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// Elastic plays a plan in which ranks join, leave and are killed. A rank keeps its connections from phase to phase:
// it connects to ranks that are new, and disconnects from those that have left. In each phase a dispatch and a combine
// are checked, and then iterations are timed.
//
// A rank that is killed ends its process in the middle of an operation: no other rank is told. The others notice that
// a transfer with it fails, or that its notification does not come within Patience. They mask its tokens and experts,
// disconnect from it, and do the phase again without it. A rank that comes back in a later phase, and rank 0, which
// keeps the result, only fall silent: such a rank posts nothing more, notifies no rank, and answers nothing, and its
// process goes on.
type Elastic struct {
	Plan       []PlanPhase
	Spec       Spec // of all ranks; who is absent is masked
	Warmup     int
	Iterations int
	Patience   time.Duration
	// Exit ends the process of a rank that is killed; it does not return. Where it is nil such ranks only fall silent.
	Exit func()
	// Each, if it is set, gets the outcome of each phase at rank 0 when it is over: what is measured until then is not
	// lost if a later one fails.
	Each func(PhaseOutcome) error
}

// errSilent ends what a rank does in a phase in which it is killed.
var errSilent = errors.New("this rank falls silent")

// Episode records a phase at one rank.
type Episode struct {
	Present    bool    `json:"present"`
	Silent     bool    `json:"silent,omitempty"` // it was killed in this phase
	ConnectMS  float64 `json:"connect_ms"`
	Joined     int     `json:"joined"`      // peers it connected to
	Left       int     `json:"left"`        // peers it disconnected from
	DetectedMS float64 `json:"detected_ms"` // until it knew of the last one that was killed
	Messages   int64   `json:"messages"`    // checked at all ranks
	// Of the measured iterations of this rank: dispatch and combine together, and apart.
	MeanUS     float64 `json:"mean_us"`
	MinUS      float64 `json:"min_us"`
	MaxUS      float64 `json:"max_us"`
	DispatchUS float64 `json:"dispatch_us"`
	CombineUS  float64 `json:"combine_us"`
	// Bytes by assignment over these means, as [RankFigures] has them, in 1e9 bytes per second.
	Bandwidth         float64 `json:"gb_per_s"`
	DispatchBandwidth float64 `json:"dispatch_gb_per_s"`
	CombineBandwidth  float64 `json:"combine_gb_per_s"`
}

// PhaseOutcome sums up a phase over all ranks. It is at rank 0.
type PhaseOutcome struct {
	Present  []int     `json:"present"`
	Masked   []int     `json:"masked"` // dead at the end of the phase
	Killed   []int     `json:"killed"` // found dead in it
	Ended    []int     `json:"ended"`  // those of them whose processes have ended
	Episodes []Episode `json:"by_rank"`
}

// player is one rank in the course of a plan.
type player struct {
	*life
	e          Elastic
	recv       int64 // of one layout
	send       nixl.Buffer
	recvBuffer nixl.Buffer
	space      space
	connected  []int
	masked     []int  // dead, as all survivors know
	late       []int  // silent, as this rank found out
	at         int    // the phase, from 0
	used       *Plane // the last layout
	epoch      int
	cards      [][]byte
}

// Play plays the plan at this rank. All ranks of the world call it.
func (e Elastic) Play(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig) ([]PhaseOutcome, error) {
	if n := PlanRanks(e.Plan); n > w.Size() {
		return nil, fault.New(fault.Usage, "the plan has %d ranks, and there are %d", n,
			w.Size()).WithHint("run it with -n %d", n)
	}
	send, recv := Halves(e.Spec)
	p := &player{life: &life{w: w, g: w.All(), engine: engine, cfg: cfg}, e: e, recv: recv}
	p.c.Send, p.c.Recv, p.c.Mem = send, 2*recv, e.Spec.Mem
	p.cfg.OneHost, p.cfg.VRAM = w.OneHost(), e.Spec.Mem == nixl.VRAM
	defer func() {
		if p.agent != nil {
			p.close(p.agent)
		}
	}()
	if err := CheckRoom(w, w.Size(), send+2*recv); err != nil {
		return nil, err
	}
	var list []PhaseOutcome
	for i, phase := range e.Plan {
		w.Phase(fmt.Sprintf("%d of the plan", i+1)) // failures name it behind the word phase
		p.at = i
		outcome, err := p.phase(phase)
		if err != nil {
			return nil, err
		}
		list = append(list, outcome)
		if w.Rank() == 0 && e.Each != nil {
			if err := e.Each(outcome); err != nil {
				return nil, err
			}
		}
	}
	if w.Rank() != 0 {
		return nil, nil
	}
	return list, nil
}

// phase plays one phase.
func (p *player) phase(phase PlanPhase) (o PhaseOutcome, err error) {
	me := p.w.Rank()
	mine := Episode{Present: slices.Contains(phase.Ranks, me)}
	// who comes back is new
	p.masked = slices.DeleteFunc(p.masked, func(r int) bool { return slices.Contains(phase.Ranks, r) })
	if err := p.arrange(phase.Ranks, &mine); err != nil {
		return o, err
	}
	present := slices.Clone(phase.Ranks)
	for _, stage := range []Stage{InDispatch, InCombine, InCleanup, ""} {
		killed := slices.DeleteFunc(slices.Clone(present), func(r int) bool {
			return stage == "" ||
				phase.Killed[r] != stage
		})
		if stage != "" && len(killed) == 0 {
			continue
		}
		if err := p.act(present, stage, killed, &mine); err != nil {
			return o, err
		}
		dead, ended, err := p.bury(present, killed)
		if err != nil {
			return o, err
		}
		o.Killed, o.Ended = append(o.Killed, dead...), append(o.Ended, ended...)
		present = slices.DeleteFunc(present, func(r int) bool { return slices.Contains(dead, r) })
	}
	o.Present, o.Masked = phase.Ranks, slices.Sorted(slices.Values(p.masked))
	all, err := spmd.GatherValue(p.w.All(), 0, mine)
	if err != nil || all == nil {
		return o, err
	}
	o.Episodes = ofRanks(p.w, all)
	for _, r := range o.Ended {
		o.Episodes[r] = Episode{Present: true, Silent: true}
	}
	return o, nil
}

// ofRanks puts what the ranks of the world that are left have given where the number of each rank is its place.
func ofRanks[T any](w *spmd.World, given []T) []T {
	all := make([]T, w.Size())
	for place, r := range w.All().Ranks() {
		all[r] = given[place]
	}
	return all
}

// ends reports whether the process of a rank that is killed in this phase ends.
func (p *player) ends(rank int) bool {
	return p.e.Exit != nil && rank != 0 && !slices.ContainsFunc(p.e.Plan[p.at+1:], func(later PlanPhase) bool {
		return slices.Contains(later.Ranks, rank)
	})
}

// arrange makes connections what they must be in a phase.
func (p *player) arrange(present []int, mine *Episode) error {
	start := clock.Now()
	var gone, fresh []int
	for _, r := range p.connected {
		if !mine.Present || !slices.Contains(present, r) {
			gone = append(gone, r)
		}
	}
	if p.agent != nil && len(gone) > 0 {
		if err := p.agent.Disconnect(gone); err != nil {
			return err
		}
	}
	p.connected = slices.DeleteFunc(p.connected, func(r int) bool { return slices.Contains(gone, r) })
	if err := p.w.All().Barrier(); err != nil { // both ends have disconnected before either connects again
		return err
	}
	card, err := p.card(mine.Present)
	if err != nil {
		return err
	}
	cards, err := p.w.All().AllGather(card)
	if err != nil {
		return err
	}
	p.cards = ofRanks(p.w, cards)
	for _, r := range present {
		itself := r == p.w.Rank() && p.c.Mem != nixl.VRAM // in a GPU's memory it is its own peer
		if mine.Present && !itself && !slices.Contains(p.connected, r) {
			fresh = append(fresh, r)
		}
	}
	for _, r := range fresh {
		if err := p.agent.AddPeer(r, p.cards[r]); err != nil {
			return fmt.Errorf("add rank %d: %w", r, err)
		}
	}
	if len(fresh) > 0 {
		if err := p.reach(fresh); err != nil {
			return err
		}
	}
	p.connected = append(p.connected, fresh...)
	mine.ConnectMS = float64(clock.Now()-start) / 1e6
	mine.Joined, mine.Left = p.others(fresh), p.others(gone)
	return p.meet()
}

// others counts the ranks of a list but for this one.
func (p *player) others(ranks []int) int {
	if slices.Contains(ranks, p.w.Rank()) {
		return len(ranks) - 1
	}
	return len(ranks)
}

// meet is a barrier of all ranks during which this one helps its peers.
func (p *player) meet() error {
	if p.agent == nil {
		return p.g.Barrier()
	}
	return p.meetPolling()
}

// card makes the agent when it is first needed, and describes its memory.
func (p *player) card(present bool) ([]byte, error) {
	if p.agent == nil && present {
		p.cfg.Name = fmt.Sprintf("%sep-%d", session.AgentsOf(p.w.Rank()), lives.Add(1))
		var err error
		if p.agent, err = p.engine.NewAgent(p.cfg); err != nil {
			return nil, err
		}
		if p.send, err = p.agent.Alloc(p.c.Mem, p.c.Send); err != nil {
			return nil, err
		}
		if p.recvBuffer, err = p.agent.Alloc(p.c.Mem, p.c.Recv); err != nil {
			return nil, err
		}
		p.space = newSpace(p.send, p.recvBuffer, 0)
	}
	if p.agent == nil {
		return nil, nil
	}
	return p.agent.Card()
}

func (p *player) reach(peers []int) error {
	if err := p.agent.Connect(peers); err != nil {
		return err
	}
	return nixl.Poll(session.Control(p.w), func() (bool, error) {
		if err := p.agent.Progress(); err != nil {
			return false, err
		}
		return p.agent.Connected()
	})
}

// plane makes the layout of those who are present, in the half of the memory that the last one did not use: what is
// still on its way lands there.
func (p *player) plane(present []int, deadly bool) (*Plane, error) {
	s := p.e.Spec
	s.Selection = only(s.Selection, s.Placement, present)
	s.present, s.epoch, s.base = present, p.epoch, int64(p.epoch&1)*p.recv
	plane := newPlane(p.w, s, moe.NewLayout(s.Selection, s.Placement))
	plane.patience, plane.deadly = p.e.Patience, deadly
	var err error
	if plane.group, err = p.w.Group(present); err != nil {
		return nil, err
	}
	plane.port = &port{agent: p.agent, space: p.space}
	plane.port.batch = func(list []load.Transfer) (requests, error) {
		if deadly {
			return newApart(p.w.Log(), p.agent, p.transfers(list))
		}
		return p.agent.NewBatch(p.transfers(list))
	}
	exchanges := plane.exchanges()
	for i := range exchanges[:2*kinds] {
		if exchanges[i], err = load.NewExchange(exchanges[i], p.w.Size()); err != nil {
			return nil, err
		}
	}
	if err := plane.prepare(exchanges); err != nil {
		return nil, err
	}
	return plane, plane.Meet()
}

func (p *player) transfers(list []load.Transfer) []nixl.Transfer {
	transfers := make([]nixl.Transfer, len(list))
	for i, t := range list {
		transfers[i] = nixl.Transfer{
			Op: t.Op, Peer: t.Peer, LocalBuffer: p.send.ID(), RemoteBuffer: p.recvBuffer.ID(),
			Local: t.LocalAt, Remote: t.RemoteAt, Notice: t.Notice,
		}
	}
	return transfers
}

// only masks the tokens and the experts of ranks that are absent.
func only(s *moe.Selection, placement *moe.Placement, present []int) *moe.Selection {
	left := *s
	left.Expert = slices.Clone(s.Expert)
	for i, expert := range left.Expert {
		token := i / s.TopK
		if expert != moe.None && (!slices.Contains(present, token/s.Tokens) ||
			!slices.Contains(present, placement.Owner(placement.Slot(int(expert), token)))) {
			left.Expert[i] = moe.None
		}
	}
	return &left
}

// act plays a stage: a checked dispatch and combine, and the timed iterations unless a rank is to be killed before.
// Of those that survive, each finds out by itself which ranks are silent.
func (p *player) act(present []int, stage Stage, killed []int, mine *Episode) error {
	me := p.w.Rank()
	p.late = nil
	p.epoch++ // also where this rank is absent: all must count alike
	if !slices.Contains(present, me) {
		return nil
	}
	plane, err := p.plane(present, len(killed) > 0)
	if err != nil {
		return err
	}
	p.used = plane
	dies := Stage("")
	if slices.Contains(killed, me) {
		dies = stage
	}
	start := clock.Now()
	checked, err := plane.Verify(Options{die: dies})
	if err == nil && stage == "" {
		mine.Messages = checked.Messages
		err = p.time(plane, mine)
	}
	if err == nil && stage == InCleanup {
		if dies != "" {
			err = errSilent
		} else {
			start = clock.Now()
			_, err = plane.Play(Dispatch, 1, Steady, false)
		}
	}
	switch {
	case errors.Is(err, errSilent) && p.ends(me):
		if err := p.w.Depart(); err != nil {
			return err
		}
		p.e.Exit()
	case errors.Is(err, errSilent):
		mine.Silent = true
		return nil
	case err != nil && len(plane.late) > 0:
		p.late, mine.DetectedMS = plane.late, float64(clock.Now()-start)/1e6
		return nil
	}
	return err
}

// time measures iterations.
func (p *player) time(plane *Plane, mine *Episode) error {
	if err := plane.First(); err != nil {
		return err
	}
	if _, err := plane.Play(EndToEnd, p.e.Warmup, Steady, false); err != nil {
		return err
	}
	log, err := plane.Play(EndToEnd, p.e.Iterations, Steady, true)
	if err != nil {
		return err
	}
	mine.sumUp(log, plane)
	_, err = plane.CheckState(EndToEnd)
	return err
}

// sumUp fills in the figures of the iterations, without the first if there are two or more.
func (e *Episode) sumUp(log *Log, p *Plane) {
	var both, dispatch, combine []float64
	for _, it := range log.Iterations[min(1, len(log.Iterations)-1):] {
		both = append(both, microseconds(it.Total()))
		dispatch = append(dispatch, microseconds(it.Parts[dispatching].Total()))
		combine = append(combine, microseconds(it.Parts[combining].Total()))
	}
	e.MeanUS, e.MinUS, e.MaxUS = stats.Mean(both), slices.Min(both), slices.Max(both)
	e.DispatchUS, e.CombineUS = stats.Mean(dispatch), stats.Mean(combine)
	selections := int64(p.Selections(p.me))
	out := float64(moe.DispatchBytes(selections, p.hidden, p.spec.Payload))
	back := float64(moe.CombineBytes(selections, p.hidden))
	e.Bandwidth = rate(out+back, e.MeanUS)
	e.DispatchBandwidth, e.CombineBandwidth = rate(out, e.DispatchUS), rate(back, e.CombineUS)
}

// bury makes all survivors agree on who is dead, and disconnects from them. It fails where they found others dead than
// those that were killed. Those whose processes have ended are left out of the world.
func (p *player) bury(present, killed []int) (dead, ended []int, err error) {
	me := p.w.Rank()
	ended = slices.DeleteFunc(slices.Clone(killed), func(r int) bool { return !p.ends(r) })
	if len(ended) > 0 {
		if err := p.w.Lose(ended); err != nil {
			return nil, nil, err
		}
		p.g = p.w.All()
	}
	// Some knew at once, and others still wait: their messages may need this rank's help.
	if len(killed) > 0 {
		if err := p.meet(); err != nil {
			return nil, nil, err
		}
	}
	missing := make([]int, p.w.Size())
	for _, r := range p.late {
		missing[r] = 1
	}
	all, err := spmd.AllReduce(p.g, missing, spmd.Max)
	if err != nil {
		return nil, nil, err
	}
	for r, found := range all {
		if found > 0 {
			dead = append(dead, r)
		}
	}
	if !slices.Equal(dead, killed) {
		return nil, nil, fault.New(fault.RankLost, "ranks %v are silent, and the plan kills %v", dead, killed)
	}
	p.masked = append(p.masked, dead...)
	if len(dead) == 0 {
		return nil, nil, p.release()
	}
	if slices.Contains(present, me) && !slices.Contains(dead, me) {
		if err := p.agent.Disconnect(dead); err != nil {
			return nil, nil, err
		}
	}
	p.connected = slices.DeleteFunc(p.connected, func(r int) bool { return slices.Contains(dead, r) })
	if err := p.g.Barrier(); err != nil {
		return nil, nil, err
	}
	if slices.Contains(dead, me) { // what is left of it goes when all others have let go
		agent := p.agent
		p.agent, p.connected, p.used = nil, nil, nil
		p.close(agent)
		return dead, ended, nil
	}
	return dead, ended, p.release()
}

// close closes an agent that is not used any more. A peer's death may have left what NIXL does not get over, and the
// figures of the plan do not depend on it.
func (p *player) close(agent nixl.Agent) {
	if err := agent.Close(); err != nil {
		p.w.Log().Warn("closing the agent", "reason", err)
	}
}

// release frees the batches of the layout that was used last.
func (p *player) release() error {
	var errs []error
	if p.used != nil {
		for kind := range p.used.ops {
			for _, b := range p.used.ops[kind].batches {
				if b != nil {
					errs = append(errs, b.Release())
				}
			}
		}
	}
	p.used = nil
	return errors.Join(errs...)
}
