package spmd

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/fault"
	"perigee/internal/pack"
	"perigee/spmd/wire"
)

// Ranks that call different collectives of a group may wait for each other for
// ever. A rank that has waited for long therefore asks the rank that it waits for
// which call it is in. The answer is a proof, since it comes after all that the other
// rank has sent before: if that rank is in another collective with the same number, or past
// that number, then what is waited for will not come.
//
// In a group whose ranks are all stuck some rank gets such an answer. Let A wait for
// B. If B is in the same call, or in an earlier one, B waits as well, and so on: the
// numbers never rise, so a circle of ranks would all be in the same call of the same
// collective, which does not happen. Ranks that wait for each other in different
// groups find nothing out; --timeout ends that.

// doubtAfter is how long a rank waits for another before it asks.
const doubtAfter = 200 * time.Millisecond

// callLog is the number of a group's last call, in the upper half, and the last
// collectives that it was in, four bits each, the last one lowest.
type callLog uint64

const loggedCalls = 8 // calls of which a log knows the collective

func (l callLog) seq() uint32 { return uint32(l >> 32) }

func (l callLog) next(op byte) callLog {
	return callLog(l.seq()+1)<<32 | (l<<4|callLog(op))&0xffffffff
}

// op is the collective of a call, 0 if it is not known.
func (l callLog) op(seq uint32) byte {
	back := l.seq() - seq
	if back >= loggedCalls {
		return 0
	}
	return byte(l>>(4*back)) & 0xf
}

// history is what a rank has called of all groups of the same ranks. They have one, so that members that list the ranks
// in another order find that out.
type history struct {
	calls   atomic.Uint64 // a callLog
	calling sync.Mutex    // held while root or lastOrder change, together with calls
	root    int           // of the last call that was no barrier
	// lastOrder is that of the group of the last call. Only the rank's calls change it, and they follow one another.
	lastOrder uint16
}

// historyOf returns the history of the groups that use a channel.
func (w *World) historyOf(channel uint64) *history {
	h, _ := w.histories.LoadOrStore(channel, &history{})
	return h.(*history)
}

// begin is called at the beginning of each call. root is -1 where there is none.
func (g *Group) begin(op byte, root int) uint32 {
	g.calling.Lock()
	g.root, g.lastOrder = root, g.order
	l := callLog(g.calls.Load()).next(op)
	g.calls.Store(uint64(l))
	g.calling.Unlock()
	g.w.answer()
	return l.seq()
}

// beginBarrier is begin for barriers, some of which take little longer than a lock.
func (g *Group) beginBarrier() uint32 {
	if g.lastOrder != g.order {
		return g.begin(opBarrier, -1)
	}
	l := callLog(g.calls.Load()).next(opBarrier)
	g.calls.Store(uint64(l))
	g.w.answer()
	return l.seq()
}

// call is what a rank is in.
type call struct {
	channel uint64
	seq     uint32
	op      byte
	root    int // a place in the group, or the variant of a reduction; -1 where there is none
	order   uint16
}

// current is the call that this rank is in.
func (g *Group) current(op byte, seq uint32) call {
	c := call{g.channel, seq, op, g.root, g.order}
	if op == opBarrier {
		c.root = -1
	}
	return c
}

// header is how the call stands above its messages, with as much of the root and the order as there is
// room for.
func (c call) header() wire.Header {
	return wire.Header{Channel: c.channel, Seq: c.seq, Op: c.op, Root: uint16(c.root+1) + c.order}
}

// callOf reads a header. The order is that of this group, or the ascending one, or otherOrder.
func (g *Group) callOf(h wire.Header) call {
	places := max(len(g.ranks), 2*len(combines))
	for _, order := range []uint16{g.order, 0} {
		if root := int(h.Root-order) - 1; root < places {
			return call{h.Channel, h.Seq, h.Op, root, order}
		}
	}
	return call{h.Channel, h.Seq, h.Op, -1, otherOrder}
}

// otherOrder is none that a group has.
const otherOrder = 0xfffe

// text names the call for the user.
func (c call) text(g *Group) (name string, number uint32) {
	if c.op == opReduce {
		return reduction(c.root), c.seq
	}
	name = opNames[c.op]
	if c.root >= 0 && c.root < len(g.ranks) {
		name += " with root " + strconv.Itoa(g.ranks[c.root])
	}
	return name, c.seq
}

// inquiry is what a rank asks that has waited for another.
type inquiry struct {
	from int
	wait uint64 // the number that the asker has given to its wait
	call
}

// doubts are those of a rank, and those of others that it cannot answer yet.
type doubts struct {
	mu    sync.Mutex
	waits map[uint64]*wait
	last  uint64 // number of a wait
	open  []inquiry
	asked atomic.Int32 // length of open, looked at by every call
}

// wait is a wait of this rank for another.
type wait struct {
	g     *Group
	place int
	call
	over context.CancelCauseFunc
}

// await receives the next message from a member.
func (g *Group) await(ctx context.Context, place int, op byte, seq uint32) (wire.Header, []byte, error) {
	from := g.ranks[place]
	if g.w.doubtAfter == 0 || !g.w.entered.Load() {
		return g.w.end.Recv(ctx, from, g.channel)
	}
	soon := limit(ctx, g.w.doubtAfter, errDoubt)
	h, data, err := g.w.end.Recv(soon, from, g.channel)
	soon.stop()
	if !errors.Is(err, errDoubt) {
		return h, data, err
	}
	waiting, over := context.WithCancelCause(ctx)
	defer over(nil)
	forget := g.ask(ctx, &wait{g: g, place: place, call: g.current(op, seq), over: over})
	defer forget()
	return g.w.end.Recv(waiting, from, g.channel)
}

var errDoubt = errors.New("it takes long")

// ask sends an inquiry. The answer, if there is one, ends the wait. ctx is that of the
// collective.
func (g *Group) ask(ctx context.Context, its *wait) (forget func()) {
	d := &g.w.doubts
	d.mu.Lock()
	d.last++
	id := d.last
	if d.waits == nil {
		d.waits = map[uint64]*wait{}
	}
	d.waits[id] = its
	d.mu.Unlock()
	send, cancel := g.w.ctx, context.CancelFunc(func() {})
	if deadline, bounded := ctx.Deadline(); bounded {
		// Not ctx itself: a message that was given up half sent breaks the link.
		send, cancel = context.WithDeadline(g.w.ctx, deadline)
	}
	go func() {
		defer cancel()
		g.w.end.Send(send, g.ranks[its.place], wire.Header{Channel: g.channel, Seq: its.seq, Op: wire.Control},
			encodeControl(isInquiry, id, its.call))
	}()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waits, id)
	}
}

// handleControl hears an inquiry or an answer.
func (w *World) handleControl(from int, h wire.Header, data []byte) {
	kind, id, c, err := decodeControl(data)
	if err != nil {
		return // it was only a question
	}
	c.channel = h.Channel
	if kind == isInquiry {
		w.doubts.add(inquiry{from, id, c})
		w.answer()
		return
	}
	if kind == isAgreement {
		return
	}
	w.doubts.mu.Lock()
	defer w.doubts.mu.Unlock()
	if its := w.doubts.waits[id]; its != nil && its.g.ranks[its.place] == from && its.channel == c.channel {
		its.over(its.g.disagree(its.call, from, c))
	}
}

// add keeps an inquiry until it is answered. Of one rank and group only the last
// counts.
func (d *doubts) add(q inquiry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(old inquiry) bool { return old.from == q.from && old.channel == q.channel })
	d.open = append(d.open, q)
	d.asked.Store(int32(len(d.open)))
}

// answer answers the inquiries that can be answered. It is called after an inquiry is
// added and after a call begins, so that none is overlooked.
func (w *World) answer() {
	d := &w.doubts
	if d.asked.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(q inquiry) bool {
		mine, known, differs := w.compare(q.call)
		if known {
			kind := isAgreement
			if differs {
				kind = isAnswer
			}
			header := wire.Header{Channel: q.channel, Seq: q.seq, Op: wire.Control}
			go w.end.Send(w.ctx, q.from, header, encodeControl(kind, q.wait, mine))
		}
		return known
	})
	d.asked.Store(int32(len(d.open)))
}

// compare reports whether this rank has come as far as another rank's call, and if it
// has, whether it is, or was, in a different one.
func (w *World) compare(theirs call) (mine call, known, differs bool) {
	met, ok := w.histories.Load(theirs.channel)
	if !ok {
		return mine, false, false
	}
	h := met.(*history)
	h.calling.Lock()
	log := callLog(h.calls.Load())
	now := call{theirs.channel, log.seq(), log.op(log.seq()), h.root, h.lastOrder}
	h.calling.Unlock()
	if now.op == opBarrier {
		now.root = -1
	}
	switch ahead := int32(now.seq - theirs.seq); {
	case ahead < 0 || now.op == 0:
		return now, false, false
	case ahead == 0:
		return now, true, now != theirs
	}
	if then := log.op(theirs.seq); then != 0 && then != theirs.op {
		return call{theirs.channel, theirs.seq, then, -1, theirs.order}, true, true
	}
	return now, true, true
}

// disagree is the error of a rank that waits in a call for one that is in another.
func (g *Group) disagree(mine call, rank int, theirs call) error {
	myName, myNumber := mine.text(g)
	itsName, itsNumber := theirs.text(g)
	hint := disagreeHint
	if mine.order != theirs.order {
		itsName, hint = itsName+" with the ranks in another order", orderHint
	}
	return fault.New(fault.Script, "ranks disagree on what to do: rank %d is in %s (call %d of this group), rank %d in %s (call %d)",
		g.w.rank, myName, myNumber, rank, itsName, itsNumber).WithHint("%s", hint)
}

const disagreeHint = "all ranks of a group must call its collectives in the same order; look for one inside an if"

const orderHint = "all ranks of a group must list its ranks in the same order"

// The kinds of control messages. An agreement says nothing, but it is the next frame of its link: if what the asker
// waits for was dropped on the way, the link ends here (wire.ErrForged), where no other frame might follow.
const (
	isInquiry = iota
	isAnswer
	isAgreement
)

func encodeControl(kind int, wait uint64, c call) []byte {
	b := []byte{byte(kind), c.op}
	b = binary.AppendUvarint(b, uint64(c.seq))
	b = binary.AppendUvarint(b, uint64(c.root+1))
	b = binary.AppendUvarint(b, uint64(c.order))
	return binary.AppendUvarint(b, wait)
}

func decodeControl(data []byte) (kind int, wait uint64, c call, err error) {
	p := pack.Read(data)
	kind, c.op = p.Number(isAgreement), byte(p.Number(int(opEnd)))
	c.seq, c.root = uint32(p.Number(1<<32-1)), p.Number(maxNumber)-1
	c.order = uint16(p.Number(1<<16 - 1))
	wait = uint64(p.Number(1 << 62))
	return kind, wait, c, p.End("a question of another rank")
}
