package lanes

import (
	"fmt"

	"perigee/internal/fault"
	"perigee/internal/traffic/stream"
	"perigee/nixl"
)

// Corruption is what verification found.
type Corruption struct {
	Initiator, Peer int // equal for files
	Thread          int
	Where           string // what holds the wrong byte
	Block, Offset   int64  // of the first wrong byte: number of the block, place in it
	Want, Got       byte
	WrongBytes      int64
}

func (c *Corruption) Error() string {
	with := fmt.Sprintf("rank %d with rank %d", c.Initiator, c.Peer)
	if c.Where == whereFile || c.Where == whereRead {
		with = fmt.Sprintf("rank %d", c.Initiator)
	}
	return fmt.Sprintf("%s, thread %d: in %s, block %d, byte %d is 0x%02x, want 0x%02x (wrong bytes: %d)",
		with, c.Thread, c.Where, c.Block, c.Offset, c.Got, c.Want, c.WrongBytes)
}

// Where bytes have arrived.
const (
	whereLocal  = "the initiator's memory"
	whereRemote = "the peer's memory"
	whereFile   = "the file"
	whereRead   = "the memory read to"
)

// extent is one batch at one end, or the part of it in one file: pieces of a buffer that hold blocks, and the
// bytes that belong there.
type extent struct {
	buffer nixl.Buffer
	pieces []nixl.Desc
	first  int // number of the first block
	step   int // to the next
	stream stream.Stream
	// original, if not nil, is the file whose contents belong there, and places those.
	original nixl.Buffer
	places   []nixl.Desc

	initiator, peer, thread int
	where                   string
}

// Verify runs a case once on known bytes and checks every byte. All ranks call it. The error of the rank that
// found wrong bytes has a *Corruption as its cause. It is not part of any measurement.
func (l *Lanes) Verify(c Case) error {
	c.Iterations, c.Warmup, c.Recreate = 1, 0, false
	if err := l.check(c); err != nil {
		return err
	}
	from, to := l.extents(c)
	// Nobody touches the buffers while another rank is at a different step, nor before and after.
	steps := []func() error{
		func() error { return l.write(from, to) },
		func() error { _, err := l.measure(c); return err },
		func() error { return compare(c, to) },
	}
	for _, step := range steps {
		if err := l.world.All().Barrier(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return l.world.All().Barrier()
}

// extents lists what this rank's memory and files send and receive.
func (l *Lanes) extents(c Case) (from, to []extent) {
	me := l.world.Rank()
	for _, n := range l.lanes {
		if l.Remote == nixl.FILE {
			f, t := l.fileExtents(n, c)
			from, to = append(from, f...), append(to, t...)
			continue
		}
		var near, far []extent
		for k, peer := range l.Peers[me] {
			near = append(near, extent{
				buffer: n.local, pieces: blocks(int64(k)*l.region(), c.Block, c.Batch), stream: l.stream(c, n.number, me, peer),
				step: 1, initiator: me, peer: peer, thread: n.number, where: whereLocal,
			})
		}
		for slot, initiator := range l.initiatorsOf(me) {
			far = append(far, extent{
				buffer: n.remote, pieces: blocks(int64(slot)*l.region(), c.Block, c.Batch), stream: l.stream(c, n.number, initiator, me),
				step: 1, initiator: initiator, peer: me, thread: n.number, where: whereRemote,
			})
		}
		if l.Op == nixl.Read {
			near, far = far, near
		}
		from, to = append(from, near...), append(to, far...)
	}
	return from, to
}

// stream tells batches apart by case, thread, initiator and peer.
func (l *Lanes) stream(c Case, thread, initiator, peer int) stream.Stream {
	return stream.New(l.seed^uint64(c.Block)<<24^uint64(c.Batch), thread, initiator, peer)
}

// fileExtents is extents for files. What is read is compared with the file as it is.
func (l *Lanes) fileExtents(n *lane, c Case) (from, to []extent) {
	if !l.initiates() {
		return nil, nil
	}
	me := l.world.Rank()
	for i, t := range l.transfers(me, c.Block, c.Batch, n.local.ID(), -1, n.files) {
		e := extent{first: i, step: len(n.files), stream: l.stream(c, n.number, me, me), initiator: me, peer: me, thread: n.number}
		memory, file := e, e
		memory.buffer, memory.pieces = n.local, t.Local
		file.buffer, file.pieces = n.buffers[i], t.Remote
		if l.Op == nixl.Write {
			file.where = whereFile
			from, to = append(from, memory), append(to, file)
			continue
		}
		memory.where, memory.original, memory.places = whereRead, file.buffer, t.Remote
		to = append(to, memory)
	}
	return from, to
}

// write puts the right bytes where they come from, and their opposite where they will
// arrive, so that not one byte is right by chance.
func (l *Lanes) write(from, to []extent) error {
	for flip, list := range map[bool][]extent{false: from, true: to} {
		for _, e := range list {
			err := e.walk(func(p piece, want []byte) error {
				copy(p.room, want)
				if flip {
					for i := range p.room {
						p.room[i] = ^p.room[i]
					}
				}
				_, err := e.buffer.WriteAt(p.room, p.place)
				return err
			})
			if err != nil {
				return fault.New(fault.Engine, "fill %s: %w", e.buffer.Mem(), err)
			}
		}
	}
	return nil
}

// mostPiece is how much is looked at at a time.
const mostPiece = 1 << 20

// piece is a part of a block: room for it, its place in the buffer, the number of the block and the place there.
type piece struct {
	room   []byte
	place  int64
	block  int
	offset int64
}

// walk calls f for all of an extent in pieces, with what belongs there.
func (e extent) walk(f func(p piece, want []byte) error) error {
	size := int64(0)
	for _, d := range e.pieces {
		size = max(size, min(d.Len, mostPiece))
	}
	room, want := make([]byte, size), make([]byte, size)
	for k, d := range e.pieces {
		block := e.first + k*e.step
		for done := int64(0); done < d.Len; {
			n := min(d.Len-done, size)
			if e.original == nil {
				e.stream.Fill(want[:n], int64(block)*d.Len+done, false)
			} else if _, err := e.original.ReadAt(want[:n], e.places[k].Off+done); err != nil {
				return err
			}
			if err := f(piece{room[:n], d.Off + done, block, done}, want[:n]); err != nil {
				return err
			}
			done += n
		}
	}
	return nil
}

func compare(c Case, to []extent) error {
	var first *Corruption
	for _, e := range to {
		var wrong int64
		err := e.walk(func(p piece, want []byte) error {
			if _, err := e.buffer.ReadAt(p.room, p.place); err != nil {
				return err
			}
			for i := range want {
				if p.room[i] == want[i] {
					continue
				}
				if wrong++; first == nil {
					first = &Corruption{
						Initiator: e.initiator, Peer: e.peer, Thread: e.thread, Where: e.where,
						Block: int64(p.block), Offset: p.offset + int64(i), Want: want[i], Got: p.room[i],
					}
				}
			}
			return nil
		})
		if err != nil {
			return fault.New(fault.Engine, "read %s: %w", e.buffer.Mem(), err)
		}
		if first != nil {
			first.WrongBytes = wrong
			return fault.New(fault.Corrupt, "verification of %s failed: %w", c, first)
		}
	}
	return nil
}
