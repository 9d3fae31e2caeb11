package experts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/internal/kit/stats"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// Phase is a step in the life of an agent.
type Phase int

// The phases in their order.
const (
	Init       Phase = iota // make the agent, and allocate, touch and register its memory
	Connect                 // exchange cards, add all peers, and connect to them
	Disconnect              // drop all peers
	Reconnect               // connect again, on the same memory
	Destroy                 // release everything
	phases
)

var phaseNames = [phases]string{"init", "connect", "disconnect", "reconnect", "destroy"}

// PhaseNames are those of all phases, in their order.
func PhaseNames() []string { return phaseNames[:] }

// Cycle is the test of all phases.
const Cycle = "cycle"

// Control describes a test of the control plane.
type Control struct {
	Test           string   // cycle, init, connect, disconnect or destroy
	Rounds, Warmup int      // measured rounds, and rounds before
	Ranks          int      // the first so many ranks of the world take part
	Send, Recv     int64    // registered memory of each rank, in bytes
	Mem            nixl.Mem // nixl.DRAM or nixl.VRAM

	// Each, if set, gets the figures of the measured rounds so far at rank 0, every second and at the end.
	Each func([]PhaseFigures) error
}

// Check returns an error of kind Usage where the description makes no sense in a world of a number of ranks.
func (c Control) Check(world int) error {
	tests := []string{Cycle, phaseNames[Init], phaseNames[Connect], phaseNames[Disconnect], phaseNames[Destroy]}
	switch {
	case !slices.Contains(tests, c.Test):
		return fault.New(fault.Usage, "unknown test %q, want one of %s", c.Test, strings.Join(tests, ", "))
	case c.Rounds < 1 || c.Warmup < 0:
		return fault.New(fault.Usage, "%d rounds after %d, want 1 or more after 0 or more", c.Rounds, c.Warmup)
	case c.Ranks < 1 || c.Ranks > world:
		return fault.New(fault.Usage, "%d ranks of %d", c.Ranks, world)
	}
	return nil
}

// timed lists the phases whose times the test wants.
func (c Control) timed() []Phase {
	if c.Test == Cycle {
		return []Phase{Init, Connect, Disconnect, Reconnect, Destroy}
	}
	return []Phase{Phase(slices.Index(phaseNames[:], c.Test))}
}

// steps lists the phases of a round: those that the test needs before the one it times, too.
func (c Control) steps() []Phase {
	switch c.Test {
	case Cycle:
		return c.timed()
	case phaseNames[Init]:
		return []Phase{Init, Destroy}
	case phaseNames[Connect], phaseNames[Destroy]:
		return []Phase{Init, Connect, Destroy}
	}
	return []Phase{Init, Connect, Disconnect, Destroy}
}

// PhaseFigures are the times of a phase in milliseconds: over all rounds and ranks, and over rounds of
// the slowest rank of each.
type PhaseFigures struct {
	Phase    string    `json:"phase"`
	AvgMS    float64   `json:"avg_ms"`
	MinMS    float64   `json:"min_ms"`
	MaxMS    float64   `json:"max_ms"`
	SlowMS   float64   `json:"slowest_ms"` // mean over rounds of the slowest rank
	SlowRank int       `json:"slow_rank"`  // with the largest mean over rounds
	Host     string    `json:"slow_host"`  // its host
	Rounds   []float64 `json:"rounds_ms"`  // the slowest rank of each round
	ByRank   []float64 `json:"by_rank_ms"` // means over rounds
}

// life is an agent in the course of a round.
type life struct {
	w      *spmd.World
	g      *spmd.Group
	engine nixl.Engine
	cfg    nixl.AgentConfig
	c      Control
	peers  []int
	agent  nixl.Agent
}

// lives numbers agents, whose names must differ among all of a job.
var lives atomic.Int64

// Play runs the rounds at this rank. All ranks of the world call it; those that do not take part return at once, with
// nil. The figures are at rank 0 only, one for each timed phase.
func (c Control) Play(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig) ([]PhaseFigures, error) {
	if err := c.Check(w.Size()); err != nil {
		return nil, err
	}
	if w.Rank() >= c.Ranks {
		return nil, nil
	}
	// The ranks that take part have their own group: the others have returned, and would be waited for.
	ranks := make([]int, c.Ranks)
	for i := range ranks {
		ranks[i] = i
	}
	g, err := w.Group(ranks)
	if err != nil {
		return nil, err
	}
	l := &life{w: w, g: g, engine: engine, cfg: cfg, c: c}
	l.peers = slices.DeleteFunc(ranks, func(r int) bool { return r == w.Rank() })
	l.cfg.OneHost, l.cfg.VRAM = w.OneHost(), c.Mem == nixl.VRAM
	var samples []int64 // that rank 0 does not have yet
	t := &rounds{timed: c.timed()}
	var saving spmd.Interval
	for round := range c.Warmup + c.Rounds {
		if round == c.Warmup {
			saving.Begin()
		}
		times, err := l.round()
		if err != nil {
			return nil, err
		}
		if round >= c.Warmup {
			for _, phase := range t.timed {
				samples = append(samples, times[phase])
			}
		}
		// A test of hours shows figures every second, and keeps them if it is killed.
		if done := round - c.Warmup + 1; done > 0 && done < c.Rounds {
			due, _, err := saving.Due(g)
			if err == nil && due {
				_, err = c.gather(w, g, t, samples)
				samples = samples[:0]
				saving.Did()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return c.gather(w, g, t, samples)
}

// round plays one life. What fails in the middle leaves nothing behind.
func (l *life) round() (times [phases]int64, err error) {
	defer func() {
		if l.agent != nil {
			err = errors.Join(err, l.agent.Close())
			l.agent = nil
		}
	}()
	do := [phases]func() error{l.init, l.connect, l.disconnect, l.connect, l.destroy}
	defer l.w.Allocating(l.bytes)()
	for _, phase := range l.c.steps() {
		if err := l.g.Barrier(); err != nil {
			return times, err
		}
		start := clock.Now()
		if err := do[phase](); err != nil {
			return times, session.Explain(l.w, phaseNames[phase], err)
		}
		times[phase] = clock.Now() - start
		if phase == Connect || phase == Reconnect {
			err = l.meetPolling() // peers may still need this rank for their connections
		} else {
			err = l.g.Barrier()
		}
		if err != nil {
			return times, err
		}
	}
	return times, nil
}

// bytes counts what a rank allocates in a round.
func (l *life) bytes(rank int) int64 {
	if rank >= l.c.Ranks {
		return 0
	}
	return l.c.Send + l.c.Recv
}

func (l *life) init() (err error) {
	l.cfg.Name = fmt.Sprintf("%sep-%d", session.AgentsOf(l.w.Rank()), lives.Add(1))
	if l.agent, err = l.engine.NewAgent(l.cfg); err != nil {
		return err
	}
	for _, size := range []int64{l.c.Send, l.c.Recv} {
		if _, err := l.agent.Alloc(l.c.Mem, size); err != nil {
			return err
		}
	}
	return nil
}

// connect takes the steps that a serving engine takes when a rank joins: exchange of cards, adding of all peers, and
// connections, polled until they are open.
func (l *life) connect() error {
	card, err := l.agent.Card()
	if err != nil {
		return err
	}
	cards, err := l.g.AllGather(card)
	if err != nil {
		return err
	}
	for _, peer := range l.peers {
		if err := l.agent.AddPeer(peer, cards[peer]); err != nil {
			return fmt.Errorf("add rank %d: %w", peer, err)
		}
	}
	if err := l.agent.Connect(l.peers); err != nil {
		return err
	}
	return nixl.Poll(session.Control(l.w), func() (bool, error) {
		if err := l.agent.Progress(); err != nil {
			return false, err
		}
		return l.agent.Connected()
	})
}

func (l *life) disconnect() error { return l.agent.Disconnect(l.peers) }

func (l *life) destroy() error {
	agent := l.agent
	l.agent = nil
	return agent.Close()
}

// meetPolling is a barrier during which this rank makes progress for its peers.
func (l *life) meetPolling() error {
	met := make(chan error, 1)
	go func() { met <- l.g.Barrier() }()
	var outcome error
	err := nixl.Poll(nixl.Control{}, func() (bool, error) {
		select {
		case outcome = <-met:
			return true, nil
		default:
			return false, l.agent.Progress()
		}
	})
	return errors.Join(outcome, err)
}

// gather brings the times of further rounds of all ranks to rank 0, adds them to those before, and hands the figures to
// Each.
func (c Control) gather(w *spmd.World, g *spmd.Group, t *rounds, samples []int64) ([]PhaseFigures, error) {
	var message []byte
	for _, v := range samples {
		message = binary.AppendVarint(message, v)
	}
	all, err := g.Gather(0, message)
	if err != nil || w.Rank() != 0 {
		return nil, err
	}
	n := len(samples) / len(t.timed)
	times := make([][][]float64, len(t.timed)) // by phase, round, rank, in milliseconds
	for p := range times {
		times[p] = make([][]float64, n)
	}
	for rank, message := range all {
		r := pack.Read(message)
		for round := range n {
			for p := range times {
				times[p][round] = append(times[p][round], float64(r.Signed())/1e6)
			}
		}
		if err := r.End(fmt.Sprintf("what rank %d has measured", rank)); err != nil {
			return nil, err
		}
	}
	t.add(times)
	list := t.figures(w.HostName)
	if c.Each != nil {
		err = c.Each(list)
	}
	return list, err
}

// rounds adds up at rank 0 the times of rounds, in milliseconds, as they come.
type rounds struct {
	timed  []Phase
	phases []phaseRounds
}

// phaseRounds are those of a phase.
type phaseRounds struct {
	least, most float64
	byRank      []float64 // sums over rounds
	slowest     []float64 // of each round
	slow        float64   // their sum
}

// add adds rounds, by phase, round and rank.
func (t *rounds) add(times [][][]float64) {
	if t.phases == nil {
		t.phases = slices.Repeat([]phaseRounds{{least: math.Inf(1)}}, len(times))
	}
	for i := range t.phases {
		for _, row := range times[i] {
			t.phases[i].add(row)
		}
	}
}

// add adds a round, by rank.
func (p *phaseRounds) add(row []float64) {
	if p.byRank == nil {
		p.byRank = make([]float64, len(row))
	}
	for rank, ms := range row {
		p.byRank[rank] += ms
	}
	slowest := slices.Max(row)
	p.least, p.most, p.slow = min(p.least, slices.Min(row)), max(p.most, slowest), p.slow+slowest
	p.slowest = append(p.slowest, slowest)
}

// figures works out those of all phases.
func (t *rounds) figures(host func(int) string) []PhaseFigures {
	list := make([]PhaseFigures, len(t.timed))
	for i, phase := range t.timed {
		p := t.phases[i]
		f := PhaseFigures{Phase: phaseNames[phase], MinMS: p.least, MaxMS: p.most, Rounds: p.slowest}
		n := float64(len(p.slowest))
		for _, ms := range p.byRank {
			f.ByRank = append(f.ByRank, ms/n)
		}
		f.AvgMS, f.SlowMS, f.SlowRank = stats.Mean(f.ByRank), p.slow/n, argmax(f.ByRank)
		f.Host = host(f.SlowRank)
		list[i] = f
	}
	return list
}

func argmax(values []float64) (at int) {
	for i, v := range values {
		if v > values[at] {
			at = i
		}
	}
	return at
}
