// Package traffic plays matrices: it lays out the buffers of all ranks, prepares
// the transfers of traffic patterns, runs them, checks what arrived, and
// gathers the times of all ranks on one time line.
//
// Every rank knows the whole matrix of every pattern, so it can work out by
// itself where each message lies in each rank's buffers. Only the addresses of
// the buffers are exchanged, once; preparing further patterns that fit them
// costs no message.
package traffic

import (
	"slices"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// Pattern is one traffic pattern: how many bytes each rank sends to each other,
// and in which way.
type Pattern struct {
	Name   string // for messages; may be empty
	Matrix *matrix.Matrix
	Mem    nixl.Mem
	Op     nixl.Op
	Shards int // descriptors per message, 1 to MaxShards
	// Storage is what ranks read and write beside the messages.
	Storage map[int]StorageOp
}

// MaxShards bounds the descriptors of a message, each of which takes memory.
const MaxShards = 1 << 16

// check refuses what cannot be played in a world of size ranks.
func (p Pattern) check(size int) error {
	if p.Matrix == nil {
		return fault.New(fault.Script, "%s has no matrix", p.label())
	}
	if n := p.Matrix.Size(); n != size {
		return fault.New(fault.Input, "%s: the matrix is %d x %d, but there are %d ranks", p.label(), n, n, size).
			WithHint("run it with %d ranks, or make a matrix of %d rows", n, size)
	}
	if p.Shards < 1 || p.Shards > MaxShards {
		return fault.New(fault.Input, "%s: shards is %d, want 1 to %d", p.label(), p.Shards, MaxShards)
	}
	return p.checkStorage(size)
}

func (p Pattern) label() string {
	if p.Name == "" {
		return "traffic pattern"
	}
	return p.Name
}

// Initiators are the ranks that post transfers: the senders of a WRITE, the
// receivers of a READ.
func (p Pattern) Initiators() []int {
	if p.Op == nixl.Read {
		return p.Matrix.Receivers()
	}
	return p.Matrix.Senders()
}

// Within a rank's send buffer the messages lie one after the other in the order
// of their receivers, within its receive buffer in that of their senders.

// sendOffset is where the message from rank i to rank j begins in i's buffer.
func sendOffset(m *matrix.Matrix, i, j int) int64 { return offset(m.Row(i), j) }

// recvOffset is where the message from rank i to rank j begins in j's buffer.
func recvOffset(m *matrix.Matrix, i, j int) int64 { return offset(m.Column(j), i) }

func offset(cells []matrix.Cell, peer int) (off int64) {
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

// initiated are the cells for which a rank posts transfers, in the order of
// their place in its buffer.
func (p Pattern) initiated(rank int) []matrix.Cell {
	if p.Op == nixl.Read {
		return p.Matrix.Column(rank)
	}
	return p.Matrix.Row(rank)
}

// postOrder turns a list in the order of peers into the order in which a rank
// posts: it begins with the peer after itself, so that not all ranks begin with
// rank 0.
func postOrder[T any](list []T, rank int, peer func(T) int) []T {
	first := slices.IndexFunc(list, func(v T) bool { return peer(v) > rank })
	if first <= 0 {
		return list
	}
	return slices.Concat(list[first:], list[:first])
}

// transfers lists what a rank posts for a pattern, in that order, given the IDs
// of the send and receive buffers, which are the same at all ranks.
func (p Pattern) transfers(rank, sendBuffer, recvBuffer int) []nixl.Transfer {
	local, remote, remoteOffset := sendBuffer, recvBuffer, func(peer int) int64 { return recvOffset(p.Matrix, rank, peer) }
	if p.Op == nixl.Read {
		local, remote, remoteOffset = recvBuffer, sendBuffer, func(peer int) int64 { return sendOffset(p.Matrix, peer, rank) }
	}
	cells := p.initiated(rank)
	list := make([]nixl.Transfer, 0, len(cells))
	var off int64
	for _, c := range cells {
		list = append(list, nixl.Transfer{
			Op: p.Op, Peer: c.Peer, LocalBuffer: local, RemoteBuffer: remote,
			Local:  split(off, c.Bytes, p.Shards),
			Remote: split(remoteOffset(c.Peer), c.Bytes, p.Shards),
		})
		off += c.Bytes
	}
	return postOrder(list, rank, func(t nixl.Transfer) int { return t.Peer })
}
