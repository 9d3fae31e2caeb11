package capi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// A card in little-endian order:
//
//	magic "PGNX", version uint32, owner kernel.ProcessID,
//	name: uint32 length and bytes, metadata: uint32 length and bytes,
//	lanes: uint32 length and bytes,
//	count uint32, then count times: mem uint32, device uint32, address uint64, size uint64,
//	CRC-32 (IEEE) of everything before
//
// The checksum is there because the library trusts what it is given.
const (
	cardMagic    = "PGNX"
	cardVersion  = 2
	cardOwner    = 4 + 4
	cardName     = cardOwner + kernel.ProcessSize
	cardEntry    = 4 + 4 + 8 + 8
	maxCardName  = 255
	maxBuffers   = 1 << 16
	cardChecksum = 4
)

// card shows a peer how to reach an agent's buffers.
type card struct {
	owner    kernel.ProcessID
	name     string
	metadata []byte // the library's own
	lanes    string // what UCX could use of its host's network
	buffers  []cardBuffer
}

// cardBuffer is where a buffer is in its owner's memory. An empty one is nowhere, at 0.
type cardBuffer struct {
	mem     nixl.Mem
	device  uint32
	address uint64
	size    int64
}

func (c card) encode() []byte {
	b := append([]byte{}, cardMagic...)
	b = binary.LittleEndian.AppendUint32(b, cardVersion)
	b = c.owner.Append(b)
	for _, field := range [][]byte{[]byte(c.name), c.metadata, []byte(c.lanes)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.buffers)))
	for _, e := range c.buffers {
		b = binary.LittleEndian.AppendUint32(b, uint32(e.mem))
		b = binary.LittleEndian.AppendUint32(b, e.device)
		b = binary.LittleEndian.AppendUint64(b, e.address)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.size))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// reader takes a card apart; ok becomes false where it is too short.
type reader struct {
	rest []byte
	ok   bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.ok = false
		return nil
	}
	var part []byte
	part, r.rest = r.rest[:n], r.rest[n:]
	return part
}

func (r *reader) uint32() uint32 {
	if part := r.take(4); r.ok {
		return binary.LittleEndian.Uint32(part)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if part := r.take(8); r.ok {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func decodeCard(b []byte) (card, error) {
	var c card
	if len(b) < cardName+cardChecksum || !bytes.HasPrefix(b, []byte(cardMagic)) {
		return c, fmt.Errorf("not a card of the nixl engine (%d bytes); do all ranks use the same engine?", len(b))
	}
	if v := binary.LittleEndian.Uint32(b[len(cardMagic):]); v != cardVersion {
		return c, fmt.Errorf("card of version %d: want %d; do all ranks run the same perigee?", v, cardVersion)
	}
	body, sum := b[:len(b)-cardChecksum], b[len(b)-cardChecksum:]
	if binary.LittleEndian.Uint32(sum) != crc32.ChecksumIEEE(body) {
		return c, errors.New("card with a wrong checksum")
	}
	var err error
	if c.owner, err = kernel.DecodeProcess(body[cardOwner:cardName]); err != nil {
		return c, fmt.Errorf("card: %w", err)
	}
	r := reader{rest: body[cardName:], ok: true}
	c.name = string(r.take(int(r.uint32())))
	c.metadata = bytes.Clone(r.take(int(r.uint32())))
	c.lanes = string(r.take(int(r.uint32())))
	n := r.uint32()
	if !r.ok || n > maxBuffers || len(r.rest) != int(n)*cardEntry {
		return c, fmt.Errorf("card whose parts do not fit into %d bytes", len(b))
	}
	if err := checkName(c.name); err != nil {
		return c, fmt.Errorf("card: %w", err)
	}
	if len(c.metadata) == 0 {
		return c, errors.New("card without metadata")
	}
	for i := range n {
		e := cardBuffer{mem: mem(r.uint32()), device: r.uint32(), address: r.uint64(), size: int64(r.uint64())}
		if err := e.check(); err != nil {
			return c, fmt.Errorf("card: buffer %d: %w", i, err)
		}
		c.buffers = append(c.buffers, e)
	}
	return c, nil
}

// checkName keeps agent names printable and free of what C strings cannot hold.
func checkName(name string) error {
	if name == "" || len(name) > maxCardName {
		return fmt.Errorf("agent name of %d bytes: want 1 to %d", len(name), maxCardName)
	}
	for _, r := range name {
		if r < ' ' || r > '~' {
			return fmt.Errorf("agent name %q: want printable ASCII", name)
		}
	}
	return nil
}

func (e cardBuffer) check() error {
	switch {
	case e.mem != nixl.DRAM && e.mem != nixl.VRAM:
		return fmt.Errorf("%v", e.mem)
	case e.size < 0 || e.address > math.MaxUint64-uint64(e.size):
		return fmt.Errorf("%d bytes at %#x", e.size, e.address)
	case e.size > 0 && e.address == 0, e.size == 0 && e.address != 0:
		return fmt.Errorf("%d bytes at %#x", e.size, e.address)
	}
	return nil
}

// mem keeps a wide number from turning into a kind of memory by being cut.
func mem(n uint32) nixl.Mem { return nixl.Mem(min(n, math.MaxUint8)) }
