package shm

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/nixl"
	"perigee/nixl/device"
	"perigee/nixl/internal/kernel"
)

// chunk bounds how much is copied between two looks at the abort flag and the
// clock: about a millisecond's worth.
const chunk = 4 << 20

// piece is one descriptor at both ends.
type piece struct{ dst, src []byte }

// task is one prepared transfer: pieces to copy, or requests to a file.
type task struct {
	number   int // of the peer, or nixl.Self
	op       nixl.Op
	peer     *peer
	notice   []byte // sent when the copy is done, if not nil
	pieces   []piece
	file     *device.File
	requests []kernel.FilePiece
	bytes    int64
	prep     int64 // nanoseconds
}

func newTask(t nixl.Transfer, p *peer, local, remote []byte) task {
	start := clock.Now()
	k := task{number: t.Peer, op: t.Op, peer: p, pieces: make([]piece, len(t.Local)), bytes: t.Bytes(),
		notice: slices.Clone(t.Notice)}
	for i, l := range t.Local {
		r := t.Remote[i]
		k.pieces[i] = pair(t.Op, local[l.Off:l.Off+l.Len:l.Off+l.Len], remote[r.Off:r.Off+r.Len:r.Off+r.Len])
	}
	k.prep = clock.Now() - start
	return k
}

// limits is a nixl.Control in use.
type limits struct {
	nixl.Control
	stop   *atomic.Int32 // set by Wait and Release; nil in Run
	unpaid int64         // bytes copied since the last look
}

var errDeadline = errors.New("deadline")

// look is called now and then, with the time.
func (l *limits) look(now int64) error {
	if l.Abort != nil && atomic.LoadUint32(l.Abort) != 0 {
		return nixl.ErrAborted
	}
	if l.stop != nil {
		switch l.stop.Load() {
		case stopAbort:
			return nixl.ErrAborted
		case stopDeadline:
			return errDeadline
		}
	}
	if l.Deadline != 0 && now >= l.Deadline {
		return errDeadline
	}
	return nil
}

// A piece counts as perPiece bytes at least, so that many tiny ones are looked at
// as often as a few large ones.
const perPiece = 4 << 10

// pay looks after every chunk bytes.
func (l *limits) pay(n int) error {
	l.unpaid += int64(max(n, perPiece))
	if l.unpaid < chunk {
		return nil
	}
	l.unpaid = 0
	return l.look(clock.Now())
}

// copy moves all pieces of a transfer.
func (k *task) copy(l *limits) error {
	for _, p := range k.pieces {
		if len(p.src) <= chunk {
			copy(p.dst, p.src)
			if err := l.pay(len(p.src)); err != nil {
				return err
			}
			continue
		}
		for from := 0; from < len(p.src); from += chunk {
			to := min(from+chunk, len(p.src))
			copy(p.dst[from:to], p.src[from:to])
			if err := l.pay(to - from); err != nil && to < len(p.src) {
				return err
			}
		}
	}
	return nil
}

type batch struct {
	agent    *agent
	tasks    []task
	bytes    int64
	prep     int64
	requests []kernel.FilePiece // of all tasks with files
	waiting  []int              // by task, its requests that are not complete
	posted   *posted
	runs     int64 // that went well
	broken   error // why the batch cannot run again
	released bool
}

func (b *batch) Len() int     { return len(b.tasks) }
func (b *batch) Bytes() int64 { return b.bytes }
func (b *batch) Prep() int64  { return b.prep }

func (b *batch) usable() error { return nixl.Usable("shm", b.broken, b.released, b.posted != nil) }

// Run copies the batch n times in this goroutine: the engine's work is the copy itself, and a handover would be
// measured with it. After an error the batch is broken, as part of a run may have been copied.
func (b *batch) Run(ctl nixl.Control, n int, times []nixl.Times) error {
	if err := b.usable(); err != nil {
		return err
	}
	if times != nil && len(times) != n {
		return fmt.Errorf("shm: %d runs but room for %d stamps", n, len(times))
	}
	l := &limits{Control: ctl}
	var unused nixl.Times
	for i := range n {
		t := &unused
		if times != nil {
			t = &times[i]
		}
		if err := b.once(l, t); err != nil {
			b.broken = err
			return err
		}
	}
	b.runs += int64(n)
	return nil
}

// once runs the batch a single time and stamps it.
func (b *batch) once(l *limits, t *nixl.Times) error {
	now := clock.Now()
	t.Start, t.Posted = now, now
	if err := l.look(now); err != nil {
		return b.explain(err, 0)
	}
	if len(b.requests) > 0 {
		return b.onceWithFiles(l, t)
	}
	return b.copyAll(l, t)
}

// copyAll copies what is not to do with files, and stamps it.
func (b *batch) copyAll(l *limits, t *nixl.Times) error {
	now := t.Posted
	stampEach := len(t.Done) == len(b.tasks)
	for i := range b.tasks {
		k := &b.tasks[i]
		if k.file != nil {
			continue
		}
		if k.peer.process.Gone() {
			return fault.New(fault.RankLost, "transfer with peer %d: its process is gone", k.number)
		}
		if err := k.copy(l); err != nil {
			return b.explain(err, i)
		}
		if k.notice != nil {
			if err := b.agent.notify(k.peer, k.notice); err != nil {
				return fault.New(fault.Engine, "notice to peer %d: %w", k.number, err)
			}
		}
		if stampEach {
			now = clock.Now()
			t.Done[i] = now
		}
	}
	if !stampEach {
		now = clock.Now()
	}
	t.End = now
	return nil
}

// explain turns a passed deadline into the error that names the peers whose
// transfers, from the given one on, were not complete.
func (b *batch) explain(err error, from int) error {
	if err != errDeadline {
		return err
	}
	var peers []int
	for _, k := range b.tasks[from:] {
		peers = append(peers, k.number)
	}
	slices.Sort(peers)
	return &nixl.TimeoutError{Peers: slices.Compact(peers)}
}

// posted is a run in its own goroutine.
type posted struct {
	stop  atomic.Int32  // one of the reasons below
	done  chan struct{} // closed when times and err are final
	times nixl.Times
	err   error
}

// Why a posted run is to end early.
const (
	goOn int32 = iota
	stopAbort
	stopDeadline
)

// Post copies in a goroutine. The stamps are taken there, but for Start, which is when Post was called.
func (b *batch) Post() error {
	if err := b.usable(); err != nil {
		return err
	}
	p := &posted{done: make(chan struct{}), times: nixl.Times{Done: make([]int64, len(b.tasks))}}
	b.posted = p
	start := clock.Now()
	go func() {
		defer close(p.done)
		p.err = b.once(&limits{stop: &p.stop}, &p.times)
		p.times.Start, p.times.Posted = start, max(p.times.Posted, start)
		if len(b.requests) == 0 {
			p.times.Posted = start
		}
	}()
	return nil
}

func (b *batch) Done() (bool, error) {
	if b.posted == nil {
		return false, errors.New("shm: the batch was not posted")
	}
	select {
	case <-b.posted.done:
		return true, nil
	default:
		return false, nil
	}
}

// Wait waits for the goroutine of Post, and makes it stop if the time is over or the job has failed.
func (b *batch) Wait(ctl nixl.Control, t *nixl.Times) error {
	p := b.posted
	if p == nil {
		return errors.New("shm: the batch was not posted")
	}
	p.await(ctl)
	b.posted = nil
	b.broken = p.err
	if p.err == nil {
		b.runs++
	}
	if p.err == nil && t != nil {
		t.Start, t.Posted, t.End = p.times.Start, p.times.Posted, p.times.End
		if len(t.Done) == len(b.tasks) {
			copy(t.Done, p.times.Done)
		}
	}
	return p.err
}

// How Wait waits: it stays on the processor for as long as small transfers take, and
// looks at the control once in a while after that.
const (
	spinFor   = 50 * time.Microsecond
	lookEvery = time.Millisecond
)

// await returns when the run is over, which it makes happen if the control says so.
func (p *posted) await(ctl nixl.Control) {
	for until := clock.Now() + int64(spinFor); clock.Now() < until; runtime.Gosched() {
		select {
		case <-p.done:
			return
		default:
		}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		switch (&limits{Control: ctl}).look(clock.Now()) {
		case nixl.ErrAborted:
			p.end(stopAbort)
			return
		case errDeadline:
			p.end(stopDeadline)
			return
		}
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
	}
}

// end stops the run at its next look.
func (p *posted) end(why int32) {
	p.stop.Store(why)
	<-p.done
}

// Release ends a posted run and gives the batch back to the agent.
func (b *batch) Release() error {
	if b.released {
		return nil
	}
	b.released = true
	if b.posted != nil {
		b.posted.end(stopAbort)
		b.posted = nil
	}
	b.agent.count(b)
	b.tasks, b.requests, b.waiting = nil, nil, nil
	delete(b.agent.batches, b)
	return nil
}
