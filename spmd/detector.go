package spmd

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

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

// detector asks other ranks about their calls, and answers them.
type detector struct {
	end  wire.Endpoint
	life context.Context
	// after is how long a rank waits before it asks; 0 in simulations: ranks do not disagree there.
	after time.Duration

	histories sync.Map // channel -> *history
	waits     sync.Map // peer -> *wait

	mu    sync.Mutex
	open  map[peer]wire.Header // the questions that cannot be answered yet
	asked atomic.Int32         // how many these are, looked at by every call
}

// peer is another rank in a group. A rank waits for one message of it at a time, and asks about one call.
type peer struct {
	rank    int
	channel uint64
}

// wait is a wait of this rank for another.
type wait struct {
	g *Group
	call
	over context.CancelCauseFunc
}

// start begins to ask and to answer over an endpoint, until life ends.
func (d *detector) start(life context.Context, end wire.Endpoint, after time.Duration) {
	d.life, d.end, d.after = life, end, after
	d.open = map[peer]wire.Header{}
	end.HandleControl(d.handle)
}

// historyOf returns the history of the groups that use a channel.
func (d *detector) historyOf(channel uint64) *history {
	h, _ := d.histories.LoadOrStore(channel, &history{})
	return h.(*history)
}

var errDoubt = errors.New("it takes long")

// await receives the next message from a member.
func (g *Group) await(ctx context.Context, place int, op byte, seq uint32) (wire.Header, []byte, error) {
	from := peer{g.ranks[place], g.channel}
	d := &g.w.detector
	if d.after == 0 || !g.w.entered.Load() {
		return g.w.end.Recv(ctx, from.rank, from.channel)
	}
	soon := limit(ctx, d.after, errDoubt)
	h, data, err := g.w.end.Recv(soon, from.rank, from.channel)
	soon.stop()
	if !errors.Is(err, errDoubt) {
		return h, data, err
	}
	waiting, over := context.WithCancelCause(ctx)
	defer over(nil)
	w := &wait{g, g.current(op, seq), over}
	d.waits.Store(from, w)
	defer d.waits.Delete(from)
	go d.send(from.rank, isQuestion, w.call, seq)
	return g.w.end.Recv(waiting, from.rank, from.channel)
}

// The kinds of control messages. isPast is an answer of which the root and the order of the ranks are not known.
const (
	isQuestion byte = iota
	isAnswer
	isPast
)

// controlBytes is the length of a control message: its kind, a collective, and the number of the call that is asked
// about. The rest of the call is in the header.
const controlBytes = 6

func (d *detector) send(to int, kind byte, c call, about uint32) {
	h := c.header()
	data := binary.BigEndian.AppendUint32([]byte{kind, h.Op}, about)
	h.Op = wire.Control
	d.end.Send(d.life, to, h, data) // it is only a question, or its answer
}

// handle takes a control message.
func (d *detector) handle(from int, h wire.Header, data []byte) {
	if len(data) != controlBytes {
		return
	}
	who, kind := peer{from, h.Channel}, data[0]
	h.Op = data[1]
	if kind == isQuestion {
		d.mu.Lock()
		d.open[who] = h
		d.asked.Store(int32(len(d.open)))
		d.mu.Unlock()
		d.answer()
		return
	}
	its, _ := d.waits.Load(who)
	w, ok := its.(*wait)
	if !ok || w.seq != binary.BigEndian.Uint32(data[2:]) {
		return
	}
	theirs := w.g.callOf(h)
	if kind == isPast {
		theirs.root, theirs.order = -1, w.order
	}
	if theirs != w.call {
		w.over(w.g.disagree(w.call, from, theirs))
	}
}

// answer answers the questions that can be answered, also where the ranks agree: if what the asker waits for was
// dropped on the way, the link ends with the next frame (wire.ErrForged), and no other might follow. It is called
// after a question has come and after a call begins, so that none is overlooked.
func (d *detector) answer() {
	if d.asked.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for who, question := range d.open {
		if kind, mine, ok := d.callAt(question); ok {
			delete(d.open, who)
			go d.send(who.rank, kind, mine, question.Seq)
		}
	}
	d.asked.Store(int32(len(d.open)))
}

// callAt returns the call that this rank is in, if it has come as far as the call of a question, or, if it is past that
// and was in another collective then, that one.
func (d *detector) callAt(question wire.Header) (kind byte, mine call, ok bool) {
	met, ok := d.histories.Load(question.Channel)
	if !ok {
		return isAnswer, mine, false
	}
	h := met.(*history)
	h.calling.Lock()
	log := callLog(h.calls.Load())
	mine = call{question.Channel, log.seq(), log.op(log.seq()), h.root, h.lastOrder}
	h.calling.Unlock()
	if mine.op == opBarrier {
		mine.root = -1
	}
	ahead := int32(mine.seq - question.Seq)
	if then := log.op(question.Seq); ahead > 0 && then != 0 && then != question.Op {
		return isPast, call{question.Channel, question.Seq, then, -1, 0}, true
	}
	return isAnswer, mine, ahead >= 0 && mine.op != 0
}
