package load

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// Pattern is a traffic pattern: how many bytes each rank sends to each other, and
// in which way. Within a rank's send buffer the messages lie one after the other
// in the order of their receivers, within its receive buffer in that of their
// senders. What is a page or more, a message or one of its shards, begins at a page, as the blocks of engines do: the
// kernel copies page by page, so the time would depend on what lies in front. The matrix must not change any more.
type Pattern struct {
	Name   string // for messages; may be empty
	Matrix *matrix.Matrix
	Mem    nixl.Mem
	Op     nixl.Op
	Shards int // descriptors per message, 1 to MaxShards
	Lane   Lane
	// Storage lists the reads and writes of files beside the messages.
	Storage map[int]StorageOp
	// sendAt and recvAt are where the messages of each rank begin in its buffers; nil: at the beginning.
	sendAt, recvAt []int64
}

// Guard is how many bytes before and behind the memory that a lane receives into belong to the buffer, but to no
// message, so that verification can look whether an engine writes there. It keeps messages aligned to pages.
const Guard = 4096

// Apart returns patterns that move the same bytes, but of which no two share memory on a lane, guards included: what
// one of them leaves stays while the others run.
func Apart(patterns []Pattern) []Pattern {
	type memory struct {
		lane Lane
		mem  nixl.Mem
	}
	free := map[memory]*[2][]int64{} // by rank, where the next message may be sent from and received
	list := slices.Clone(patterns)
	for i := range list {
		p := &list[i]
		next := free[memory{p.Lane, p.Mem}]
		if next == nil {
			next = &[2][]int64{make([]int64, p.Matrix.Size()), make([]int64, p.Matrix.Size())}
			free[memory{p.Lane, p.Mem}] = next
		}
		p.sendAt, p.recvAt = slices.Clone(next[Send]), slices.Clone(next[Recv])
		for r, n := range p.ends() {
			if n[Send] > 0 {
				next[Send][r] = pages(n[Send])
			}
			if n[Recv] > 0 {
				next[Recv][r] = pages(n[Recv]) + 2*Guard
			}
		}
	}
	return list
}

// pages rounds up to whole pages, as far as numbers go.
func pages(n int64) int64 {
	if n > math.MaxInt64-Guard {
		return n
	}
	return (n + Guard - 1) / Guard * Guard
}

// place returns where a message begins and ends in a buffer whose first free byte is at free.
func (p Pattern) place(free, bytes int64) (start, end int64) {
	if bytes >= Guard {
		free = pages(free)
	}
	end = free + bytes
	shards := min(int64(p.Shards), max(bytes, 1))
	if step, apart := stride(bytes, shards); apart {
		end = free + (shards-1)*step + bytes/shards
	}
	if end < free {
		end = math.MaxInt64 // more than any host has, and an error there
	}
	return free, end
}

// stride is how far apart the descriptors of a message begin, where they are pages and more; else they are packed.
func stride(bytes, shards int64) (step int64, apart bool) {
	if bytes/shards < Guard {
		return 0, false
	}
	return pages((bytes + shards - 1) / shards), true
}

// ends are by rank, and then by Side, where the last message ends in a buffer; 0 where there is none.
func (p Pattern) ends() [][2]int64 {
	list := make([][2]int64, p.Matrix.Size())
	free := func(rank int, side Side) int64 { return max(list[rank][side], p.base(rank, side)) }
	for from := range list {
		for _, c := range p.Matrix.Row(from) {
			_, list[from][Send] = p.place(free(from, Send), c.Bytes)
			_, list[c.Peer][Recv] = p.place(free(c.Peer, Recv), c.Bytes)
		}
	}
	return list
}

// base is where the messages of a rank begin in a buffer.
func (p Pattern) base(rank int, side Side) int64 {
	switch {
	case p.sendAt == nil:
		return 0
	case side == Send:
		return p.sendAt[rank]
	}
	return p.recvAt[rank]
}

// MaxShards bounds the descriptors of a message, each of which takes memory: engines post up to 254,000 for a request.
const MaxShards = MaxPieces

// MaxLanes bounds the lanes of a rank, each of which has an agent, or two if it also reaches GPU memory.
const MaxLanes = 1 << 10

// Label is the pattern's name.
func (p Pattern) Label() string { return labelOr(p.Name, "traffic pattern") }

func labelOr(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// Check validates the pattern. The result is the same on every rank. What a script has left out is an error of the
// kind Script, numbers that a configuration can hold are of the kind Input.
func (p Pattern) Check(ranks int) error {
	if p.Matrix == nil {
		return fault.New(fault.Script, "%s has no matrix", p.Label())
	}
	if n := p.Matrix.Size(); n != ranks {
		there := fmt.Sprintf("there are %d ranks", ranks)
		if ranks == 1 {
			there = "there is 1 rank"
		}
		return fault.New(fault.Input, "%s: the matrix is %d x %d, but %s", p.Label(), n, n, there).
			WithHint("run it with %d ranks, or make a matrix of %d x %d", n, ranks, ranks)
	}
	if p.Shards < 1 || p.Shards > MaxShards {
		return fault.New(fault.Input, "%s: shards is %d, want 1 to %d", p.Label(), p.Shards, MaxShards)
	}
	if err := checkLane(p.Label(), p.Lane); err != nil {
		return err
	}
	return p.checkStorage(ranks)
}

func checkLane(label string, lane Lane) error {
	if lane < 0 || lane >= MaxLanes {
		return fault.New(fault.Input, "%s: lane is %d, want 0 to %d", label, lane, MaxLanes-1)
	}
	return nil
}

// Digest covers all that decides about transfers. It has the matrix itself, not its digest: many patterns are quicker
// hashed at once than one by one.
func (p Pattern) Digest(b []byte) []byte {
	b = fmt.Appendf(b, "pattern, %s, %s, shards %d, lane %d", p.Mem, p.Op, p.Shards, p.Lane)
	for _, rank := range slices.Sorted(maps.Keys(p.Storage)) {
		b = fmt.Appendf(b, ", storage_ops of rank %d %+v", rank, p.Storage[rank])
	}
	if p.sendAt != nil {
		b = fmt.Appendf(b, ", apart %v %v", p.sendAt, p.recvAt)
	}
	b, _ = p.Matrix.AppendBinary(append(b, 0)) // never fails
	return b
}

// Lanes are the pattern's own, and Files if it has storage operations.
func (p Pattern) Lanes() []Lane {
	own := p.Lane.of(p.Mem)
	if len(p.Storage) > 0 {
		return []Lane{own, Files}
	}
	return []Lane{own}
}

// Needs are where the messages of each rank's row and column end.
func (p Pattern) Needs(ranks int, lane Lane) []Needs {
	list := make([]Needs, ranks)
	if lane == Files {
		for rank, o := range p.Storage {
			list[rank].Send[nixl.DRAM], list[rank].Recv[nixl.DRAM] = o.WriteSize, o.ReadSize
		}
		return list
	}
	for rank, n := range p.ends() {
		list[rank].Send[p.Mem], list[rank].Recv[p.Mem] = n[Send], n[Recv]
	}
	return list
}

// cells are those for which a rank posts transfers, in the order of their place
// in its buffer.
func (p Pattern) cells(rank int) []matrix.Cell {
	if p.Op == nixl.Read {
		return p.Matrix.Column(rank)
	}
	return p.Matrix.Row(rank)
}

// Posts begin with the peer after the rank itself.
func (p Pattern) Posts(list []Post, rank int, lane Lane) []Post {
	if lane == Files {
		return p.storagePosts(list, rank)
	}
	first, last := afterSelf(p.cells(rank), rank)
	for _, c := range first {
		list = append(list, Post{p.Op, c.Peer, c.Bytes})
	}
	for _, c := range last {
		list = append(list, Post{p.Op, c.Peer, c.Bytes})
	}
	return list
}

// afterSelf cuts cells into those for which a rank posts first and last: it begins with the peer after itself, so that
// not all ranks begin with rank 0.
func afterSelf(cells []matrix.Cell, rank int) (first, last []matrix.Cell) {
	k := 0
	for k < len(cells) && cells[k].Peer <= rank {
		k++
	}
	return cells[k:], cells[:k]
}

// Transfers have Shards descriptors each, as far as there are so many bytes.
func (p Pattern) Transfers(rank int, lane Lane) []Transfer {
	if lane == Files {
		return p.storageTransfers(rank)
	}
	local, remote := sides(p.Op, p.Mem, p.Mem)
	remoteFree := func(peer int) int64 { return p.freeAbove(rank, peer) }
	if p.Op == nixl.Read {
		remoteFree = func(peer int) int64 { return p.before(p.base(peer, Send), p.Matrix.Row(peer), rank) }
	}
	cells := p.cells(rank)
	list := make([]Transfer, 0, len(cells))
	first, last := afterSelf(cells, rank)
	free := p.base(rank, local.Side)
	add := func(cells []matrix.Cell) {
		for _, c := range cells {
			start, end := p.place(free, c.Bytes)
			there, _ := p.place(remoteFree(c.Peer), c.Bytes)
			list = append(list, Transfer{
				Op: p.Op, Peer: c.Peer, Local: local, Remote: remote,
				LocalAt:  split(start, c.Bytes, p.Shards),
				RemoteAt: split(there, c.Bytes, p.Shards),
			})
			free = end
		}
	}
	base := free
	free = p.before(base, cells, rank+1)
	add(first)
	free = base
	add(last)
	return list
}

// freeAbove is the first byte behind what the ranks before one send to a peer, in the peer's buffer.
func (p Pattern) freeAbove(rank, peer int) int64 {
	free := p.base(peer, Recv)
	for bytes := range p.Matrix.Above(rank, peer) {
		_, free = p.place(free, bytes)
	}
	return free
}

// sides are the places at an initiator and its peer, by their kinds of memory.
func sides(op nixl.Op, local, remote nixl.Mem) (Place, Place) {
	if op == nixl.Read {
		return Place{Mem: local, Side: Recv}, Place{Mem: remote, Side: Send}
	}
	return Place{Mem: local, Side: Send}, Place{Mem: remote, Side: Recv}
}

// Messages are the cells of the rank's row and column.
func (p Pattern) Messages(rank int, lane Lane) (sent, received []Message) {
	if lane == Files {
		return p.storageMessages(rank)
	}
	free := p.base(rank, Send)
	for _, c := range p.Matrix.Row(rank) {
		start, end := p.place(free, c.Bytes)
		sent = append(sent, p.message(rank, c.Peer, Send, start, c.Bytes))
		free = end
	}
	free = p.base(rank, Recv)
	for _, c := range p.Matrix.Column(rank) {
		start, end := p.place(free, c.Bytes)
		received = append(received, p.message(c.Peer, rank, Recv, start, c.Bytes))
		free = end
	}
	return sent, received
}

func (p Pattern) message(from, to int, side Side, start, bytes int64) Message {
	m := Message{
		Sender: from, Receiver: to, Place: Place{Mem: p.Mem, Side: side},
		Pieces: []nixl.Desc{{Off: start, Len: bytes}}, Key: []int{from, to},
	}
	if _, apart := stride(bytes, min(int64(p.Shards), bytes)); apart {
		m.Pieces = split(start, bytes, p.Shards)
	}
	return m
}

// before is the first byte behind what cells have for the peers before one, in a buffer that begins with a base.
func (p Pattern) before(base int64, cells []matrix.Cell, peer int) (free int64) {
	free = base
	for _, c := range cells {
		if c.Peer >= peer {
			break
		}
		_, free = p.place(free, c.Bytes)
	}
	return free
}

// split cuts a message into descriptors of near-equal size, at most one a byte.
func split(start, bytes int64, shards int) []nixl.Desc {
	n := min(int64(shards), bytes)
	descs := make([]nixl.Desc, n)
	size, rest := bytes/n, bytes%n
	step, apart := stride(bytes, n)
	for k := range descs {
		length := size
		if int64(k) < rest {
			length++
		}
		descs[k] = nixl.Desc{Off: start, Len: length}
		if apart {
			start += step
		} else {
			start += length
		}
	}
	return descs
}
