package shm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"perigee/nixl/internal/process"
)

// A card is fixed-width and little-endian, so one content has one encoding:
//
//	magic "PGSM", version uint32, owner process.ID, count uint32,
//	then count times: fd int64, size int64, device uint64, inode uint64
const (
	cardMagic   = "PGSM"
	cardVersion = 1
	cardOwner   = 4 + 4
	cardCount   = cardOwner + process.Size
	cardHead    = cardCount + 4
	cardEntry   = 32
	maxBuffers  = 1 << 16
)

// card is what a peer must know to map an agent's buffers.
type card struct {
	owner   process.ID
	buffers []cardBuffer
}

// cardBuffer is one memfd of the owner. size 0 stands for an empty buffer that has
// no memfd.
type cardBuffer struct {
	fd, size   int64
	dev, inode uint64 // to notice that the owner closed fd and opened something else
}

func (c card) encode() []byte {
	b := make([]byte, 0, cardHead+len(c.buffers)*cardEntry)
	b = append(b, cardMagic...)
	b = binary.LittleEndian.AppendUint32(b, cardVersion)
	b = c.owner.Append(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.buffers)))
	for _, e := range c.buffers {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.fd))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.size))
		b = binary.LittleEndian.AppendUint64(b, e.dev)
		b = binary.LittleEndian.AppendUint64(b, e.inode)
	}
	return b
}

func decodeCard(b []byte) (card, error) {
	var c card
	if len(b) < cardHead || !bytes.HasPrefix(b, []byte(cardMagic)) {
		return c, fmt.Errorf("not a card of the shm engine (%d bytes); do all ranks use the same engine?", len(b))
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != cardVersion {
		return c, fmt.Errorf("card of version %d: want %d; do all ranks run the same perigee?", v, cardVersion)
	}
	var err error
	if c.owner, err = process.Decode(b[cardOwner:cardCount]); err != nil {
		return c, fmt.Errorf("card: %w", err)
	}
	n := binary.LittleEndian.Uint32(b[cardCount:])
	if n > maxBuffers || len(b) != cardHead+int(n)*cardEntry {
		return c, fmt.Errorf("card of %d buffers in %d bytes", n, len(b))
	}
	for rest := b[cardHead:]; len(rest) > 0; rest = rest[cardEntry:] {
		e := cardBuffer{
			fd:    int64(binary.LittleEndian.Uint64(rest)),
			size:  int64(binary.LittleEndian.Uint64(rest[8:])),
			dev:   binary.LittleEndian.Uint64(rest[16:]),
			inode: binary.LittleEndian.Uint64(rest[24:]),
		}
		if err := e.check(); err != nil {
			return c, fmt.Errorf("card: buffer %d: %w", len(c.buffers), err)
		}
		c.buffers = append(c.buffers, e)
	}
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
