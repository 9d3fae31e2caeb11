// Package experts plays expert parallelism at one rank: the data plane, which
// dispatches the tokens of all ranks to their experts and combines the results,
// and the control plane, which makes, connects and takes down what that needs.
//
// # Data plane
//
// The routing is a pure function of a seed, so every rank computes where each
// message of each rank lies (moe.Layout), and prepares its requests once. An
// iteration posts the same requests again.
//
//	dispatch  quantise every token once; write one message for each assignment into the slot of its expert, those of
//	          this rank's own experts by a copy; notify each rank of the counts; wait for the notifications of all
//	          ranks; pack the messages densely by expert
//	combine   write one BF16 row for each received message back to the rank that sent it; notify; wait; sum each
//	          token's rows with its weights
//
// A message is a header of 16 bytes (token, rank, iteration) and the payload. What a rank receives is double-buffered
// by the parity of the iteration: without a barrier in between, a peer may be one iteration ahead, and no more, since
// it needs this rank's messages of the iteration before.
package experts

import (
	"encoding/binary"
	"time"
	"unsafe"

	"perigee/internal/moe"
	"perigee/internal/moe/numeric"
	"perigee/internal/traffic/load"
	"perigee/nixl"
	"perigee/spmd"
)

// Spec is what the ranks of a data plane have in common.
type Spec struct {
	Selection *moe.Selection
	Placement *moe.Placement
	Payload   moe.Payload
	Seed      uint64 // of the tokens' channels

	// In a phase of an elastic plan: who is there (all where nil), the number of the layout, and where it begins in
	// the receive halves.
	present []int
	epoch   int
	base    int64
}

// ranks lists who takes part.
func (s Spec) ranks() []int {
	if s.present != nil {
		return s.present
	}
	all := make([]int, s.Selection.Ranks)
	for r := range all {
		all[r] = r
	}
	return all
}

// The kinds of operations.
const (
	dispatching = iota
	combining
	kinds
)

var kindNames = [kinds]string{"dispatch", "combine"}

// Plane is the data plane at one rank.
type Plane struct {
	spec Spec
	*moe.Layout
	world  *spmd.World
	group  *spmd.Group // who takes part
	ranks  []int
	me     int
	hidden int
	areas  areas
	port   *port

	patience time.Duration // instead of the world's timeout, if not 0
	late     []int         // who had not sent when it was over

	input  []uint16 // T x H, the rank's own tokens
	packed []byte   // what arrived, densely: payload values of all messages, then their scales
	output []uint16 // T x H

	ops [kinds]operation
}

// operation is one kind, whose iterations alternate between two areas.
type operation struct {
	batches [2]nixl.Batch // nil where nothing leaves the rank
	began   int           // iterations
	arrived []int         // notices by source
	at      []int64       // when the last notice of a source was received
	notices [2][][]byte   // by parity and peer: what this rank sends
	wanted  [2][][]byte   // by parity and source: what it must receive
	bare    []int         // peers to which nothing is written: they are only notified
}

// areas are the offsets in the two halves of a rank's memory, in bytes.
type areas struct {
	message, row  int64    // bytes of a dispatched message and of a row that comes back
	tokens, rows  int64    // in the send half: a message for each token; a row for each place
	slots, places [2]int64 // in the receive half, by parity: messages by place; rows by choice
	send, recv    int64    // sizes of the halves
}

// areasOf returns the areas of any rank.
func areasOf(s Spec, l *moe.Layout, rank int) (a areas) {
	a.message = moe.HeaderBytes + s.Payload.TokenBytes(s.Selection.Hidden)
	a.row = 2 * int64(s.Selection.Hidden)
	received, choices := int64(len(l.At(rank))), int64(s.Selection.Tokens*s.Selection.TopK)
	a.rows = align(a.message * int64(s.Selection.Tokens))
	a.send = align(a.rows + a.row*received)
	a.recv = s.base
	for parity := range 2 {
		a.slots[parity] = a.recv
		a.recv = align(a.recv + a.message*received)
		a.places[parity] = a.recv
		a.recv = align(a.recv + a.row*choices)
	}
	a.recv = max(a.recv, align(int64(s.Selection.Ranks)))
	return a
}

// align keeps areas on lines of the processor's cache.
func align(n int64) int64 { return (n + 63) &^ 63 }

// Need is the memory of a rank in bytes: registered for the two halves, and private for inputs and results.
func Need(s Spec, l *moe.Layout, rank int) (registered, private int64) {
	a := areasOf(s, l, rank)
	tokens := 2 * int64(s.Selection.Tokens) * a.row
	return a.send + a.recv, tokens + int64(len(l.At(rank)))*s.Payload.TokenBytes(s.Selection.Hidden)
}

// Open makes the data plane at all ranks of a world.
func Open(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, s Spec) (*Plane, error) {
	l := moe.NewLayout(s.Selection, s.Placement)
	p := newPlane(w, s, l)
	if err := checkMemory(w, s, l); err != nil {
		return nil, err
	}
	var err error
	exchanges := p.exchanges()
	if p.port, err = openPort(w, engine, cfg, s.Seed, exchanges); err != nil {
		return nil, err
	}
	if err := p.prepare(exchanges); err != nil {
		p.port.close()
		return nil, err
	}
	return p, nil
}

func newPlane(w *spmd.World, s Spec, l *moe.Layout) *Plane {
	return &Plane{
		spec: s, Layout: l, world: w, group: w.All(), ranks: s.ranks(), me: w.Rank(), hidden: s.Selection.Hidden,
		areas: areasOf(s, l, w.Rank()),
	}
}

// Close releases memory and connections.
func (p *Plane) Close() error { return p.port.close() }

// prepare makes the rank's tokens and its requests.
func (p *Plane) prepare(exchanges []load.Exchange) error {
	p.makeTokens()
	s := p.Selection
	for kind := range p.ops {
		o := &p.ops[kind]
		o.arrived, o.at = make([]int, s.Ranks), make([]int64, s.Ranks)
		for parity := range 2 {
			p.makeNotices(o, kind, parity)
			list := exchanges[kind*2+parity].Transfers(p.me, 0)
			if len(list) == 0 {
				continue
			}
			for i := range list {
				list[i].Notice = o.notices[parity][list[i].Peer]
			}
			var err error
			if o.batches[parity], err = p.port.batch(list); err != nil {
				return err
			}
		}
		for _, peer := range p.ranks {
			if peer != p.me && len(p.outgoing(kind, peer)) == 0 {
				o.bare = append(o.bare, peer)
			}
		}
	}
	return nil
}

// makeTokens makes the rank's tokens.
func (p *Plane) makeTokens() {
	s := p.Selection
	p.input, p.output = make([]uint16, s.Tokens*s.Hidden), make([]uint16, s.Tokens*s.Hidden)
	p.packed = make([]byte, int64(len(p.At(p.me)))*p.spec.Payload.TokenBytes(p.hidden))
	for t := range s.Tokens {
		moe.Fill(p.input[t*s.Hidden:(t+1)*s.Hidden], p.me*s.Tokens+t, p.spec.Seed)
	}
}

// makeNotices encodes the notices that this rank sends to its peers, and those that it must receive.
func (p *Plane) makeNotices(o *operation, kind, parity int) {
	s := p.Selection
	o.notices[parity], o.wanted[parity] = make([][]byte, s.Ranks), make([][]byte, s.Ranks)
	for _, peer := range p.ranks {
		from, to := p.Counts(p.me, peer), p.Counts(peer, p.me)
		if kind == combining { // rows go the other way
			from, to = to, from
		}
		o.notices[parity][peer] = notice(kind, parity, p.spec.epoch, from)
		o.wanted[parity][peer] = notice(kind, parity, p.spec.epoch, to)
	}
}

// outgoing are the assignments whose messages this rank sends to a peer.
func (p *Plane) outgoing(kind, peer int) []int32 {
	if kind == combining {
		return p.Pair(peer, p.me)
	}
	return p.Pair(p.me, peer)
}

// exchanges are those of each kind and parity, and one more that is never played. It connects all pairs of ranks, so
// that they can notify each other where there is nothing to write, and reaches to the ends of the halves, which also
// hold what a rank copies to itself.
func (p *Plane) exchanges() []load.Exchange {
	all := make([]areas, p.Selection.Ranks)
	for rank := range all {
		all[rank] = areasOf(p.spec, p.Layout, rank)
	}
	var list []load.Exchange
	for kind := range kinds {
		for parity := range 2 {
			list = append(list, load.Exchange{Name: kindNames[kind], Pieces: func(from, to int) (pieces []load.Piece) {
				if from == to {
					return nil // copied, see copyOwn
				}
				source, destination := from, to
				if kind == combining {
					source, destination = to, from
				}
				for _, a := range p.Pair(source, destination) {
					pieces = append(pieces, p.piece(kind, parity, a, all[from], all[to]))
				}
				return pieces
			}})
		}
	}
	return append(list, load.Exchange{Name: "notices", Pieces: func(from, to int) []load.Piece {
		if from == to && len(all) > 1 {
			return nil
		}
		distance := (from - to - 1 + len(all)) % len(all) // of the next rank 0
		return []load.Piece{{SendOff: all[from].send - 1, RecvOff: all[to].recv - 1 - int64(distance), Len: 1}}
	}})
}

// piece returns where the message of an assignment lies at its sender and at its receiver.
func (p *Plane) piece(kind, parity int, a int32, from, to areas) load.Piece {
	if kind == combining {
		return load.Piece{SendOff: from.rows + int64(p.Place(a))*from.row, RecvOff: to.places[parity] +
			int64(p.Choice(a))*to.row, Len: to.row}
	}
	return load.Piece{
		SendOff: from.tokens + int64(p.Token(a))*from.message, RecvOff: to.slots[parity] + int64(p.Place(a))*to.message,
		Len: to.message,
	}
}

// mostCounts is how many counts a notice holds; of more it holds their sum.
const mostCounts = 2000

// notice encodes the operation, the parity of the iteration, the number of the layout, and how many messages each
// slot of the receiver gets.
func notice(kind, parity, epoch int, counts []uint32) []byte {
	b := []byte{byte(kind), byte(parity), byte(epoch)}
	if len(counts) > mostCounts {
		var sum uint32
		for _, n := range counts {
			sum += n
		}
		counts = []uint32{sum}
	}
	for _, n := range counts {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// message returns one of the messages that lie one after the other in a half from an offset on.
func message(half []byte, from, size int64, i int) []byte {
	return half[from+int64(i)*size:][:size:size]
}

// words views bytes as BF16 values. Areas begin at multiples of 64 and payloads at multiples of 4.
func words(b []byte) []uint16 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(unsafe.Pointer(&b[0])), len(b)/2)
}

// floats views bytes as scales.
func floats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// payload returns the values and scales of a message, or its values alone for BF16.
func (p *Plane) payload(message []byte) (values, scales []byte) {
	body := message[moe.HeaderBytes:]
	if p.spec.Payload == moe.FP8 {
		return body[:p.hidden], body[p.hidden:]
	}
	return body, nil
}

// fill writes the messages of all tokens.
func (p *Plane) fill(iteration int) {
	send := p.port.send
	for t := range p.Selection.Tokens {
		m := message(send, p.areas.tokens, p.areas.message, t)
		writeHeader(m, p.me*p.Selection.Tokens+t, p.me, iteration)
		values, scales := p.payload(m)
		x := p.input[t*p.hidden : (t+1)*p.hidden]
		if p.spec.Payload == moe.FP8 {
			numeric.Quantize(values, floats(scales), x)
		} else {
			copy(words(values), x)
		}
	}
}

func writeHeader(m []byte, token, rank, iteration int) {
	binary.LittleEndian.PutUint32(m, uint32(token))
	binary.LittleEndian.PutUint32(m[4:], uint32(rank))
	binary.LittleEndian.PutUint32(m[8:], uint32(iteration))
	binary.LittleEndian.PutUint32(m[12:], 0)
}

// copyOwn moves the messages whose sender and receiver are this rank.
func (p *Plane) copyOwn(kind, parity int) {
	for _, a := range p.Pair(p.me, p.me) {
		m := p.piece(kind, parity, a, p.areas, p.areas)
		copy(p.port.recv[m.RecvOff:m.RecvOff+m.Len], p.port.send[m.SendOff:m.SendOff+m.Len])
	}
}

// pack copies what arrived to where it lies densely, by expert: all values, then all scales.
func (p *Plane) pack(parity int) {
	recv, count := p.port.recv, len(p.At(p.me))
	width := p.hidden
	if p.spec.Payload == moe.BF16 {
		width *= 2
	}
	scaleWidth := int(p.spec.Payload.TokenBytes(p.hidden)) - width
	allScales := p.packed[count*width:]
	for i := range count {
		values, scales := p.payload(message(recv, p.areas.slots[parity], p.areas.message, i))
		copy(p.packed[i*width:(i+1)*width], values)
		copy(allScales[i*scaleWidth:(i+1)*scaleWidth], scales)
	}
}

// reduce sums the rows that came back.
func (p *Plane) reduce(parity int) {
	s := p.Selection
	var few [64]int32
	rows, weights := few[:0], make([]float32, 0, s.TopK)
	base := words(p.port.recv[p.areas.places[parity]:])
	for t := range s.Tokens {
		experts, all := s.Of(p.me*s.Tokens + t)
		rows, weights = rows[:0], weights[:0]
		for k, expert := range experts {
			if expert != moe.None {
				rows, weights = append(rows, int32(t*s.TopK+k)), append(weights, all[k])
			}
		}
		numeric.Reduce(p.output[t*s.Hidden:(t+1)*s.Hidden], base, rows, weights)
	}
}

// apply computes what the experts of this rank return for what arrived: each channel times the expert's factor.
// It is not part of any time.
func (p *Plane) apply(parity int) {
	send, recv := p.port.send, p.port.recv
	for i, a := range p.At(p.me) {
		row := words(message(send, p.areas.rows, p.areas.row, i))
		values, scales := p.payload(message(recv, p.areas.slots[parity], p.areas.message, i))
		if p.spec.Payload == moe.FP8 {
			numeric.Dequantize(row, values, floats(scales))
		} else {
			copy(row, words(values))
		}
		numeric.Scale(row, moe.Factor(p.expertOf(a)))
	}
}

// expertOf returns the logical expert of an assignment.
func (p *Plane) expertOf(a int32) int { return int(p.Selection.Expert[a]) }
