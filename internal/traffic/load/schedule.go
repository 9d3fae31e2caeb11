package load

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"sort"

	"perigee/internal/kit/fault"
	"perigee/nixl"
)

// Schedule is transfers that are each due at a time, whatever is under way then. Within a rank's buffers they lie one
// after the other, and all ranks begin at the beginning again where the buffer of one of them is full. NewSchedule
// makes one that can be prepared.
type Schedule struct {
	Name string
	Mem  nixl.Mem
	Op   nixl.Op // Write: senders post; Read: receivers do
	Due  []int64 // of each transfer, in nanoseconds after the schedule's zero, ascending
	// Parts appends what a transfer moves to list: each pair of ranks at most once, in 1 to MaxPieces descriptors. It
	// is called often, for any transfer, and must return the same on every rank.
	Parts func(list []Part, transfer int) []Part
	// Pool bounds the bytes of each of a rank's two buffers. 0: DefaultPool, and more where one transfer needs more.
	Pool int64

	first, end int // transfers that are meant
	*places
}

// Part is what a transfer moves from one rank to another: runs of descriptors, one after the other. As in a [Pattern],
// a part of a page and more begins at a page, and so does each of its descriptors that has a page and more.
type Part struct {
	From, To int
	Runs     []DescriptorRun
}

// DescriptorRun is a number of descriptors of equal length in bytes.
type DescriptorRun struct{ Count, Bytes int64 }

// DefaultPool is Pool where that is 0: more than the caches of processors hold, as the KV cache of an engine is.
const DefaultPool = 256 << 20

// places are where the parts of a schedule lie. All ranks of a simulation share them.
type places struct {
	posts  [][]placed // by the rank that posts it, in the order of transfers
	needs  [2][]int64 // by Side and rank
	laps   []int
	digest string
}

// placed is a part as the rank that posts it knows it.
type placed struct {
	at             [2]int64 // where it begins, by Side
	bytes          int64
	transfer, peer int32
}

// NewSchedule gives every part of every transfer its place at both ends, and indexes the parts by the rank that posts
// them. A transfer that Pool cannot hold is an error of the kind Input.
func NewSchedule(s Schedule, ranks int) (Schedule, error) {
	s.first, s.end = 0, len(s.Due)
	s.places = &places{posts: make([][]placed, ranks), laps: []int{0}}
	var free [2][]int64 // by Side and rank, in this lap
	for side := range free {
		free[side], s.needs[side] = make([]int64, ranks), make([]int64, ranks)
	}
	sum := sha256.New()
	var parts []Part
	for t, due := range s.Due {
		parts = s.Parts(parts[:0], t)
		note(sum, due, int64(len(parts)))
		at, fits := s.place(parts, free)
		if last := s.laps[len(s.laps)-1]; !fits && t > last {
			s.laps = append(s.laps, t)
			clear(free[Send])
			clear(free[Recv])
			at, fits = s.place(parts, free)
		}
		if !fits && s.Pool > 0 {
			return s, fault.New(fault.Input, "%s: a pool of %d bytes cannot hold transfer %d at a rank: wanted at least %d, "+
				"which holds each of them", s.Label(), s.Pool, t, s.Least(ranks)).
				WithHint("give it a larger pool, or move fewer bytes")
		}
		for k, p := range parts {
			s.keep(t, p, at[k], free)
			note(sum, int64(p.From), int64(p.To))
			for _, r := range p.Runs {
				note(sum, r.Count, r.Bytes)
			}
		}
	}
	if n := len(s.Due); n > 0 {
		s.laps = append(s.laps, n)
	}
	s.digest = fmt.Sprintf("schedule of %d transfers, %s, %s, pool %d\x00%x", len(s.Due), s.Mem, s.Op, s.Pool,
		sum.Sum(nil))
	return s, nil
}

// Least is the least Pool that holds each of the transfers between so many ranks.
func (s Schedule) Least(ranks int) (pool int64) {
	free := [2][]int64{make([]int64, ranks), make([]int64, ranks)}
	var parts []Part
	for t := range s.Due {
		parts = s.Parts(parts[:0], t)
		s.place(parts, free)
		for _, p := range parts {
			pool = max(pool, free[Send][p.From], free[Recv][p.To])
		}
		for _, p := range parts {
			free[Send][p.From], free[Recv][p.To] = 0, 0
		}
	}
	return pool
}

func note(sum hash.Hash, values ...int64) {
	var b [16]byte
	for _, v := range values {
		sum.Write(binary.AppendVarint(b[:0], v))
	}
}

// place returns where parts begin behind what is taken of the buffers, takes that, too, and reports whether the pool
// holds it.
func (s Schedule) place(parts []Part, free [2][]int64) (at [][2]int64, fits bool) {
	at, fits = make([][2]int64, len(parts)), true
	for k, p := range parts {
		for side, rank := range [2]int{Send: p.From, Recv: p.To} {
			start := free[side][rank]
			if p.Bytes() >= Guard {
				start = pages(start)
			}
			end := p.lay(start, func(DescriptorRun, int64, int64) {})
			at[k][side], free[side][rank] = start, end
			fits = fits && end <= cmp.Or(s.Pool, DefaultPool)
		}
	}
	return at, fits
}

// keep notes where a part lies.
func (s Schedule) keep(t int, p Part, at [2]int64, free [2][]int64) {
	for side, rank := range [2]int{Send: p.From, Recv: p.To} {
		s.needs[side][rank] = max(s.needs[side][rank], free[side][rank])
	}
	poster, peer := s.ends(p)
	s.posts[poster] = append(s.posts[poster], placed{at, p.Bytes(), int32(t), int32(peer)})
}

// ends are the rank that posts a part, and its peer.
func (s Schedule) ends(p Part) (poster, peer int) {
	if s.Op == nixl.Read {
		return p.To, p.From
	}
	return p.From, p.To
}

// Bytes are those of all descriptors of a part.
func (p Part) Bytes() (n int64) {
	for _, r := range p.Runs {
		n += r.Count * r.Bytes
	}
	return n
}

// lay calls f for each run of a part that begins at an offset, with where the run's first descriptor lies and how far
// apart its descriptors begin. It returns where the last one ends.
func (p Part) lay(at int64, f func(r DescriptorRun, at, step int64)) (end int64) {
	for _, r := range p.Runs {
		step := r.Bytes
		if r.Bytes >= Guard {
			at, step = pages(at), pages(r.Bytes)
		}
		f(r, at, step)
		at += (r.Count-1)*step + r.Bytes
	}
	return at
}

// descs are a part's descriptors from an offset on.
func (p Part) descs(at int64) (list []nixl.Desc) {
	p.lay(at, func(r DescriptorRun, at, step int64) {
		for k := range r.Count {
			list = append(list, nixl.Desc{Off: at + k*step, Len: r.Bytes})
		}
	})
	return list
}

// Laps are the first transfers of stretches no two of whose parts share memory, and at last the number of transfers.
func (s Schedule) Laps() []int { return s.laps }

// Between is the schedule with some of its transfers only, end not included: Posts, Transfers and Messages are of
// these. Due and Laps stay.
func (s Schedule) Between(first, end int) Schedule {
	s.first, s.end = first, end
	return s
}

// Label is the schedule's name.
func (s Schedule) Label() string { return labelOr(s.Name, "schedule") }

// Check refuses a schedule that NewSchedule has not made for as many ranks.
func (s Schedule) Check(ranks int) error {
	if s.places == nil || len(s.posts) != ranks {
		return fault.New(fault.Script, "%s is not for %d ranks", s.Label(), ranks)
	}
	return nil
}

// Digest covers every due time and every part.
func (s Schedule) Digest(b []byte) []byte {
	return fmt.Appendf(append(b, s.digest...), " %d %d", s.first, s.end)
}

// Lanes is lane 0.
func (s Schedule) Lanes() []Lane { return []Lane{Lane(0).of(s.Mem)} }

// Needs are where the last part of any lap ends.
func (s Schedule) Needs(ranks int, _ Lane) []Needs {
	list := make([]Needs, ranks)
	for rank := range list {
		list[rank].Send[s.Mem], list[rank].Recv[s.Mem] = s.needs[Send][rank], s.needs[Recv][rank]
	}
	return list
}

// Files are none.
func (s Schedule) Files(int, Lane) []File { return nil }

// of are the parts that a rank posts.
func (s Schedule) of(rank int) []placed {
	list := s.posts[rank]
	return list[search(list, s.first):search(list, s.end)]
}

// search is the first part of a transfer, or behind it, in what a rank posts.
func search(list []placed, transfer int) int {
	return sort.Search(len(list), func(k int) bool { return int(list[k].transfer) >= transfer })
}

// Posts are the parts that a rank posts.
func (s Schedule) Posts(list []Post, rank int, _ Lane) []Post {
	for _, p := range s.of(rank) {
		list = append(list, Post{s.Op, int(p.peer), p.bytes})
	}
	return list
}

// Transfers have the descriptors of each part. A long schedule has very many: see Own.
func (s Schedule) Transfers(rank int, _ Lane) (list []Transfer) {
	own := s.Own(rank)
	for k := range own.Len() {
		list = append(list, own.Transfers(k)...)
	}
	return list
}

// Messages are the parts that leave and reach a rank. Those of transfers in different laps share memory.
func (s Schedule) Messages(rank int, _ Lane) (sent, received []Message) {
	var parts []Part
	for t := s.first; t < s.end; t++ {
		parts = s.Parts(parts[:0], t)
		for _, p := range parts {
			if p.From == rank {
				sent = append(sent, s.message(t, p, Send))
			}
			if p.To == rank {
				received = append(received, s.message(t, p, Recv))
			}
		}
	}
	return sent, received
}

func (s Schedule) message(t int, p Part, side Side) Message {
	m := Message{
		Sender: p.From, Receiver: p.To, Place: Place{Mem: s.Mem, Side: side}, Key: []int{t, p.From, p.To},
	}
	poster, peer := s.ends(p)
	list := s.posts[poster]
	k := search(list, t)
	for list[k].peer != int32(peer) {
		k++
	}
	p.lay(list[k].at[side], func(r DescriptorRun, at, step int64) {
		if step == r.Bytes {
			m.Pieces = append(m.Pieces, nixl.Desc{Off: at, Len: r.Count * r.Bytes})
			return
		}
		for k := range r.Count {
			m.Pieces = append(m.Pieces, nixl.Desc{Off: at + k*step, Len: r.Bytes})
		}
	})
	return m
}

// Own lists the transfers of which a rank posts parts, in their order. It is for one goroutine at a time.
type Own struct {
	s      Schedule
	rank   int
	list   []placed
	starts []int // of each transfer's parts in list, and the end
	parts  []Part
}

// Own indexes what a rank posts.
func (s Schedule) Own(rank int) *Own {
	o := &Own{s: s, rank: rank, list: s.of(rank)}
	for k, p := range o.list {
		if k == 0 || p.transfer != o.list[k-1].transfer {
			o.starts = append(o.starts, k)
		}
	}
	o.starts = append(o.starts, len(o.list))
	return o
}

// Len is the number of transfers.
func (o *Own) Len() int { return len(o.starts) - 1 }

// Number is the k-th's number in the schedule.
func (o *Own) Number(k int) int { return int(o.list[o.starts[k]].transfer) }

// Bytes are those that the rank posts in the k-th transfer.
func (o *Own) Bytes(k int) (n int64) {
	for _, p := range o.list[o.starts[k]:o.starts[k+1]] {
		n += p.bytes
	}
	return n
}

// each calls f for the parts that the rank posts in the k-th transfer.
func (o *Own) each(k int, f func(p placed, part Part)) {
	o.parts = o.s.Parts(o.parts[:0], o.Number(k))
	at := o.starts[k]
	for _, part := range o.parts {
		if poster, _ := o.s.ends(part); poster == o.rank {
			f(o.list[at], part)
			at++
		}
	}
}

// Key appends what is the same for transfers of the same bytes in the same descriptors at the same places, and for no
// others. It returns the number of descriptors, too.
func (o *Own) Key(b []byte, k int) (key []byte, descriptors int64) {
	o.each(k, func(p placed, part Part) {
		for _, v := range [...]int64{int64(p.peer), p.at[Send], p.at[Recv], int64(len(part.Runs))} {
			b = binary.AppendVarint(b, v)
		}
		for _, r := range part.Runs {
			b = binary.AppendVarint(binary.AppendVarint(b, r.Count), r.Bytes)
			descriptors += r.Count
		}
	})
	return b, descriptors
}

// Transfers describes the parts that the rank posts in the k-th transfer.
func (o *Own) Transfers(k int) (list []Transfer) {
	local, remote := sides(o.s.Op, o.s.Mem, o.s.Mem)
	o.each(k, func(p placed, part Part) {
		list = append(list, Transfer{
			Op: o.s.Op, Peer: int(p.peer), Local: local, Remote: remote,
			LocalAt: part.descs(p.at[local.Side]), RemoteAt: part.descs(p.at[remote.Side]),
		})
	})
	return list
}
