package spmd

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

// detector asks other ranks about their calls, and answers them.
type detector struct {
	end  sender
	life context.Context
	// after is how long a rank waits before it asks; 0 in simulations: ranks do not disagree there.
	after time.Duration

	histories sync.Map // channel -> *history

	mu    sync.Mutex
	waits map[uint64]*wait
	last  uint64 // number of a wait
	open  []inquiry
	asked atomic.Int32 // length of open, looked at by every call
}

// sender sends the messages of a detector.
type sender interface {
	Send(ctx context.Context, to int, h wire.Header, data []byte) error
}

// inquiry is the question of a rank that has waited for another. It is kept until it can be answered.
type inquiry struct {
	from int
	wait uint64 // the number that the asker has given to its wait
	call
}

// start begins to ask and to answer over an endpoint, until life ends.
func (d *detector) start(life context.Context, end wire.Endpoint, after time.Duration) {
	d.life, d.end, d.after = life, end, after
	end.HandleControl(d.handle)
}

// historyOf returns the history of the groups that use a channel.
func (d *detector) historyOf(channel uint64) *history {
	h, _ := d.histories.LoadOrStore(channel, &history{})
	return h.(*history)
}

// ask sends an inquiry. The answer, if there is one, ends the wait. ctx is that of the
// collective.
func (d *detector) ask(ctx context.Context, its *wait) (forget func()) {
	d.mu.Lock()
	d.last++
	id := d.last
	if d.waits == nil {
		d.waits = map[uint64]*wait{}
	}
	d.waits[id] = its
	d.mu.Unlock()
	send, cancel := d.life, context.CancelFunc(func() {})
	if deadline, bounded := ctx.Deadline(); bounded {
		// Not ctx itself: a message that was given up half sent breaks the link.
		send, cancel = context.WithDeadline(d.life, deadline)
	}
	go func() {
		defer cancel()
		d.end.Send(send, its.g.ranks[its.place], wire.Header{Channel: its.channel, Seq: its.seq, Op: wire.Control},
			encodeControl(isInquiry, id, its.call))
	}()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waits, id)
	}
}

// handleControl hears an inquiry or an answer.
func (d *detector) handle(from int, h wire.Header, data []byte) {
	kind, id, c, err := decodeControl(data)
	if err != nil {
		return // it was only a question
	}
	c.channel = h.Channel
	if kind == isInquiry {
		d.add(inquiry{from, id, c})
		d.answer()
		return
	}
	if kind == isAgreement {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if its := d.waits[id]; its != nil && its.g.ranks[its.place] == from && its.channel == c.channel {
		its.over(its.g.disagree(its.call, from, c))
	}
}

// add keeps an inquiry until it is answered. Of one rank and group only the last
// counts.
func (d *detector) add(q inquiry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(old inquiry) bool { return old.from == q.from && old.channel == q.channel })
	d.open = append(d.open, q)
	d.asked.Store(int32(len(d.open)))
}

// answer answers the inquiries that can be answered. It is called after an inquiry is
// added and after a call begins, so that none is overlooked.
func (d *detector) answer() {
	if d.asked.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(q inquiry) bool {
		mine, known, differs := d.compare(q.call)
		if known {
			kind := isAgreement
			if differs {
				kind = isAnswer
			}
			header := wire.Header{Channel: q.channel, Seq: q.seq, Op: wire.Control}
			go d.end.Send(d.life, q.from, header, encodeControl(kind, q.wait, mine))
		}
		return known
	})
	d.asked.Store(int32(len(d.open)))
}

// compare reports whether this rank has come as far as another rank's call, and if it
// has, whether it is, or was, in a different one.
func (d *detector) compare(theirs call) (mine call, known, differs bool) {
	met, ok := d.histories.Load(theirs.channel)
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
