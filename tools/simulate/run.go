package simulate

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/traffic/load"
	"perigee/internal/traffic/play"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/wire"
)

// Phase counts the cost of one step of a job. Messages are those on links between
// ranks, bytes those of their frames, headers included; in the phases named
// launcher and launcher-replies they are lines to and from the launcher.
type Phase struct {
	Name          string  `json:"name"`
	MaxMessages   int64   `json:"max_messages_per_rank"`
	MeanMessages  float64 `json:"mean_messages_per_rank"`
	MaxBytes      int64   `json:"max_bytes_per_rank"`
	MeanBytes     float64 `json:"mean_bytes_per_rank"`
	MaxLinks      int64   `json:"max_links_opened_per_rank"`
	TotalMessages int64   `json:"total_messages"`
	TotalBytes    int64   `json:"total_bytes"`
	Seconds       float64 `json:"seconds"` // of all ranks in this process
}

// WorldCounts holds the counts of the simulation of one world.
type WorldCounts struct {
	Ranks        int     `json:"ranks"`
	Hosts        int     `json:"hosts"`
	RanksPerHost int     `json:"ranks_per_host"`
	Patterns     int     `json:"patterns"`
	Seconds      float64 `json:"seconds"`
	PeakMemory   int64   `json:"peak_memory_bytes"` // of this process, resident; 0 if unknown
	Phases       []Phase `json:"phases"`
	// Workload is how one iteration is played, by the pauses alone; Replay is there instead where a trace is replayed.
	Workload *Played  `json:"workload,omitempty"`
	Replay   *Offered `json:"replay,omitempty"`
}

// Played is an iteration of a workload.
type Played struct {
	Meet   string  `json:"meet"`
	Start  string  `json:"start"`
	Starts []Start `json:"starts"`
}

// crowd is a world of ranks that live in this process.
type crowd struct {
	n      int
	worlds []*spmd.World
	plans  []*session.Session
	played [][]*play.LoadPlan // by rank, the patterns
	up     []tally            // by rank, what it has told the launcher
	down   []tally            // what the launcher has told it
}

// tally counts what passes a connection.
type tally struct{ messages, bytes atomic.Int64 }

// countedConn counts the lines that are written.
type countedConn struct {
	net.Conn
	sent *tally
}

// Write counts b as one message: both sides write one line at a time.
func (c countedConn) Write(b []byte) (int, error) {
	c.sent.messages.Add(1)
	c.sent.bytes.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// scriptBytes is the size of a scenario, which rank 0 broadcasts; pieceBytes that
// of what a rank gives in a gather.
const (
	scriptBytes = 4 << 10
	pieceBytes  = 64
)

// Simulate lets n ranks meet, perHost on each simulated host, and do what the ranks
// of a job do, but for moving bytes.
func Simulate(ctx context.Context, n, perHost int, work *Workload) (*WorldCounts, error) {
	loads, err := work.loads(n)
	if err != nil {
		return nil, err
	}
	perHost = min(perHost, n)
	resetPeak()
	began := time.Now()
	c := &crowd{n: n, worlds: make([]*spmd.World, n), plans: make([]*session.Session, n), up: make([]tally, n),
		down: make([]tally, n), played: make([][]*play.LoadPlan, n)}
	many := (n + perHost - 1) / perHost
	out := &WorldCounts{Ranks: n, Hosts: many, RanksPerHost: perHost, Patterns: len(work.Patterns)}
	coordinator := watch.NewCoordinator(n, nil)
	defer coordinator.Close()
	defer c.close()
	hosts, ledger := spmd.NewCrowd(n, perHost), session.NewLedger()
	all := func(body func(w *spmd.World) error) func(int) error {
		return func(r int) error { return body(c.worlds[r]) }
	}
	steps := []step{
		{"start", func(r int) (err error) {
			c.worlds[r], err = c.join(ctx, hosts, coordinator, r)
			return err
		}},
		{"barrier", all(func(w *spmd.World) error { return w.All().Barrier() })},
		{"broadcast", all(func(w *spmd.World) error {
			_, err := w.All().Broadcast(0, make([]byte, scriptBytes))
			return err
		})},
		{"gather", all(func(w *spmd.World) error {
			_, err := w.All().Gather(0, make([]byte, pieceBytes))
			return err
		})},
		{"all-gather", all(func(w *spmd.World) error {
			_, err := w.All().AllGather(make([]byte, pieceBytes))
			return err
		})},
		{"reduce", all(func(w *spmd.World) error {
			_, err := spmd.AllReduce(w.All(), []float64{float64(w.Rank())}, spmd.Max)
			return err
		})},
		{"clocks", all((*spmd.World).SyncClocks)},
		{"engine", func(r int) (err error) {
			c.plans[r], err = session.OpenIn(c.worlds[r], planner{}, nixl.AgentConfig{}, 0, ledger)
			return err
		}},
		{"prepare", func(r int) (err error) {
			c.played[r], err = play.Prepare(c.plans[r], loads)
			return err
		}},
	}
	steps = append(steps, c.playing(work, loads)...)
	steps = append(steps, step{"end", all(func(w *spmd.World) error { return w.All().End() })})
	before := make([]wire.Counts, n)
	for _, s := range steps {
		start := time.Now()
		if err := c.everywhere(coordinator, s.body); err != nil {
			return nil, err
		}
		p := Phase{Name: s.name, Seconds: time.Since(start).Seconds()}
		for r, w := range c.worlds {
			now := w.Wire()
			spent := now.Minus(before[r])
			before[r] = now
			p.add(spent.Messages, spent.Bytes, spent.Links)
		}
		p.average(n)
		out.Phases = append(out.Phases, p)
		if s.name == "start" {
			out.Phases = append(out.Phases, launcherPhase("launcher", c.up), launcherPhase("launcher-replies", c.down))
		}
	}
	if work.Replay != nil {
		out.Replay = offered(work.Replay)
	} else {
		out.Workload = c.iteration(work)
	}
	out.PeakMemory = peakMemory()
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

// iteration is when the patterns of a workload start.
func (c *crowd) iteration(work *Workload) *Played {
	who := make([][]int, len(work.Patterns))
	for i, p := range c.played[0] {
		if who[i] = p.Actors; work.Meet == meetAll {
			who[i] = p.Ranks
		}
	}
	return &Played{work.Meet, work.Start, timeline(*work, c.n, who)}
}

// step is one of a job.
type step struct {
	name string
	body func(rank int) error
}

// playing are the steps in which what is prepared is played, and what was measured is collected.
func (c *crowd) playing(work *Workload, loads []load.Load) []step {
	if work.Replay != nil {
		return c.replaying(loads[0].(load.Schedule))
	}
	return []step{
		{"workload", func(r int) error { return c.iterate(r, work.Meet) }},
		{"collect", func(r int) error {
			_, err := play.Collect(c.plans[r], nil)
			return err
		}},
	}
}

// iterate lets a rank play the list once, as sequential-ct-perftest does, but for the pauses, which send nothing.
func (c *crowd) iterate(r int, meet string) error {
	all := c.worlds[r].All()
	if err := all.Barrier(); err != nil {
		return err
	}
	for _, p := range c.played[r] {
		gather, comes := p.InitiatorsBarrier, p.Initiates()
		if meet == meetAll {
			gather, comes = p.Barrier, p.TakesPart()
		}
		if err := gather(); err != nil {
			return err
		}
		if !comes {
			continue
		}
		if err := p.Run(1, false); err != nil {
			return err
		}
	}
	return all.Barrier()
}

func launcherPhase(name string, tallies []tally) Phase {
	p := Phase{Name: name}
	for i := range tallies {
		p.add(tallies[i].messages.Load(), tallies[i].bytes.Load(), 1)
	}
	p.average(len(tallies))
	return p
}

func (p *Phase) add(messages, bytes, links int64) {
	p.MaxMessages, p.MaxBytes, p.MaxLinks = max(p.MaxMessages, messages), max(p.MaxBytes, bytes), max(p.MaxLinks, links)
	p.TotalMessages += messages
	p.TotalBytes += bytes
}

func (p *Phase) average(n int) {
	p.MeanMessages, p.MeanBytes = float64(p.TotalMessages)/float64(n), float64(p.TotalBytes)/float64(n)
}

// join makes rank r of the world.
func (c *crowd) join(ctx context.Context, hosts *spmd.Crowd, coordinator *watch.Coordinator, r int) (*spmd.World,
	error) {
	theirs, ours := net.Pipe()
	coordinator.Serve(countedConn{theirs, &c.down[r]}, r)
	p, err := boot.Attach(ctx, countedConn{ours, &c.up[r]}, r, c.n)
	if err != nil {
		return nil, err
	}
	p.LocalRank = -1
	return hosts.Join(ctx, p)
}

// everywhere runs body at all ranks at once. Where one fails all do.
func (c *crowd) everywhere(coordinator *watch.Coordinator, body func(rank int) error) error {
	errs := make([]error, c.n)
	var ranks sync.WaitGroup
	for r := range c.n {
		ranks.Go(func() {
			if errs[r] = body(r); errs[r] != nil {
				coordinator.Fail(watch.FailureOf(errs[r]))
			}
		})
	}
	ranks.Wait()
	if f := coordinator.Failure(); f != nil {
		return f.Fault()
	}
	return errors.Join(errs...)
}

// close lets all ranks leave.
func (c *crowd) close() {
	var ranks sync.WaitGroup
	for r, w := range c.worlds {
		ranks.Go(func() {
			if s := c.plans[r]; s != nil {
				s.Close()
			}
			if w != nil {
				w.Close()
			}
		})
	}
	ranks.Wait()
}
