package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// Exchange is a personalised all-to-all: every rank has its own pieces for
// every other, each with its own place at both ends, as MPI_Alltoallv has counts
// and displacements. The dispatch and the combine of expert
// parallelism do.
//
// # How to use it
//
// A rank has a send half and a receive half, apart from each other. Pieces says
// for two ranks what the one sends to the other: where each piece begins in the
// sender's send half, where it goes in the receiver's receive half, and its
// length. It is a function of the two ranks alone, so nothing is sent to agree
// on offsets; routing that is drawn from a seed fits. Pieces that leave may
// overlap (a token goes to several experts); pieces that arrive may not.
//
// Prepare it once, run it many times: Plan.Run(n) repeats it back to back in the
// engine's own loop, without a barrier in between, which is the steady state of
// a pipeline. A barrier before Run(1) measures a single exchange from a common
// start instead. Several exchanges prepared together, such as a dispatch and its
// combine, share the two halves; on different Lanes they have separate ones and
// may be posted at the same time.
type Exchange struct {
	Name string
	Mem  nixl.Mem
	Op   nixl.Op
	Lane Lane
	// Pieces lists the extents that a rank sends to another. Pieces of length 0 are left out.
	// It is called often, by Check for all pairs; it must return the same on every rank.
	Pieces func(from, to int) []Piece

	bytes      *matrix.Matrix // set by NewExchange
	send, recv []int64        // by rank: how large the halves must be
	digest     string
}

// Piece is one extent on its way. All are in bytes.
type Piece struct{ SendOff, RecvOff, Len int64 }

// MaxPieces bounds the pieces that a rank sends to another: one descriptor each.
const MaxPieces = 1 << 20

// NewExchange works out how many bytes pass between all pairs of ranks. Pieces that overlap where they arrive, or are
// too many, are errors.
func NewExchange(x Exchange, ranks int) (Exchange, error) {
	x.bytes = matrix.New(ranks)
	x.send, x.recv = make([]int64, ranks), make([]int64, ranks)
	sum := sha256.New()
	for to := range ranks {
		var arrive []nixl.Desc
		for from := range ranks {
			pieces := x.Pieces(from, to)
			if len(pieces) > MaxPieces {
				return x, fault.New(fault.Input, "%s: %d pieces from rank %d to rank %d, want at most %d", x.Label(),
					len(pieces), from, to, MaxPieces)
			}
			var bytes int64
			for _, p := range pieces {
				if p.SendOff < 0 || p.RecvOff < 0 || p.Len < 1 || p.SendOff+p.Len < 0 || p.RecvOff+p.Len < 0 {
					return x, fault.New(fault.Input,
						"%s: the piece of %d bytes from %d of rank %d to %d of rank %d lies in no buffer",
						x.Label(), p.Len, p.SendOff, from, p.RecvOff, to)
				}
				bytes += p.Len
				x.send[from], x.recv[to] = max(x.send[from], p.SendOff+p.Len), max(x.recv[to], p.RecvOff+p.Len)
				arrive = append(arrive, nixl.Desc{Off: p.RecvOff, Len: p.Len})
				binary.Write(sum, binary.LittleEndian, [5]int64{int64(from), int64(to), p.SendOff, p.RecvOff, p.Len})
			}
			if err := x.bytes.Set(from, to, bytes); err != nil {
				return x, fault.New(fault.Input, "%s: %w", x.Label(), err)
			}
		}
		if at, twice := overlap(arrive); twice {
			return x, fault.New(fault.Input, "%s: two pieces arrive at byte %d of rank %d", x.Label(), at, to).
				WithHint("give every piece its own place in the receive half")
		}
	}
	x.digest = fmt.Sprintf("exchange %x %s %s %d", sum.Sum(nil), x.Mem, x.Op, x.Lane)
	return x, nil
}

// overlap returns the first byte that two extents share.
func overlap(list []nixl.Desc) (int64, bool) {
	slices.SortFunc(list, func(a, b nixl.Desc) int { return cmp.Compare(a.Off, b.Off) })
	for i := 1; i < len(list); i++ {
		if before := list[i-1]; list[i].Off < before.Off+before.Len {
			return list[i].Off, true
		}
	}
	return 0, false
}

// Matrix is how many bytes each rank sends to each other.
func (x Exchange) Matrix() *matrix.Matrix { return x.bytes }

// Label is the exchange's name.
func (x Exchange) Label() string { return labelOr(x.Name, "exchange") }

// Check validates the exchange. The result is the same on every rank.
func (x Exchange) Check(ranks int) error {
	if x.bytes == nil || x.bytes.Size() != ranks {
		return fault.New(fault.Script, "%s is not for %d ranks", x.Label(), ranks)
	}
	return checkLane(x.Label(), x.Lane)
}

// Digest covers every piece.
func (x Exchange) Digest(b []byte) []byte { return append(b, x.digest...) }

// Lanes is the exchange's own lane.
func (x Exchange) Lanes() []Lane { return []Lane{x.Lane.of(x.Mem)} }

// Needs are the two halves.
func (x Exchange) Needs(ranks int, _ Lane) []Needs {
	list := make([]Needs, ranks)
	for rank := range list {
		list[rank].Send[x.Mem], list[rank].Recv[x.Mem] = x.send[rank], x.recv[rank]
	}
	return list
}

// Files are none.
func (x Exchange) Files(int, Lane) []File { return nil }

// Posts begin with the peer after the rank itself.
func (x Exchange) Posts(list []Post, rank int, lane Lane) []Post {
	return Pattern{Matrix: x.bytes, Op: x.Op, Lane: lane}.Posts(list, rank, lane)
}

// Transfers have one descriptor for each piece.
func (x Exchange) Transfers(rank int, lane Lane) []Transfer {
	posts := x.Posts(nil, rank, lane)
	list := make([]Transfer, len(posts))
	for i, post := range posts {
		t := Transfer{Op: x.Op, Peer: post.Peer}
		t.Local, t.Remote = sides(x.Op, x.Mem, x.Mem)
		if x.Op == nixl.Read {
			t.RemoteAt, t.LocalAt = ends(x.Pieces(post.Peer, rank))
		} else {
			t.LocalAt, t.RemoteAt = ends(x.Pieces(rank, post.Peer))
		}
		list[i] = t
	}
	return list
}

// ends lists where pieces lie at the sender and at the receiver.
func ends(pieces []Piece) (sender, receiver []nixl.Desc) {
	sender, receiver = make([]nixl.Desc, len(pieces)), make([]nixl.Desc, len(pieces))
	for i, p := range pieces {
		sender[i], receiver[i] = nixl.Desc{Off: p.SendOff, Len: p.Len}, nixl.Desc{Off: p.RecvOff, Len: p.Len}
	}
	return sender, receiver
}

// Messages take the whole send half as one stream, since pieces of it may leave
// several times; what arrives is known by where it was in the sender's half.
func (x Exchange) Messages(rank int, _ Lane) (sent, received []Message) {
	if n := x.send[rank]; n > 0 {
		sent = []Message{{
			Sender: rank, Receiver: rank, Place: Place{Mem: x.Mem, Side: Send},
			Pieces: []nixl.Desc{{Off: 0, Len: n}}, Key: []int{rank},
		}}
	}
	for _, c := range x.bytes.Column(rank) {
		pieces := x.Pieces(c.Peer, rank)
		m := Message{Sender: c.Peer, Receiver: rank, Place: Place{Mem: x.Mem, Side: Recv}, Key: []int{c.Peer}}
		_, m.Pieces = ends(pieces)
		m.At = make([]int64, len(pieces))
		for i, p := range pieces {
			m.At[i] = p.SendOff
		}
		received = append(received, m)
	}
	return sent, received
}
