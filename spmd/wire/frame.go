package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A frame is a header of 20 bytes, little endian, and a payload:
//
//	0  payload bytes     4  collective     5  flags     6  its root
//	8  sequence number  12  channel
const (
	frameHeader = 20
	maxFrame    = 1 << 20 // payload bytes of one frame; longer messages are split
	maxMessage  = 1 << 31 // what a receiver is willing to put together
	flagMore    = 1       // the message goes on in the next frame of its channel
)

func newWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 16<<10) }

// writeFrames writes a message as one frame or several, and returns how many.
func writeFrames(w *bufio.Writer, h Header, data []byte) (frames int, err error) {
	for ; frames == 0 || len(data) > 0; frames++ {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		var head [frameHeader]byte
		binary.LittleEndian.PutUint32(head[0:], uint32(len(part)))
		head[4] = h.Op
		if len(data) > 0 {
			head[5] = flagMore
		}
		binary.LittleEndian.PutUint16(head[6:], h.Root)
		binary.LittleEndian.PutUint32(head[8:], h.Seq)
		binary.LittleEndian.PutUint64(head[12:], h.Channel)
		if _, err := w.Write(head[:]); err != nil {
			return frames, err
		}
		if _, err := w.Write(part); err != nil {
			return frames, err
		}
	}
	return frames, w.Flush()
}

var errHungUp = errors.New("closed by the peer")

// assembler puts messages together from the bytes of a link, in pieces of any size.
type assembler struct {
	deliver func(h Header, data []byte)

	head    [frameHeader]byte
	hasHead int    // bytes of head that are here
	lacks   int    // bytes of the frame's payload that are not, once its head is
	part    []byte // the message to which the frame belongs, as far as it is here
	begun   map[uint64][]byte
}

func newAssembler(deliver func(h Header, data []byte)) *assembler {
	return &assembler{deliver: deliver, begun: map[uint64][]byte{}}
}

// feed takes the next bytes. After an error no more can be understood.
func (a *assembler) feed(data []byte) error {
	for len(data) > 0 || a.complete() {
		if a.hasHead < frameHeader {
			n := copy(a.head[a.hasHead:], data)
			data = data[n:]
			if a.hasHead += n; a.hasHead == frameHeader {
				if err := a.open(); err != nil {
					return err
				}
			}
			continue
		}
		n := min(len(data), a.lacks)
		a.part = append(a.part, data[:n]...)
		data, a.lacks = data[n:], a.lacks-n
		if a.lacks == 0 {
			a.close()
		}
	}
	return nil
}

// complete reports whether the frame that is open is all here.
func (a *assembler) complete() bool { return a.hasHead == frameHeader && a.lacks == 0 }

func (a *assembler) channel() uint64 { return binary.LittleEndian.Uint64(a.head[12:]) }

// open begins a frame whose head is here.
func (a *assembler) open() error {
	n := binary.LittleEndian.Uint32(a.head[0:])
	if n > maxFrame {
		return fmt.Errorf("frame of %d bytes, at most %d allowed", n, maxFrame)
	}
	part := a.begun[a.channel()]
	if len(part)+int(n) > maxMessage {
		return fmt.Errorf("message of more than %d bytes", maxMessage)
	}
	a.part, a.lacks = slices.Grow(part, int(n)), int(n)
	return nil
}

// close ends a frame, and delivers the message if it was its last.
func (a *assembler) close() {
	part := a.part
	a.part, a.hasHead = nil, 0
	if a.head[5]&flagMore != 0 {
		a.begun[a.channel()] = part
		return
	}
	delete(a.begun, a.channel())
	a.deliver(Header{Channel: a.channel(), Seq: binary.LittleEndian.Uint32(a.head[8:]), Op: a.head[4], Root: binary.LittleEndian.Uint16(a.head[6:])}, part)
}

// ended says why a link has ended, given what its last read said.
func (a *assembler) ended(err error) error {
	eof := errors.Is(err, io.EOF)
	switch {
	case a.hasHead == frameHeader && eof:
		return fmt.Errorf("in the middle of a message: %w", io.ErrUnexpectedEOF)
	case a.hasHead == frameHeader:
		return fmt.Errorf("in the middle of a message: %w", err)
	case a.hasHead > 0 && eof:
		return io.ErrUnexpectedEOF
	case eof:
		return errHungUp
	}
	return err
}
