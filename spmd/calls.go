package spmd

import (
	"strconv"
	"sync"
	"sync/atomic"

	"perigee/internal/kit/fault"
	"perigee/spmd/wire"
)

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

// history lists the calls of a rank in all groups of the same ranks. They have one, so that members that list the ranks
// in another order find that out.
type history struct {
	calls   atomic.Uint64 // a callLog
	calling sync.Mutex    // held while root or lastOrder change, together with calls
	root    int           // of the last call that was no barrier
	// lastOrder is that of the group of the last call. Only the rank's calls change it, and they follow one another.
	lastOrder uint16
}

// begin is called at the beginning of each call. root is -1 where there is none.
func (g *Group) begin(op byte, root int) uint32 {
	g.calling.Lock()
	g.root, g.lastOrder = root, g.order
	l := callLog(g.calls.Load()).next(op)
	g.calls.Store(uint64(l))
	g.calling.Unlock()
	g.w.detector.answer()
	return l.seq()
}

// beginBarrier is begin for barriers, some of which take little longer than a lock.
func (g *Group) beginBarrier() uint32 {
	if g.lastOrder != g.order {
		return g.begin(opBarrier, -1)
	}
	l := callLog(g.calls.Load()).next(opBarrier)
	g.calls.Store(uint64(l))
	g.w.detector.answer()
	return l.seq()
}

// call describes the operation in which a rank is.
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
