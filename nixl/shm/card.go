package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"perigee/nixl/internal/kernel"
)

// A card is fixed-width and little-endian, so one content has one encoding:
//
//	magic "PGSM", version uint32, owner kernel.ProcessID,
//	length of the name uint32, name padded with zeros to 256 bytes,
//	count uint32, then 1 + count times, the inbox first: fd int64, size int64, device uint64, inode uint64
const (
	cardMagic   = "PGSM"
	cardVersion = 2
	cardOwner   = 4 + 4
	cardName    = cardOwner + kernel.ProcessSize
	cardCount   = cardName + 4 + nameSize
	cardInbox   = cardCount + 4
	cardHead    = cardInbox + cardEntry
	cardEntry   = 32
	maxBuffers  = 1 << 16
)

// card describes to a peer how to map an agent's buffers.
type card struct {
	owner   kernel.ProcessID
	name    string
	inbox   cardBuffer // size 0: none
	buffers []cardBuffer
}

// cardBuffer is one memfd of the owner. size 0 stands for an empty buffer that has
// no memfd.
type cardBuffer struct {
	fd, size   int64
	dev, inode uint64 // to notice that the owner closed fd and opened something else
}

// encode writes a card in the form that the comment of the type describes. The inbox stands before the buffers, and is
// not counted among them.
func (c card) encode() []byte {
	b := make([]byte, 0, cardHead+len(c.buffers)*cardEntry)
	b = append(b, cardMagic...)
	b = binary.LittleEndian.AppendUint32(b, cardVersion)
	b = c.owner.Append(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.name)))
	b = append(b, c.name...)
	b = append(b, make([]byte, nameSize-len(c.name))...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.buffers)))
	for _, e := range slices.Concat([]cardBuffer{c.inbox}, c.buffers) {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.fd))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.size))
		b = binary.LittleEndian.AppendUint64(b, e.dev)
		b = binary.LittleEndian.AppendUint64(b, e.inode)
	}
	return b
}

// decodeCard reads a card and checks all that is in it: it comes from another process, and what it says becomes a
// mapping of memory. The errors for another engine or version name the likely reason.
func decodeCard(b []byte) (card, error) {
	var c card
	if len(b) < cardHead || !bytes.HasPrefix(b, []byte(cardMagic)) {
		return c, fmt.Errorf("not a card of the shm engine (%d bytes); do all ranks use the same engine?", len(b))
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != cardVersion {
		return c, fmt.Errorf("card of version %d: want %d; do all ranks run the same perigee?", v, cardVersion)
	}
	var err error
	if c.owner, err = kernel.DecodeProcess(b[cardOwner:cardName]); err != nil {
		return c, fmt.Errorf("card: %w", err)
	}
	name := binary.LittleEndian.Uint32(b[cardName:])
	field := b[cardName+4 : cardCount]
	if name == 0 || name > nameSize || len(bytes.Trim(field[name:], "\x00")) > 0 {
		return c, fmt.Errorf("card with a name of %d bytes", name)
	}
	c.name = string(field[:name])
	n := binary.LittleEndian.Uint32(b[cardCount:])
	if n > maxBuffers || len(b) != cardHead+int(n)*cardEntry {
		return c, fmt.Errorf("card of %d buffers in %d bytes", n, len(b))
	}
	for rest := b[cardInbox:]; len(rest) > 0; rest = rest[cardEntry:] {
		e := cardBuffer{
			fd:    int64(binary.LittleEndian.Uint64(rest)),
			size:  int64(binary.LittleEndian.Uint64(rest[8:])),
			dev:   binary.LittleEndian.Uint64(rest[16:]),
			inode: binary.LittleEndian.Uint64(rest[24:]),
		}
		if err := e.check(); err != nil {
			return c, fmt.Errorf("card: buffer %d: %w", len(c.buffers)-1, err)
		}
		c.buffers = append(c.buffers, e)
	}
	c.inbox, c.buffers = c.buffers[0], c.buffers[1:]
	return c, nil
}

func (e cardBuffer) check() error {
	if e.size < 0 || e.size > math.MaxInt64/2 {
		return fmt.Errorf("size %d", e.size)
	}
	if e.size > 0 && (e.fd < 0 || e.fd > math.MaxInt32) {
		return fmt.Errorf("file descriptor %d", e.fd)
	}
	if e.size == 0 && e != (cardBuffer{fd: -1}) {
		return errors.New("empty, but with a file")
	}
	return nil
}
