package load

import (
	"fmt"
	"maps"
	"slices"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// Pattern is a traffic pattern: how many bytes each rank sends to each other, and
// in which way. Within a rank's send buffer the messages lie one after the other
// in the order of their receivers, within its receive buffer in that of their
// senders. The matrix must not change any more.
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
		for r := range p.Matrix.Size() {
			next[Send][r] += pages(p.Matrix.RowSum(r))
			if n := p.Matrix.ColumnSum(r); n > 0 {
				next[Recv][r] += pages(n) + 2*Guard
			}
		}
	}
	return list
}

// pages rounds up to whole pages.
func pages(n int64) int64 { return (n + Guard - 1) / Guard * Guard }

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

// MaxShards bounds the descriptors of a message, each of which takes memory.
const MaxShards = 1 << 16

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
		return fault.New(fault.Input, "%s: the matrix is %d x %d, but there are %d ranks", p.Label(), n, n, ranks).
			WithHint("run it with %d ranks, or make a matrix of %d rows", n, ranks)
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

// Needs are the sums of the rank's row and column.
func (p Pattern) Needs(rank int, lane Lane) (n Needs) {
	if lane == Files {
		return p.storageNeeds(rank)
	}
	if sum := p.Matrix.RowSum(rank); sum > 0 {
		n.Send[p.Mem] = p.base(rank, Send) + sum
	}
	if sum := p.Matrix.ColumnSum(rank); sum > 0 {
		n.Recv[p.Mem] = p.base(rank, Recv) + sum
	}
	return n
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
	local, remote := p.ends()
	remoteOffset := func(peer int) int64 { return p.base(peer, Recv) + p.Matrix.Above(rank, peer) }
	if p.Op == nixl.Read {
		remoteOffset = func(peer int) int64 { return p.base(peer, Send) + before(p.Matrix.Row(peer), rank) }
	}
	cells := p.cells(rank)
	list := make([]Transfer, 0, len(cells))
	first, last := afterSelf(cells, rank)
	base := p.base(rank, local.Side)
	off := base + before(cells, rank+1)
	add := func(cells []matrix.Cell) {
		for _, c := range cells {
			list = append(list, Transfer{
				Op: p.Op, Peer: c.Peer, Local: local, Remote: remote,
				LocalAt:  split(off, c.Bytes, p.Shards),
				RemoteAt: split(remoteOffset(c.Peer), c.Bytes, p.Shards),
			})
			off += c.Bytes
		}
	}
	add(first)
	off = base
	add(last)
	return list
}

// ends are the buffers of an initiator and its peer.
func (p Pattern) ends() (local, remote Place) { return sides(p.Op, p.Mem, p.Mem) }

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
	off := p.base(rank, Send)
	for _, c := range p.Matrix.Row(rank) {
		sent = append(sent, p.message(rank, c.Peer, Send, off, c.Bytes))
		off += c.Bytes
	}
	off = p.base(rank, Recv)
	for _, c := range p.Matrix.Column(rank) {
		received = append(received, p.message(c.Peer, rank, Recv, off, c.Bytes))
		off += c.Bytes
	}
	return sent, received
}

func (p Pattern) message(from, to int, side Side, off, bytes int64) Message {
	return Message{
		Sender: from, Receiver: to, Place: Place{Mem: p.Mem, Side: side},
		Pieces: []nixl.Desc{{Off: off, Len: bytes}}, Key: []int{from, to},
	}
}

// before is how many bytes cells have for the peers before one: where its message begins in a buffer that holds them.
func before(cells []matrix.Cell, peer int) (off int64) {
	for _, c := range cells {
		if c.Peer >= peer {
			break
		}
		off += c.Bytes
	}
	return off
}

// split cuts a message into descriptors of near-equal size, at most one a byte.
func split(off, bytes int64, shards int) []nixl.Desc {
	n := min(int64(shards), bytes)
	descs := make([]nixl.Desc, n)
	size, rest := bytes/n, bytes%n
	for k := range descs {
		length := size
		if int64(k) < rest {
			length++
		}
		descs[k] = nixl.Desc{Off: off, Len: length}
		off += length
	}
	return descs
}
