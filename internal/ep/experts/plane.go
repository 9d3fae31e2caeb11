package experts

import (
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"perigee/internal/ep/moe"
	"perigee/internal/ep/moe/numeric"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
	"perigee/spmd"
)

// Spec describes a data plane, the same at all its ranks.
type Spec struct {
	Selection *moe.Selection
	Placement *moe.Placement
	Payload   moe.Payload
	Seed      uint64 // of the tokens' channels
	// Shared is how many of the last choices of each token name shared experts (moe.Share): copies within the rank,
	// which count as no bytes.
	Shared int
	// Direct writes each dispatched message by itself, out of the only copy of its token. It suits engines for which a
	// piece costs nothing.
	Direct bool
	// Mem is where messages leave and arrive. With nixl.VRAM times are those of the transfers alone; see Play.
	Mem nixl.Mem

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

// Census counts what the routed experts are sent.
func (s Spec) Census() *moe.Census { return moe.Count(s.routed(), s.Placement) }

// routed is the selection without shared experts.
func (s Spec) routed() *moe.Selection {
	if s.Shared == 0 {
		return s.Selection
	}
	routed := *s.Selection
	routed.Expert = slices.Clone(routed.Expert)
	for i := range routed.Expert {
		if i%routed.TopK >= routed.TopK-s.Shared {
			routed.Expert[i] = moe.None
		}
	}
	return &routed
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
	late     []int         // who had not sent when it was over, or could not be reached
	deadly   bool          // ranks may die: those that cannot be reached must not keep others waiting

	arrivals []int32  // assignments, as their messages lie in the receive half
	rows     []int32  // of each choice, the position of the row that comes back, or moe.None
	input    []uint16 // T x H, the rank's own tokens
	packed   []byte   // what arrived, densely by expert: payload values of all messages, then their scales
	output   []uint16 // T x H

	ops    [kinds]operation
	stride int // by how much an iteration is counted, in began and arrived
	filled int // the iteration in the headers of the messages that were filled last

	pace, ended int64 // in ns: of the fastest iteration that was not recorded last; the end of the last of these

	named map[Mode]string  // what fresh iterations have shown, at rank 0
	fresh map[Mode]float64 // and how long one took, in us
}

// operation is one kind, whose iterations alternate between two areas.
type operation struct {
	batches [2]requests // nil where nothing leaves the rank
	began   int         // iterations
	arrived []int       // notices by source
	at      []int64     // when the last notice of a source was received
	notices [2][][]byte // by parity and peer: what this rank sends
	wanted  [2][][]byte // by parity and source: what it must receive
	bare    []int       // peers to which nothing is written: they are only notified
}

// requests write a rank's messages in an operation: a nixl.Batch, or in an elastic plan one for each peer.
type requests interface {
	Run(ctl nixl.Control, n int, times []nixl.Times) error
	Release() error
}

// areas are the offsets in the two halves of a rank's memory, in bytes.
type areas struct {
	message, row         int64    // bytes of a dispatched message and of a row that comes back
	tokens, staged, rows int64    // in the send half: a message for each token; those that depart; rows that go back
	slots, places        [2]int64 // in the receive half, by parity: messages that arrive; rows that come back
	send, recv           int64    // sizes of the halves
}

// areasOf returns the areas of any rank.
func areasOf(s Spec, l *moe.Layout, rank int) (a areas) {
	a.message = moe.HeaderBytes + s.Payload.TokenBytes(s.Selection.Hidden)
	a.row = 2 * int64(s.Selection.Hidden)
	received, sent := int64(len(l.At(rank))), int64(l.Selections(rank))
	a.staged = align(a.message * int64(s.Selection.Tokens))
	a.rows = a.staged
	if !s.Direct {
		a.rows = align(a.staged + a.message*sent)
	}
	a.send = align(a.rows + a.row*received)
	a.recv = s.base
	for parity := range 2 {
		a.slots[parity] = a.recv
		a.recv = align(a.recv + a.message*received)
		a.places[parity] = a.recv
		a.recv = align(a.recv + a.row*sent)
	}
	a.recv = max(a.recv, align(int64(s.Selection.Ranks)))
	return a
}

// align keeps areas on lines of the processor's cache.
func align(n int64) int64 { return (n + 63) &^ 63 }

// Need is the memory of a rank in bytes: registered for the two halves, and private for inputs and results. Halves in
// a GPU's memory take as much of the host's for their copies.
func Need(s Spec, l *moe.Layout, rank int) (registered, private int64) {
	a := areasOf(s, l, rank)
	tokens := 2 * int64(s.Selection.Tokens) * a.row
	return a.send + a.recv, tokens + int64(len(l.At(rank)))*s.Payload.TokenBytes(s.Selection.Hidden)
}

// Matrix returns the bytes that the messages of a mode take from each rank to each, itself included.
func (p *Plane) Matrix(mode Mode) (*matrix.Matrix, error) {
	n := p.Selection.Ranks
	m := matrix.New(n)
	for from := range n {
		for to := range n {
			var bytes int64
			if mode.has(dispatching) {
				bytes += p.areas.message * int64(len(p.Pair(from, to)))
			}
			if mode.has(combining) {
				bytes += p.areas.row * int64(len(p.Pair(to, from)))
			}
			if err := m.Set(from, to, bytes); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// Open makes the data plane at all ranks of a world. A lack of memory on any host is an error of the kind Resource at
// its lowest rank, before anything is allocated.
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
	err = p.prepare(exchanges)
	if err == nil {
		err = p.group.Barrier() // a rank may close at once what others still prepare their requests with
	}
	if err != nil {
		p.port.close()
		return nil, err
	}
	return p, nil
}

func newPlane(w *spmd.World, s Spec, l *moe.Layout) *Plane {
	return &Plane{
		spec: s, Layout: l, world: w, group: w.All(), ranks: s.ranks(), me: w.Rank(), hidden: s.Selection.Hidden,
		areas: areasOf(s, l, w.Rank()), stride: 1,
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
				if list[i].Peer != p.me {
					list[i].Notice = o.notices[parity][list[i].Peer]
				}
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

// makeTokens makes the rank's tokens, and the tables of where what comes of them lies.
func (p *Plane) makeTokens() {
	s := p.Selection
	p.input, p.output = make([]uint16, s.Tokens*s.Hidden), make([]uint16, s.Tokens*s.Hidden)
	p.packed = make([]byte, int64(len(p.At(p.me)))*p.spec.Payload.TokenBytes(p.hidden))
	p.arrivals = p.Arrivals(p.me)
	p.rows = make([]int32, s.Tokens*s.TopK)
	for i := range p.rows {
		p.rows[i] = moe.None
	}
	for _, a := range p.Departures(p.me) {
		p.rows[p.Choice(a)] = int32(p.Departure(a))
	}
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
			pieces := func(from, to int) []load.Piece {
				if from == to && p.spec.Mem != nixl.VRAM {
					return nil // copied, see copyOwn
				}
				source, destination := from, to
				if kind == combining {
					source, destination = to, from
				}
				return p.pieces(kind, parity, p.Pair(source, destination), all[from], all[to])
			}
			list = append(list, load.Exchange{Name: kindNames[kind], Mem: p.spec.Mem, Pieces: pieces})
		}
	}
	return append(list, load.Exchange{Name: "notices", Mem: p.spec.Mem, Pieces: func(from, to int) []load.Piece {
		if from == to && len(all) > 1 {
			return nil
		}
		distance := (from - to - 1 + len(all)) % len(all) // of the next rank 0
		return []load.Piece{{SendOff: all[from].send - 1, RecvOff: all[to].recv - 1 - int64(distance), Len: 1}}
	}})
}

// pieces returns where the messages of a pair lie at their sender and at their receiver.
func (p *Plane) pieces(kind, parity int, pair []int32, from, to areas) []load.Piece {
	if len(pair) == 0 {
		return nil
	}
	departure, arrival, count := int64(p.Departure(pair[0])), int64(p.Arrival(pair[0])), int64(len(pair))
	if kind == combining { // rows go the other way
		return []load.Piece{{
			SendOff: from.rows + arrival*from.row, RecvOff: to.places[parity] + departure*to.row, Len: count * to.row,
		}}
	}
	at := to.slots[parity] + arrival*to.message
	if !p.spec.Direct {
		return []load.Piece{{SendOff: from.staged + departure*from.message, RecvOff: at, Len: count * to.message}}
	}
	list := make([]load.Piece, count)
	for i, a := range pair {
		list[i] = load.Piece{
			SendOff: from.tokens + int64(p.Token(a))*from.message, RecvOff: at + int64(i)*to.message, Len: to.message,
		}
	}
	return list
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

// fill writes the message of every token.
func (p *Plane) fill(iteration int) {
	p.filled = iteration
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

// stage copies the messages to other ranks to where they lie in the order in which they depart; from a GPU's memory
// those to the rank itself, too.
func (p *Plane) stage() {
	if p.spec.Direct {
		return
	}
	for _, peer := range p.ranks {
		if peer != p.me || p.port.onGPU() {
			p.copyTokens(p.port.send[p.areas.staged:], p.Departure, p.Pair(p.me, peer))
		}
	}
}

// copyTokens copies the messages of assignments to their positions in an area.
func (p *Plane) copyTokens(area []byte, position func(int32) int, pair []int32) {
	for _, a := range pair {
		copy(message(area, 0, p.areas.message, position(a)),
			message(p.port.send, p.areas.tokens, p.areas.message, p.Token(a)))
	}
}

// copyOwn moves the messages whose sender and receiver are this rank.
func (p *Plane) copyOwn(kind, parity int) {
	pair := p.Pair(p.me, p.me)
	if kind == dispatching {
		p.copyTokens(p.port.recv[p.areas.slots[parity]:], p.Arrival, pair)
		return
	}
	for _, m := range p.pieces(kind, parity, pair, p.areas, p.areas) {
		copy(p.port.recv[m.RecvOff:m.RecvOff+m.Len], p.port.send[m.SendOff:m.SendOff+m.Len])
	}
}

// pack copies what arrived to where it lies densely, by expert: all values, then all scales.
func (p *Plane) pack(parity int) {
	for i, a := range p.arrivals {
		values, scales := p.payload(message(p.port.recv, p.areas.slots[parity], p.areas.message, i))
		packed, packedScales := p.packedAt(p.Place(a))
		copy(packed, values)
		copy(packedScales, scales)
	}
}

// packedAt returns the values and scales at a place.
func (p *Plane) packedAt(place int) (values, scales []byte) {
	width := p.hidden
	if p.spec.Payload == moe.BF16 {
		width *= 2
	}
	scaleWidth := int(p.spec.Payload.TokenBytes(p.hidden)) - width
	all := p.packed[len(p.arrivals)*width:]
	return p.packed[place*width:][:width], all[place*scaleWidth:][:scaleWidth]
}

// reduce sums the rows that came back.
func (p *Plane) reduce(parity int) {
	s := p.Selection
	var few [64]int32
	rows, weights := few[:0], make([]float32, 0, s.TopK)
	base := words(p.port.recv[p.areas.places[parity]:])
	for t := range s.Tokens {
		_, all := s.Of(p.me*s.Tokens + t)
		rows, weights = rows[:0], weights[:0]
		for k, row := range p.rows[t*s.TopK : (t+1)*s.TopK] {
			if row != moe.None {
				rows, weights = append(rows, row), append(weights, all[k])
			}
		}
		numeric.Reduce(p.output[t*s.Hidden:(t+1)*s.Hidden], base, rows, weights)
	}
}

// apply computes what the experts of this rank return for what arrived: each channel times the expert's factor.
// It is not part of any time.
func (p *Plane) apply(parity int) {
	send, recv := p.port.send, p.port.recv
	for i, a := range p.arrivals {
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
