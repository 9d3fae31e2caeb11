package traffic

import (
	"fmt"

	"perigee/internal/fault"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/stream"
	"perigee/nixl"
)

// Corruption is what verification found.
type Corruption struct {
	Pattern          string
	Sender, Receiver int
	Offset           int64 // of the first wrong byte within the message
	Want, Got        byte
	WrongBytes       int64 // in this message
	WrongMessages    int   // at this receiver
}

func (c *Corruption) Error() string {
	s := fmt.Sprintf("%s: message from rank %d to rank %d: byte %d is 0x%02x, want 0x%02x (wrong bytes in this message: %d",
		c.Pattern, c.Sender, c.Receiver, c.Offset, c.Got, c.Want, c.WrongBytes)
	if c.WrongMessages > 1 {
		s += fmt.Sprintf("; wrong messages: %d", c.WrongMessages)
	}
	return s + ")"
}

// Verify runs the pattern once on known bytes and checks what arrived. All
// ranks call it. The error of a rank that received wrong bytes has a
// *Corruption as its cause. No plan may be posted and not waited for.
func (p *Plan) Verify() error {
	if err := p.usable(); err != nil {
		return err
	}
	run := func() error { return p.runMessages(1, false) }
	// Nobody touches the buffers while another rank is at a different step, nor
	// before and after.
	for _, step := range []func() error{p.fill, run, p.check} {
		if err := p.s.world.All().Barrier(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return p.s.world.All().Barrier()
}

// message is one cell of the matrix as it lies in a buffer of this rank.
type message struct {
	peer   int
	off    int64
	bytes  int64
	stream stream.Stream
}

func (p *Plan) sent() []message {
	me := p.s.world.Rank()
	return p.messages(p.Matrix.Row(me), func(peer int) stream.Stream { return stream.New(p.s.seed, p.number, me, peer) })
}

func (p *Plan) received() []message {
	me := p.s.world.Rank()
	return p.messages(p.Matrix.Column(me), func(peer int) stream.Stream { return stream.New(p.s.seed, p.number, peer, me) })
}

func (p *Plan) messages(cells []matrix.Cell, key func(peer int) stream.Stream) []message {
	list := make([]message, 0, len(cells))
	var off int64
	for _, c := range cells {
		list = append(list, message{peer: c.Peer, off: off, bytes: c.Bytes, stream: key(c.Peer)})
		off += c.Bytes
	}
	return list
}

// chunk is how much of a buffer is looked at at a time.
const chunk = 4 << 20

// fill writes each message into the send buffer, and its opposite into the
// place where it will be received, so that not one byte is right by chance.
func (p *Plan) fill() error {
	for _, m := range p.sent() {
		if err := m.write(p.arena.send, false); err != nil {
			return fault.New(fault.Engine, "fill the send buffer: %w", err)
		}
	}
	for _, m := range p.received() {
		if err := m.write(p.arena.recv, true); err != nil {
			return fault.New(fault.Engine, "poison the receive buffer: %w", err)
		}
	}
	return nil
}

func (m message) write(b nixl.Buffer, flip bool) error {
	tmp := make([]byte, min(m.bytes, chunk))
	for done := int64(0); done < m.bytes; {
		part := tmp[:min(m.bytes-done, chunk)]
		m.stream.Fill(part, done, flip)
		if _, err := b.WriteAt(part, m.off+done); err != nil {
			return err
		}
		done += int64(len(part))
	}
	return nil
}

func (p *Plan) check() error {
	var first *Corruption
	wrong := 0
	for _, m := range p.received() {
		c, err := m.compare(p.arena.recv)
		if err != nil {
			return fault.New(fault.Engine, "read the receive buffer: %w", err)
		}
		if c == nil {
			continue
		}
		wrong++
		if first == nil {
			c.Pattern, c.Sender, c.Receiver = p.label(), m.peer, p.s.world.Rank()
			first = c
		}
	}
	if first == nil {
		return nil
	}
	first.WrongMessages = wrong
	return fault.New(fault.Corrupt, "verification failed: %w", first)
}

// compare returns nil if the message is as it was sent.
func (m message) compare(b nixl.Buffer) (*Corruption, error) {
	var c *Corruption
	tmp := make([]byte, min(m.bytes, chunk))
	for done := int64(0); done < m.bytes; {
		part := tmp[:min(m.bytes-done, chunk)]
		if _, err := b.ReadAt(part, m.off+done); err != nil {
			return nil, err
		}
		if wrong, at := m.stream.Check(part, done); wrong > 0 {
			if c == nil {
				off := done + int64(at)
				c = &Corruption{Offset: off, Want: m.stream.At(off), Got: part[at]}
			}
			c.WrongBytes += wrong
		}
		done += int64(len(part))
	}
	return c, nil
}

// Received returns the first bytes of each message in the receive buffer,
// as they are now: at most head of each, keyed by sender.
func (p *Plan) Received(head int) (map[int][]byte, error) {
	out := map[int][]byte{}
	for _, m := range p.received() {
		b := make([]byte, min(m.bytes, int64(head)))
		if _, err := p.arena.recv.ReadAt(b, m.off); err != nil {
			return nil, fault.New(fault.Engine, "read the receive buffer: %w", err)
		}
		out[m.peer] = b
	}
	return out, nil
}
