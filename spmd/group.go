package spmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/pack"
	"perigee/spmd/boot"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// Group is an ordered set of ranks that meet in collectives. All its methods
// must be called by all members, in the same order.
type Group struct {
	w       *World
	ranks   []int
	me      int    // this rank's place in ranks
	channel uint64 // of all groups of the same ranks
	order   uint16 // distinguishes them: 0 where the ranks are listed in ascending order
	*history

	// Where several members share a host they meet in local, and the first of
	// them meets those of the other hosts over links.
	local   meeting
	leaders []int // places in ranks, one per host; nil if only one host
	lead    int   // this rank's place among the leaders, -1 if it has none
}

// The collectives, as they stand in message headers.
const (
	opBarrier byte = iota + 1
	opBroadcast
	opGather
	opAllGather
	opAllToAll
	opExchange
	opReduce
	opPing
	opEnd
)

var opNames = map[byte]string{
	opBarrier: "barrier", opBroadcast: "broadcast", opGather: "gather",
	opAllGather: "all-gather", opAllToAll: "all-to-all", opExchange: "exchange", opReduce: "reduce",
	opPing: "clock exchange",
	opEnd:  "the end of its scenario",
}

// All is the group of all ranks, less those that Lose has left out.
func (w *World) All() *Group {
	if g := w.all.Load(); g != nil {
		return g
	}
	g := &Group{w: w, ranks: identity(w.size), me: w.rank, channel: w.allChannel()}
	g.history = w.detector.historyOf(g.channel)
	// The first group finds out about the hosts.
	if w.roster == nil {
		return g
	}
	h := w.roster.hostOf(w.rank)
	if err := g.place(w.roster.leaders, h, w.Hosts()[h].Ranks, uint64(w.size)); err != nil {
		panic(err) // cannot be: it is the first to meet in the host's memory
	}
	if w.all.CompareAndSwap(nil, g) {
		return g
	}
	return w.all.Load()
}

// allChannel is the channel of the group of all ranks.
func (w *World) allChannel() uint64 { return host.Key([]int{-w.size}) }

// Group returns the group of these ranks, of which the calling rank must be
// one. It costs no message. Two calls with the same list return the same Group. Members that list the ranks in another
// order are found out in the next collective.
func (w *World) Group(ranks []int) (*Group, error) {
	for _, r := range w.Lost() {
		if slices.Contains(ranks, r) {
			return nil, fmt.Errorf("rank %d of the group %v has ended", r, ranks)
		}
	}
	if slices.Equal(ranks, identity(w.size)) {
		return w.All(), nil
	}
	key := host.Key(ranks)
	if g, ok := w.groups.Load(key); ok {
		return g.(*Group), nil
	}
	if err := w.checkRanks(ranks); err != nil {
		return nil, err
	}
	g := &Group{w: w, ranks: slices.Clone(ranks), me: slices.Index(ranks, w.rank), channel: key}
	if g.me < 0 {
		return nil, fmt.Errorf("rank %d asked for a group of which it is no member: %v", w.rank, ranks)
	}
	ascending := slices.Sorted(slices.Values(ranks))
	if !slices.Equal(ascending, ranks) {
		g.channel, g.order = host.Key(ascending), uint16(key)|1
	}
	if len(ranks) == w.size {
		g.channel = w.allChannel()
	}
	g.history = w.detector.historyOf(g.channel)
	if err := g.findLocal(ascending); err != nil {
		return nil, err
	}
	kept, _ := w.groups.LoadOrStore(key, g)
	return kept.(*Group), nil
}

// checkRanks refuses lists that are no group. Ranks that hold different lists are found later, when they meet.
func (w *World) checkRanks(ranks []int) error {
	if len(ranks) == 0 {
		return errors.New("a group needs at least one rank")
	}
	seen := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= w.size {
			return fmt.Errorf("rank %d does not exist in a world of %d", r, w.size)
		}
		if seen[r] {
			return fmt.Errorf("rank %d is twice in a group", r)
		}
		seen[r] = true
	}
	return nil
}

// findLocal finds the members on this host, and the first member on each. Those on one host meet in whatever order
// they list the group.
func (g *Group) findLocal(ascending []int) error {
	seen := map[int]bool{}
	var locals []int
	var leaders []int
	here, lead := g.w.roster.hostOf(g.w.rank), -1
	for at, r := range g.ranks {
		h := g.w.roster.hostOf(r)
		if !seen[h] {
			seen[h] = true
			leaders = append(leaders, at)
		}
		if h == here {
			locals = append(locals, r)
		}
	}
	if g.ranks[g.me] == locals[0] {
		lead = slices.Index(leaders, g.me)
	}
	key := uint64(g.w.size) // that of the group of all ranks
	if len(ascending) < g.w.size {
		key = host.Key(append(slices.Sorted(slices.Values(locals)), ascending...))
	}
	return g.place(leaders, lead, locals, key)
}

// place sets which members, by their places, stand for their hosts, and opens the
// meeting of the members on this host under key.
func (g *Group) place(leaders []int, lead int, locals []int, key uint64) error {
	if len(leaders) > 1 {
		g.leaders, g.lead = leaders, -1
		if locals[0] == g.w.rank {
			g.lead = lead
		}
	}
	if len(locals) == 1 {
		return nil
	}
	var err error
	if g.local, err = g.w.meeting(key, len(locals), g.w.Hosts()[g.w.roster.hostOf(g.w.rank)].CPUs); err != nil {
		return fault.New(fault.Resource, "%w", err).WithHint("reuse groups instead of making new ones")
	}
	return nil
}

// Ranks returns the members in order. The caller must not change them.
func (g *Group) Ranks() []int { return g.ranks }

// Size is the number of members.
func (g *Group) Size() int { return len(g.ranks) }

// Meeting distinguishes the group's last collective from those before it and from those of other groups. It is the
// same at all members, and not 0.
func (g *Group) Meeting() uint64 { return g.channel<<32 | uint64(callLog(g.calls.Load()).seq()) }

// Me is the calling rank's place among the members.
func (g *Group) Me() int { return g.me }

// context bounds one collective.
func (g *Group) context() (context.Context, context.CancelFunc) {
	if g.w.timeout == 0 {
		return g.w.ctx, func() {}
	}
	l := limit(g.w.ctx, g.w.timeout, host.ErrTimeout)
	return l, l.stop
}

// newsWait is how long a rank that met the consequences of a failure waits to
// hear of the failure itself, so that the first to be blamed is the culprit.
const newsWait = 2 * time.Second

// isEcho reports whether an error has the looks of another rank's failure
// from here: another rank of this host knows of it, or a link has ended.
func isEcho(err error) bool {
	if errors.Is(err, host.ErrTimeout) {
		return false
	}
	_, judged := errors.AsType[*fault.Error](err)
	return !judged
}

// explain turns the end of a wait into what the user should read.
func (g *Group) explain(op byte, err error) error {
	if cause := context.Cause(g.w.ctx); cause != nil {
		return cause
	}
	if down := boot.NoLoopback(err); down != nil {
		return down
	}
	if wire.LacksPorts(err) {
		return boot.Limited(fault.RankLost, "%s of %d ranks: %w", opNames[op], len(g.ranks), err)
	}
	// A forged frame is no echo. Until the ranks have met no watchLinks reports it, and the other rank, which takes the
	// end of the link for this one's, must not be the first to report that.
	early := errors.Is(err, wire.ErrForged) && !g.w.entered.Load()
	if g.w.monitor.Failed() != nil && isEcho(err) && !early {
		select {
		case <-g.w.ctx.Done():
			return context.Cause(g.w.ctx)
		case <-time.After(newsWait):
		}
	}
	if errors.Is(err, host.ErrTimeout) {
		return fault.New(fault.Timeout, "%s of %d ranks: %w within %v", opNames[op], len(g.ranks), err, g.w.timeout).
			WithHint("a longer --timeout, if the ranks are only slow")
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	lost := fault.New(fault.RankLost, "%s of %d ranks: %w", opNames[op], len(g.ranks), err)
	if early {
		return lost.WithHint(alteredHint)
	}
	return lost
}

func (g *Group) send(ctx context.Context, place int, op byte, seq uint32, data []byte) error {
	g.w.sent.messages.Add(1)
	g.w.sent.bytes.Add(int64(len(data)))
	return g.w.end.Send(ctx, g.ranks[place], g.current(op, seq).header(), data)
}

func (g *Group) recv(ctx context.Context, place int, op byte, seq uint32) ([]byte, error) {
	h, data, err := g.await(ctx, place, op, seq)
	if err != nil {
		return nil, err
	}
	if mine := g.current(op, seq); h != mine.header() {
		return nil, g.disagree(mine, g.ranks[place], g.callOf(h))
	}
	return data, nil
}

// Barrier returns when all members have called it. As of all collectives, the error is the job's failure if it has
// failed, of the kind Timeout if the others do not come, and of the kind Script if they have called something else.
func (g *Group) Barrier() error {
	seq := g.beginBarrier()
	if err := g.w.aborted(); err != nil {
		return err
	}
	if err := g.barrier(seq); err != nil {
		return g.explain(opBarrier, err)
	}
	return nil
}

// barrier lets the members of a host meet, then one of each host, then those
// of a host again. The three together may take the world's timeout.
func (g *Group) barrier(seq uint32) error {
	if g.leaders == nil {
		if g.local == nil {
			return nil
		}
		return g.local.Wait(seq, g.w.timeout)
	}
	// The clock is read where there are several hosts only: a barrier in shared
	// memory takes about as long.
	ctx, cancel := g.context()
	defer cancel()
	if g.local != nil {
		if err := g.local.Wait(seq, g.w.timeout); err != nil {
			return err
		}
	}
	if g.lead >= 0 {
		if err := g.meetLeaders(ctx, seq); err != nil {
			return err
		}
	}
	if g.local == nil {
		return nil
	}
	return g.local.Wait(seq, rest(ctx))
}

// rest is how much of a context's time is left: at least a nanosecond, since 0
// means that there is no bound.
func rest(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return 0
	}
	return max(time.Until(deadline), 1)
}

// meetLeaders is the barrier of those who stand for their hosts, in log2 of them rounds. In round k of a
// dissemination each sends to the one 2^k places on, and receives from the one 2^k places before. Where their
// number is a power of two the two are one (recursive doubling): then each message acknowledges the one before it
// on its link.
func (g *Group) meetLeaders(ctx context.Context, seq uint32) error {
	n := len(g.leaders)
	for d := 1; d < n; d *= 2 {
		to, from := (g.lead+d)%n, (g.lead-d+n)%n
		if n&(n-1) == 0 {
			to, from = g.lead^d, g.lead^d
		}
		if err := g.send(ctx, g.leaders[to], opBarrier, seq, nil); err != nil {
			return err
		}
		if _, err := g.recv(ctx, g.leaders[from], opBarrier, seq); err != nil {
			return err
		}
	}
	return nil
}

// collective runs the body of a collective with its context and number.
func collective[T any](g *Group, op byte, body func(ctx context.Context, seq uint32) (T, error)) (T, error) {
	return rooted(g, op, -1, body)
}

// rooted is collective for one whose root, a place in the group, all members must
// agree on.
func rooted[T any](g *Group, op byte, root int, body func(ctx context.Context, seq uint32) (T, error)) (T, error) {
	ctx, cancel := g.context()
	defer cancel()
	seq := g.begin(op, root)
	// Where the messages of others are always there, nothing else would end a loop.
	if err := g.w.aborted(); err != nil {
		var none T
		return none, err
	}
	if g.local != nil {
		var stop func()
		ctx, stop = g.watchBarrier(ctx)
		defer stop()
	}
	v, err := body(ctx, seq)
	if err != nil {
		return v, g.explain(op, err)
	}
	return v, nil
}

// watchBarrier ends a collective if another rank of this host waits in shared memory
// for this one to come into a barrier which will not happen: that is a wait for
// several ranks at once, and none of them is asked.
func (g *Group) watchBarrier(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	log := callLog(g.calls.Load())
	first := time.AfterFunc(doubtAfter, func() {
		called := g.local.Called()
		for log.op(called) == 0 || log.op(called) == opBarrier {
			select {
			case <-ctx.Done():
				return
			case <-time.After(doubtAfter):
			}
			called = g.local.Called()
		}
		cancel(fault.New(fault.Script, "ranks disagree on what to do: rank %d is in %s (call %d of this group), another of this host in %s (call %d)",
			g.w.rank, opNames[log.op(called)], called, opNames[opBarrier], called).WithHint(disagreeHint))
	})
	return ctx, func() {
		first.Stop()
		cancel(nil)
	}
}

// Broadcast returns root's data at every member. root is a place in the group;
// the others' data is not looked at.
func (g *Group) Broadcast(root int, data []byte) ([]byte, error) {
	if err := g.checkRoot(root); err != nil {
		return nil, err
	}
	return rooted(g, opBroadcast, root, func(ctx context.Context, seq uint32) ([]byte, error) {
		return g.down(ctx, root, opBroadcast, seq, data)
	})
}

func (g *Group) checkRoot(root int) error {
	if root < 0 || root >= len(g.ranks) {
		return fault.New(fault.Script, "root %d is not a place in a group of %d", root, len(g.ranks))
	}
	return nil
}

// Gather returns all members' data, in the order of the group, at root, and nil
// at the others.
func (g *Group) Gather(root int, data []byte) ([][]byte, error) {
	if err := g.checkRoot(root); err != nil {
		return nil, err
	}
	return rooted(g, opGather, root, func(ctx context.Context, seq uint32) ([][]byte, error) {
		packed, err := g.up(ctx, root, opGather, seq, pack.AppendBytes(nil, data), join)
		if err != nil || g.me != root {
			return nil, err
		}
		pieces, err := g.unpack(packed)
		return rotate(pieces, -root), err
	})
}

// AllGather returns all members' data, in the order of the group, everywhere.
// It goes up a tree and down again: no member sends more than three messages.
func (g *Group) AllGather(data []byte) ([][]byte, error) {
	return collective(g, opAllGather, func(ctx context.Context, seq uint32) ([][]byte, error) {
		packed, err := g.upAndDown(ctx, opAllGather, seq, pack.AppendBytes(nil, data), join)
		if err != nil {
			return nil, err
		}
		return g.unpack(packed)
	})
}

// End returns when all members have called it. Unlike a barrier it meets no
// other collective by mistake: a member that is still in one is told, like this
// one, that they disagree.
func (g *Group) End() error {
	_, err := collective(g, opEnd, func(ctx context.Context, seq uint32) ([]byte, error) {
		return g.upAndDown(ctx, opEnd, seq, nil, join)
	})
	return err
}

// AllToAll sends data[i] to member i and returns what the members sent to this
// one. data has one piece per member.
func (g *Group) AllToAll(data [][]byte) ([][]byte, error) {
	n := len(g.ranks)
	if len(data) != n {
		return nil, fault.New(fault.Script, "all-to-all in a group of %d needs %d pieces, got %d", n, n, len(data))
	}
	return collective(g, opAllToAll, func(ctx context.Context, seq uint32) ([][]byte, error) {
		got := make([][]byte, n)
		got[g.me] = slices.Clone(data[g.me])
		for d := 1; d < n; d++ {
			to := (g.me + d) % n
			if err := g.send(ctx, to, opAllToAll, seq, data[to]); err != nil {
				return nil, err
			}
		}
		for d := 1; d < n; d++ {
			from := (g.me - d + n) % n
			var err error
			if got[from], err = g.recv(ctx, from, opAllToAll, seq); err != nil {
				return nil, err
			}
		}
		return got, nil
	})
}

// rotate turns pieces left by k places; a negative k turns right.
func rotate(pieces [][]byte, k int) [][]byte {
	n := len(pieces)
	k = ((k % n) + n) % n
	return append(slices.Clone(pieces[k:]), pieces[:k]...)
}

// Exchange gives data to some members, by their places, and returns what they
// give in turn, in the same order. Each of two members must name the other, or neither.
func (g *Group) Exchange(with []int, data []byte) ([][]byte, error) {
	return collective(g, opExchange, func(ctx context.Context, seq uint32) ([][]byte, error) {
		for _, place := range with {
			if place == g.me {
				continue
			}
			if err := g.send(ctx, place, opExchange, seq, data); err != nil {
				return nil, err
			}
		}
		got := make([][]byte, len(with))
		for i, place := range with {
			if place == g.me {
				got[i] = slices.Clone(data)
				continue
			}
			var err error
			if got[i], err = g.recv(ctx, place, opExchange, seq); err != nil {
				return nil, err
			}
		}
		return got, nil
	})
}

func join(mine, theirs []byte) ([]byte, error) { return append(mine, theirs...), nil }

// unpack reads a list of one piece per member.
func (g *Group) unpack(data []byte) ([][]byte, error) {
	p := pack.Read(data)
	pieces := make([][]byte, len(g.ranks))
	for i := range pieces {
		pieces[i] = p.Bytes()
	}
	return pieces, p.End("what the members of a group have given")
}
