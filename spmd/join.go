package spmd

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// Join makes the world of which a launcher has made this process a rank. It
// is itself a collective of all ranks. Where it fails the others are told, and
// p is of no more use.
func Join(ctx context.Context, p *boot.Process, opts Options) (*World, error) {
	j := &joining{w: newWorld(p, opts), store: p.Store, base: &machine{p: p, hostID: opts.HostID}}
	return j.run(ctx, opts.Failed)
}

// joining is a rank on its way into a world.
type joining struct {
	w      *World
	store  watch.Store
	base   base
	fenced atomic.Bool // all ranks have come
}

// base carries a world: links and shared memory, or what takes their place in a simulation.
type base interface {
	// open makes the rank's links, and what it shares with its host, and returns its card. What it has opened when
	// it fails belongs to the world.
	open(j *joining) (card, error)
	// share lets the ranks of a host meet, once each knows the roster.
	share(j *joining) error
}

// run returns the world once all ranks have joined. Where that fails the others are told, and then failed, if set,
// is called.
func (j *joining) run(ctx context.Context, failed func(error)) (*World, error) {
	err := j.steps(ctx)
	if err == nil {
		return j.w, nil
	}
	err = j.w.Fail(err)
	if failed != nil {
		failed(err)
	}
	if m, ok := j.w.monitor.(interface{ AwaitLate(context.Context) }); ok {
		m.AwaitLate(ctx)
	}
	j.w.Close()
	return nil, err
}

// steps takes a rank from its place in the job to a world: listen, exchange cards, share memory and links, compare
// clocks. Each step needs the one before at all ranks; ctx bounds the whole.
func (j *joining) steps(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { j.w.fail(j.late(ctx)) })
	defer stop()
	mine, err := j.base.open(j)
	if err != nil {
		return err
	}
	if err := j.meet(ctx, mine); err != nil {
		return err
	}
	if err := j.base.share(j); err != nil {
		return err
	}
	return j.settle()
}

// late is the failure of a join that took too long. Where all ranks have come the one that
// holds up the others is unknown, as after any timeout: it may have been stopped before
// it was linked. The coordinator finds it.
func (j *joining) late(ctx context.Context) error {
	err := watch.GaveUp(ctx, "the ranks did not link up")
	if err.Kind == fault.Launch && j.fenced.Load() {
		err.Kind = fault.Timeout
	}
	return err
}

// meet lets rank 0 gather the cards of all ranks, and send to all what they must
// know of each other. The cards in the store lead each rank to its neighbours in
// the tree along which that happens.
func (j *joining) meet(ctx context.Context, mine card) error {
	w := j.w
	data := mine.encode()
	if err := j.store.Put(ctx, data); err != nil {
		return fault.New(fault.Launch, "publish the card of rank %d: %w", w.rank, err)
	}
	if err := j.store.Fence(ctx); err != nil {
		return err
	}
	j.fenced.Store(true)
	g := w.All()
	all, err := g.Gather(0, data)
	if err != nil {
		return err
	}
	var list []byte
	if w.rank == 0 {
		cards, err := decodeCards(all)
		if err != nil {
			return err
		}
		list = newRoster(cards).encode()
	}
	if list, err = g.Broadcast(0, list); err != nil {
		return err
	}
	r, err := shareValue(w.shared, "roster", func() (*roster, error) { return decodeRoster(list, w.size) })
	if err != nil {
		return err
	}
	w.enter(r)
	return nil
}

// settle is the last part of a join. No rank leaves it before all have opened what
// was shared.
func (j *joining) settle() error {
	if err := j.w.SyncClocks(); err != nil {
		return err
	}
	return j.w.All().Barrier()
}

// machine is the base of a real rank.
type machine struct {
	p      *boot.Process
	hostID string // overrides that of the host, unless empty
	own    *host.Segment
}

// open listens for links and makes a segment of shared memory, before anything is known of the other ranks, and
// describes both in the rank's card.
func (m *machine) open(j *joining) (card, error) {
	w, p := j.w, m.p
	tcp, err := wire.ListenTCP(wire.TCPConfig{
		Rank: p.Rank, Size: p.Size, Secret: p.Secret, Listen: p.Listen,
		Resolve: func(ctx context.Context, rank int) ([]string, error) {
			return w.addressesOf(ctx, p.Store, rank)
		},
		LinkLost: w.reportLostLink, Log: w.log,
	})
	if err != nil {
		return card{}, boot.Limited(fault.Launch, "%w", err)
	}
	w.end = tcp
	w.detector.start(w.ctx, tcp, doubtAfter)
	if m.own, err = host.Create(segmentOf(p, w.rank)); err != nil {
		return card{}, boot.Limited(fault.Launch, "%w", err)
	}
	w.setSegment(m.own)
	return card{
		HostID: cmp.Or(m.hostID, host.ID()), Host: w.name, Kernel: host.Kernel(), CPUs: ownCPUs(),
		Quota: host.CPUQuota("/"), PID: os.Getpid(), SegmentFD: m.own.FD(), IPs: p.IPs, Port: tcp.Port(),
	}, nil
}

// segmentOf distinguishes a rank's memory from that of another job, whose process got the number of one that ended.
func segmentOf(p *boot.Process, rank int) uint64 {
	h := hmac.New(sha256.New, p.Secret)
	fmt.Fprint(h, "segment of rank ", rank)
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// share replaces this rank's own segment by that of the host's lowest rank.
func (m *machine) share(j *joining) error {
	w := j.w
	w.watch.Go(w.watchLinks)
	w.watch.Go(w.watchStandstills)
	// A barrier counts the rounds of Max, and groups that list the same ranks in another order meet in one.
	var met sync.Map // key -> *host.Barrier
	w.meeting = func(key uint64, parties, cores int) (meeting, error) {
		if b, ok := met.Load(key); ok {
			return b.(*host.Barrier), nil
		}
		b, err := w.segment.Load().Barrier(key, parties, cores)
		if err != nil {
			return nil, err
		}
		kept, _ := met.LoadOrStore(key, b)
		return kept.(*host.Barrier), nil
	}
	h := w.roster.hostOf(w.rank)
	leader := w.leader(h)
	w.log.Debug("sharing memory", "ranks", w.Hosts()[h].Ranks, "peer", leader)
	if leader == w.rank {
		return nil
	}
	at := w.roster.segments[h]
	s, err := host.Open(at.pid, at.fd, segmentOf(m.p, leader))
	if err != nil {
		return fault.New(fault.Launch, "rank %d and rank %d are both on %s but cannot share memory: %w", w.rank, leader,
			w.HostName(leader), err).
			WithHint("run all ranks of a host as the same user and in the same container")
	}
	w.setSegment(s)
	return m.own.Close()
}
