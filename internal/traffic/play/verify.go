package play

import (
	"errors"
	"fmt"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
)

// Corruption describes the wrong bytes at one rank: the first wrong byte, and how much else is wrong.
type Corruption struct {
	Label            string // of the load
	Sender, Receiver int    // equal for files
	Lane             load.Lane
	Where            string // what holds the wrong byte, where that is not the receiver's memory
	Block            int64  // number of the block, where the message has blocks; else -1
	Offset           int64  // of the first wrong byte within the message, or within the block
	Want, Got        byte
	WrongBytes       int64 // in this message
	WrongMessages    int   // at this rank
}

func (c *Corruption) Error() string {
	s := fmt.Sprintf("%s: message from rank %d to rank %d", c.Label, c.Sender, c.Receiver)
	if c.Where != "" {
		rank := c.Receiver
		if c.Where == source {
			rank = c.Sender
		}
		if c.Where == around {
			return fmt.Sprintf("%s: rank %d, %s: byte %d is 0x%02x, want 0x%02x as before the run (wrong bytes there: %d)",
				c.Label, rank, c.Where, c.Offset, c.Got, c.Want, c.WrongBytes)
		}
		s = fmt.Sprintf("%s: rank %d, %s", c.Label, rank, c.Where)
	}
	if c.Lane > 0 {
		s += fmt.Sprintf(", lane %d", c.Lane)
	}
	if c.Block >= 0 {
		s += fmt.Sprintf(", block %d", c.Block)
	}
	s += fmt.Sprintf(": byte %d is 0x%02x, want 0x%02x (wrong bytes in this message: %d", c.Offset, c.Got, c.Want,
		c.WrongBytes)
	if c.WrongMessages > 1 {
		s += fmt.Sprintf("; wrong messages: %d", c.WrongMessages)
	}
	return s + ")"
}

// Where bytes may have arrived that are no message between ranks.
const (
	inFile   = "the file"
	fromFile = "the memory read to"
	source   = "the memory sent from"
	around   = "the memory beside what it receives" // Offset counts from where messages may begin
)

// Verify runs the plan once on known bytes and checks what arrived. All ranks call
// it. The error of a rank that received wrong bytes has a *Corruption as its
// cause. No plan may be posted and not waited for. Files that the plan writes
// are written.
func Verify(p *LoadPlan) error {
	if p.requests != nil {
		return VerifySchedule(p, nil)
	}
	if err := Fill(p, 0); err != nil {
		return err
	}
	if err := p.Run(1, false); err != nil {
		return err
	}
	return Check(p, 0)
}

// Fill writes known bytes where the plan sends from, and their opposite where it
// receives, for a run that follows: rounds differ in every byte's stream. All ranks
// call it. Other plans on the same lane use the same buffers, so they must not run
// before Check, unless all are of one call of Apart.
func Fill(p *LoadPlan, round int) error {
	if err := p.Usable(); err != nil {
		return err
	}
	p.MarkGap()
	p.disturb()
	p.filled()
	return (&check{p, round}).apart((*check).fill)
}

// Check compares what has arrived since Fill, and what was sent from, with what belongs there. All ranks call it after
// their runs. Wrong bytes are an error of the kind Corrupt whose cause is a *Corruption.
func Check(p *LoadPlan, round int) error {
	if err := p.Usable(); err != nil {
		return err
	}
	if err := p.undisturbed(); err != nil {
		return err
	}
	return (&check{p, round}).apart((*check).arrived)
}

// lateness is how long bytes may be under way that a backend called complete at their initiator.
const lateness = 2 * time.Second

// arrived compares until the bytes are right or too late. With UCX and shm they are there when they are complete.
func (c *check) arrived() error {
	err := c.compare()
	if !nixl.EarlyBackend(c.Session().Info().Backend) {
		return err
	}
	for start := time.Now(); errors.As(err, new(*Corruption)) && time.Since(start) < lateness; err = c.compare() {
		time.Sleep(time.Millisecond)
	}
	return err
}

// apart takes a step while no rank is at a different one.
func (c *check) apart(step func(*check) error) error {
	all := c.Session().World().All()
	if err := all.Barrier(); err != nil {
		return err
	}
	if err := step(c); err != nil {
		return err
	}
	return all.Barrier()
}

// check is one plan at this rank.
type check struct {
	*LoadPlan
	round int
}

// each calls f for all messages that leave and reach this rank, with the lane's buffers.
func (c *check) each(sent, received func(b *session.Bound, m load.Message) error) error {
	for _, b := range c.Reserved.Lanes {
		if b.Lane == nil {
			continue
		}
		leaving, arriving := c.Messages(c.Session().World().Rank(), b.Number)
		for _, list := range []struct {
			messages []load.Message
			f        func(b *session.Bound, m load.Message) error
		}{{leaving, sent}, {arriving, received}} {
			for _, m := range list.messages {
				if list.f == nil {
					break
				}
				if err := list.f(b, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fill writes each message where it is sent from, and its opposite where it will be received, so that not one byte
// is right by chance.
func (c *check) fill() error {
	err := c.each(
		func(b *session.Bound, m load.Message) error { return c.write(b, m, false) },
		func(b *session.Bound, m load.Message) error { return c.write(b, m, true) },
	)
	if err != nil {
		return err
	}
	return c.eachGuard(func(buffer nixl.Buffer, at int64, want, _ []byte) error {
		_, err := buffer.WriteAt(want, at)
		return err
	})
}

// write fills a message's place with its stream, or with the opposite of every bit, so that a byte which does not
// arrive differs wherever it lies.
func (c *check) write(b *session.Bound, m load.Message, flip bool) error {
	buffer, from := b.Buffer(m.Place)
	err := c.walk(b, m, func(p piece) error {
		if flip {
			for i := range p.want {
				p.want[i] = ^p.want[i]
			}
		}
		_, err := buffer.WriteAt(p.want, from+p.place)
		return err
	})
	if err != nil {
		return fault.New(fault.Engine, "fill %s for %s: %w", m.Mem, c.Label(), err)
	}
	return nil
}

// chunk is how much of a buffer is looked at at a time.
const chunk = 4 << 20

// piece is part of a message: the bytes that belong there, the place in the buffer, and the place in the message.
type piece struct {
	want    []byte
	got     []byte // room for as many
	place   int64
	message int64
	block   int64 // index of the block in the message, and the place there, if it has blocks
	inBlock int64
}

// walk calls f for all of a message in pieces.
func (c *check) walk(b *session.Bound, m load.Message, f func(p piece) error) error {
	numbers := append([]int{c.Number}, m.Key...)
	if c.round != 0 {
		numbers = append(numbers, c.round)
	}
	key := newStream(c.Session().Seed(), numbers...)
	var room, want []byte
	var done int64 // bytes of the message
	for k, d := range m.Pieces {
		at := done
		if m.At != nil {
			at = m.At[k]
		}
		if n := min(d.Len, chunk); int64(len(room)) < n {
			room, want = make([]byte, n), make([]byte, n)
		}
		for off := int64(0); off < d.Len; {
			n := min(d.Len-off, chunk)
			if m.Original == nil {
				key.Fill(want[:n], at+off, false)
			} else if err := original(b, m, k, off, want[:n]); err != nil {
				return err
			}
			p := piece{want: want[:n], got: room[:n], place: d.Off + off, message: done + off, block: -1}
			if m.Block > 0 {
				p.block, p.inBlock = m.First+int64(k)*m.Step, off
			}
			if err := f(p); err != nil {
				return err
			}
			off += n
		}
		done += d.Len
	}
	return nil
}

// original reads what a file holds for a part of a message.
func original(b *session.Bound, m load.Message, k int, off int64, to []byte) error {
	file, from := b.Buffer(m.Original.Place)
	_, err := file.ReadAt(to, from+m.Original.Pieces[k].Off+off)
	return err
}

// compare looks at all messages and at the guards around them, and reports the first that is wrong with the number of
// all: one wrong offset often damages many messages, and the first is the place to begin.
func (c *check) compare() error {
	var first *Corruption
	wrong := 0
	look := func(b *session.Bound, m load.Message, where string) error {
		found, err := c.compareMessage(b, m, where)
		if err != nil {
			return fault.New(fault.Engine, "read %s for %s: %w", m.Mem, c.Label(), err)
		}
		if found != nil {
			wrong++
			if first == nil {
				first = found
			}
		}
		return nil
	}
	err := c.each(
		func(b *session.Bound, m load.Message) error { return look(b, m, source) },
		func(b *session.Bound, m load.Message) error { return look(b, m, where(m)) },
	)
	if err != nil {
		return err
	}
	// The sender's memory and the guards are looked at even where all messages are right.
	beside, err := c.compareGuards()
	if err != nil {
		return err
	}
	if first == nil {
		first = beside
	}
	if first == nil {
		return nil
	}
	first.WrongMessages = wrong
	return fault.New(fault.Corrupt, "verification failed: %w", first)
}

// compareMessage returns nil if the message is as it was sent.
func (c *check) compareMessage(b *session.Bound, m load.Message, where string) (found *Corruption, err error) {
	buffer, from := b.Buffer(m.Place)
	err = c.walk(b, m, func(p piece) error {
		if _, err := buffer.ReadAt(p.got, from+p.place); err != nil {
			return err
		}
		wrong, at := differ(p.want, p.got)
		if wrong == 0 {
			return nil
		}
		if found == nil {
			found = &Corruption{
				Label: c.Label(), Sender: m.Sender, Receiver: m.Receiver, Lane: b.Number.Given(), Where: where,
				Block: p.block, Offset: p.message + int64(at), Want: p.want[at], Got: p.got[at],
			}
			if p.block >= 0 {
				found.Offset = p.inBlock + int64(at)
			}
		}
		found.WrongBytes += wrong
		return nil
	})
	return found, err
}

func where(m load.Message) string {
	switch {
	case m.Mem == nixl.FILE:
		return inFile
	case m.Original != nil:
		return fromFile
	}
	return ""
}

// Received returns the first bytes of each message that this rank received, as
// they are now: at most head of each, keyed by sender.
func Received(p *LoadPlan, head int) (map[int][]byte, error) {
	c := &check{LoadPlan: p}
	out := map[int][]byte{}
	err := c.each(nil, func(b *session.Bound, m load.Message) error {
		if b.Number == load.Files {
			return nil
		}
		buffer, from := b.Buffer(m.Place)
		d := m.Pieces[0]
		data := make([]byte, min(d.Len, int64(head)))
		if _, err := buffer.ReadAt(data, from+d.Off); err != nil {
			return fault.New(fault.Engine, "read the receive buffer: %w", err)
		}
		out[m.Sender] = data
		return nil
	})
	return out, err
}
