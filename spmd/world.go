package spmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/crowd"
	"perigee/internal/kit/fault"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// World is one rank's view of all ranks. Its methods are safe for concurrent
// use, but collectives must follow one order.
type World struct {
	rank, size int
	launcher   string
	roster     *roster // nil until the ranks have met
	localRank  int

	log       *slog.Logger
	name      string // of this host
	end       wire.Endpoint
	segment   atomic.Pointer[host.Segment] // nil where no memory is shared
	monitor   watch.Monitor
	meeting   meetingPlace
	shared    *sharedValues                     // what ranks of one process hold together; nil where each has its own
	lostLinks chan lostLink                     // the first links that were lost
	clocks    atomic.Pointer[[]clock.ClockLine] // per host
	syncs     int                               // how often they were compared
	localNow  func() int64                      // the monotonic clock of this host
	timeout   time.Duration

	ctx     context.Context
	cancel  context.CancelCauseFunc
	entered atomic.Bool // the roster is here
	failing sync.Mutex  // held while a failure is reported
	abort   uint32      // what native loops look at; non-zero once the job has failed
	phase   atomic.Value
	all     atomic.Pointer[Group]
	groups  sync.Map // key of the list of ranks -> *Group
	sent    struct{ messages, bytes atomic.Int64 }
	watch   sync.WaitGroup
	still   atomic.Pointer[[]Standstill] // nil while there was none

	detector detector // of ranks that are in different collectives
}

// Host is a machine of the world and the ranks on it, ascending. Where the
// launcher takes it for several nodes, its name is all of theirs: node1+node2.
// CPUs are those on which at least one of the ranks may run.
type Host struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
	CPUs  int    `json:"cpus"`
	// Quota is how many CPUs the cgroups of its ranks let them use, 0 if none limits them.
	Quota float64 `json:"cpu_quota,omitempty"`
	// Machine is nil where the host has a kernel, and so its CPUs, for itself.
	Machine *Machine `json:"machine,omitempty"`
}

// Machine is hosts with one kernel.
type Machine = crowd.Machine

// Short says that the ranks of a host have less than one CPU each, "" if they have one; see [crowd.Host.Short].
func (h Host) Short() (text string, share float64) {
	return crowd.Host{Name: h.Name, Ranks: len(h.Ranks), CPUs: h.CPUs, Quota: h.Quota, Machine: h.Machine}.Short()
}

// meeting is where the ranks of a group that share a host meet.
type meeting interface {
	// Wait returns when all have called it, with ErrTimeout after limit.
	Wait(call uint32, limit time.Duration) error
	// Max is Wait with two numbers, none of them negative. It returns the largest of all parties, or
	// ErrMixed where one of them has called Wait.
	Max(call uint32, limit time.Duration, v [2]int64) ([2]int64, error)
	// Called returns the number of the call in which one of them has last waited
	// for long, 0 if none ever has.
	Called() uint32
}

// meetingPlace returns the meeting of a group of ranks of this host, of which
// cores CPUs are at hand.
type meetingPlace func(key uint64, parties, cores int) (meeting, error)

// Options hold the user's choices for a world.
type Options struct {
	// Timeout bounds each wait in a collective; 0 waits for ever.
	Timeout time.Duration
	// HostID overrides what distinguishes hosts. Ranks of one host that are given
	// different ones treat each other as if they were on different hosts.
	HostID string
	// Failed, if set, is called by a Join that fails, before the other ranks
	// may leave.
	Failed func(error)
	Log    *slog.Logger // nil logs nothing; each line gets the rank's phase
}

// newWorld makes a world that hears of failures, and nothing else yet.
func newWorld(p *boot.Process, opts Options) *World {
	w := &World{
		rank: p.Rank, size: p.Size, launcher: p.Launcher,
		monitor: p.Monitor, timeout: opts.Timeout, localRank: p.LocalRank,
		name: cmp.Or(p.Host, host.Name()), lostLinks: make(chan lostLink, keptLinks), localNow: clock.Now,
	}
	w.log = w.withPhase(opts.Log)
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.setPhase("start")
	w.watch.Go(w.watchFailure)
	return w
}

// enter takes the place that a roster gives to this rank.
func (w *World) enter(r *roster) {
	w.roster = r
	w.entered.Store(true)
	w.logWorld()
	if w.localRank < 0 {
		w.localRank = slices.Index(w.Hosts()[r.hostOf(w.rank)].Ranks, w.rank)
	}
}

// addressesOf is asked while the roster is not here yet, and after that.
func (w *World) addressesOf(ctx context.Context, store watch.Store, rank int) ([]string, error) {
	if w.roster != nil {
		return w.roster.addresses(rank), nil
	}
	data, err := store.Get(ctx, rank)
	if err != nil {
		return nil, err
	}
	c, err := decodeCard(data)
	return addresses(c.IPs, c.Port), err
}

// setSegment makes s the memory that a failure of the job marks.
func (w *World) setSegment(s *host.Segment) {
	s.Register()
	w.segment.Store(s)
	if w.ctx.Err() != nil {
		s.Abort() // the failure came first
		s.ContinueStopped()
	}
}

func (w *World) leader(hostIndex int) int { return w.roster.leaders[hostIndex] }

// NewInMemory makes the ranks of a world that lives in one process, for tests.
// Every rank counts as a separate host.
func NewInMemory(n int) ([]*World, *wire.Memory) {
	net := wire.NewMemory(n)
	cards := make([]card, n)
	for i := range cards {
		cards[i] = card{HostID: fmt.Sprint(i), Host: fmt.Sprintf("memory%d", i), CPUs: firstCPUs(1)}
	}
	roster := newRoster(cards)
	worlds := make([]*World, n)
	for r := range worlds {
		w := &World{rank: r, size: n, launcher: "memory", name: cards[r].Host, end: net.Endpoint(r),
			localNow: clock.Now,
			monitor:  ignoresFailures{}}
		w.log = w.withPhase(nil)
		w.ctx, w.cancel = context.WithCancelCause(context.Background())
		w.setPhase("start")
		w.enter(roster)
		lines := make([]clock.ClockLine, n)
		w.clocks.Store(&lines)
		w.detector.start(w.ctx, w.end, doubtAfter)
		worlds[r] = w
	}
	return worlds, net
}

// ignoresFailures is the monitor of worlds whose ranks cannot die alone.
type ignoresFailures struct{}

func (ignoresFailures) Phase(string)                        {}
func (ignoresFailures) Abort(f watch.Failure) watch.Failure { return f }
func (ignoresFailures) Failed() <-chan watch.Failure        { return nil }
func (ignoresFailures) Leave(context.Context) error         { return nil }

// Rank is this process's number, from 0.
func (w *World) Rank() int { return w.rank }

// Size is the number of ranks.
func (w *World) Size() int { return w.size }

// LocalRank is this rank's number among those of its host, from 0.
func (w *World) LocalRank() int { return w.localRank }

// Hosts are the machines of the world in the order of their lowest ranks.
func (w *World) Hosts() []Host { return w.roster.hosts }

// HostOf returns the index into Hosts of the host of a rank.
func (w *World) HostOf(rank int) int { return w.roster.hostOf(rank) }

// HostName returns the name that the launcher, or else the machine itself, gives the host of a rank.
func (w *World) HostName(rank int) string { return w.roster.node(rank).name }

// OneHost reports whether all ranks can share memory.
func (w *World) OneHost() bool { return len(w.roster.hosts) == 1 }

// LeadsHost reports whether this rank is the lowest one of its host, which does what one rank of a host must do.
func (w *World) LeadsHost() bool { return w.roster.hosts[w.HostOf(w.rank)].Ranks[0] == w.rank }

// Launcher names what started the ranks.
func (w *World) Launcher() string { return w.launcher }

// Timeout is the bound of each wait, 0 for none.
func (w *World) Timeout() time.Duration { return w.timeout }

// Context ends, with the failure as its cause, when the job has failed.
func (w *World) Context() context.Context { return w.ctx }

// Store lets perigee's own launcher wait for this rank 0 of a failed job, which is still writing the result.
func (w *World) Store() { w.monitor.Phase(watch.Storing) }

// AbortFlag becomes non-zero when the job has failed. Native loops watch it.
func (w *World) AbortFlag() *uint32 { return &w.abort }

// aborted returns why the job has failed; nil if it has not. It costs one load, unlike a look at the context.
func (w *World) aborted() error {
	if atomic.LoadUint32(&w.abort) == 0 {
		return nil
	}
	return context.Cause(w.ctx)
}

// Sent returns how many messages, and bytes in them, this rank has sent to others.
func (w *World) Sent() (messages, bytes int64) {
	return w.sent.messages.Load(), w.sent.bytes.Load()
}

// Wire returns what has left this rank on its links: messages as they are framed,
// with their headers.
func (w *World) Wire() wire.Counts { return w.end.Sent() }

// Phase names what this rank is doing from now on. If the rank dies, the
// report of its death has the name.
func (w *World) Phase(name string) {
	w.setPhase(name)
	w.monitor.Phase(name)
	w.log.Info("phase")
}

func (w *World) setPhase(name string) { w.phase.Store(name) }

// CurrentPhase returns what Phase was last told.
func (w *World) CurrentPhase() string { return w.phase.Load().(string) }

// watchFailure hears of the job's failure and ends this rank's waits.
func (w *World) watchFailure() {
	select {
	case f := <-w.monitor.Failed():
		w.fail(f)
	case <-w.ctx.Done():
	}
}

// lostLink is a link that has ended, or is of no more use, though its other end has not closed it.
type lostLink struct {
	rank int
	err  error
}

// keptLinks is how many are kept until watchLinks looks at them: the first may be with ranks that have left.
const keptLinks = 16

func (w *World) reportLostLink(rank int, err error) {
	select {
	case w.lostLinks <- lostLink{rank, err}:
	default:
	}
}

// watchLinks ends the job when a link is lost. A rank that waits for bytes, or for shared memory, would not
// notice: two hosts may have lost each other while both still reach rank 0.
func (w *World) watchLinks() {
	for {
		select {
		case l := <-w.lostLinks:
			// What ends the links of a rank that has left may be lost on the way, or its host be down by now. If the
			// rank has died instead, the coordinator misses its leave.
			if !errors.Is(l.err, wire.ErrForged) && w.hasLeft(l.rank) {
				continue
			}
			w.Fail(w.linkError(l))
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// hasLeft reports whether a rank is known to have left the job. Rank 0 knows it of all where it coordinates the job.
func (w *World) hasLeft(rank int) bool {
	leader, ok := w.monitor.(interface{ HasLeft(rank int) bool })
	return ok && leader.HasLeft(rank) || slices.Contains(w.Lost(), rank)
}

const alteredHint = "something between the two hosts alters what the ranks send, by mistake or on purpose"

func (w *World) linkError(l lostLink) error {
	if errors.Is(l.err, wire.ErrForged) {
		return fault.New(fault.RankLost, "link from rank %d on %s: %w", l.rank, w.HostName(l.rank), l.err).
			WithHint(alteredHint)
	}
	return fault.New(fault.RankLost, "nothing comes any more from rank %d on %s: %w", l.rank, w.HostName(l.rank),
		l.err).
		WithHint("has the network between the two hosts failed, or one of them?")
}

// fail ends all waits of this rank with err: those for messages by the context, those inside an engine by the flag
// that its loops look at, and those in shared memory by the mark in the segment, which ends the other ranks of the
// host, too.
func (w *World) fail(err error) {
	if f, ok := err.(watch.Failure); ok {
		err = w.complete(f)
	}
	known := w.ctx.Err() != nil
	w.cancel(err)
	atomic.StoreUint32(&w.abort, 1)
	if s := w.segment.Load(); s != nil {
		s.Abort()
		s.ContinueStopped()
	}
	if !known {
		w.log.Warn("this rank's waits end", "reason", err)
	}
}

// complete says where a rank was that could not say it itself.
func (w *World) complete(f watch.Failure) watch.Failure {
	if f.Rank < 0 {
		return f
	}
	f.Phase = cmp.Or(f.Phase, w.CurrentPhase())
	if f.Host == "" && w.entered.Load() {
		f.Host = w.HostName(f.Rank)
	}
	return f
}

// IsHostLeader returns true to the first rank of each host that calls it: the one that
// reports to the user what all ranks of the host know.
func (w *World) IsHostLeader() bool {
	s := w.segment.Load()
	return s == nil || s.ElectLeader()
}

// Fail reports this rank's error as the job's failure, unless the job has
// failed already, and ends all ranks' waits. It returns what is to be
// reported: the job's first failure as far as this rank knows.
func (w *World) Fail(err error) error {
	if w.ctx.Err() == nil {
		w.log.Error("this rank has failed", "kind", fault.KindOf(err), "reason", err)
	}
	w.awaitCause(err)
	// A caller that learns here that the job has failed may leave at once. Before that
	// the others must have been told.
	w.failing.Lock()
	defer w.failing.Unlock()
	if f, ok := errors.AsType[watch.Failure](context.Cause(w.ctx)); ok {
		return f
	}
	f := watch.Failure{
		Rank: w.rank, Host: w.name, Phase: w.CurrentPhase(),
		Kind: fault.KindOf(err), Cause: err.Error(), Hint: fault.HintOf(err),
	}
	f = w.complete(w.monitor.Abort(f))
	w.fail(f)
	if first, ok := errors.AsType[watch.Failure](context.Cause(w.ctx)); ok {
		return first
	}
	return f
}

// causeWait is how long a rank whose transfer has failed waits to hear why.
const causeWait = 500 * time.Millisecond

// awaitCause lets a rank with a failed transfer or a lost peer learn first whether
// the peer has died: then that is the failure of the job, and this its consequence.
func (w *World) awaitCause(err error) {
	if k := fault.KindOf(err); k != fault.Engine && k != fault.RankLost {
		return
	}
	if w.monitor.Failed() == nil {
		return // the monitor reports no failures
	}
	select {
	case <-w.ctx.Done():
	case <-time.After(causeWait):
	}
}

// closeTimeout bounds the goodbye of a world.
const closeTimeout = 10 * time.Second

// Close says goodbye and releases everything. The rank's end after a Close is
// no failure of the job. On a rank that coordinates the job Close waits until
// the others have left, or have been told of the job's failure. The error is that
// failure: a rank that has ended its work without an error may learn of it here.
func (w *World) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	w.log.Debug("closing")
	err := w.monitor.Leave(ctx)
	w.cancel(errClosed)
	if known := w.Err(); known != nil {
		err = known
	}
	w.watch.Wait()
	if w.end != nil {
		w.end.Close()
	}
	if s := w.segment.Load(); s != nil {
		s.Close()
	}
	return err
}

var errClosed = errors.New("the world is closed")

// Err returns the job's failure, nil while there is none.
func (w *World) Err() error {
	if cause := context.Cause(w.ctx); cause != errClosed {
		return cause
	}
	return nil
}

// SetTimeout changes the bound of each wait from now on; 0 means none. All
// ranks must agree on it.
func (w *World) SetTimeout(t time.Duration) { w.timeout = t }

// allocRate is how many bytes a second the ranks of a host allocate together at the least. They are touched, and
// registered with adapters; on 2 CPUs two ranks took 16 s for 8.6 GB.
const allocRate = 200e6

// Allocating lengthens each wait by what the ranks of a host may take to allocate these bytes each, until done is
// called: a rank that is slow since it allocates much keeps no other waiting. All ranks call it, with the same bytes.
func (w *World) Allocating(bytes func(rank int) int64) (done func()) {
	limit := w.timeout
	if limit == 0 {
		return func() {}
	}
	most := 0.0
	for _, h := range w.Hosts() {
		sum := 0.0
		for _, r := range h.Ranks {
			sum += float64(bytes(r))
		}
		most = max(most, sum)
	}
	w.SetTimeout(limit + time.Duration(min(most/allocRate*1e9, float64(24*time.Hour))))
	return func() { w.SetTimeout(limit) }
}
