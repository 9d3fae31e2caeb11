package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A message travels as one frame, or as several, one after the other. A frame is a head of 20 bytes, little
// endian, and its tag, then, unless it is empty, a payload and its tag (see sealer):
//
//	0  payload bytes     4  collective     5  flags     6  its root
//	8  sequence number  12  channel       20  tag of the head
//	36 payload, and its tag
//
// The head has its own tag so that a receiver never waits for a payload whose length was altered.
const (
	headSize   = 20
	frameStart = headSize + tagSize
	maxFrame   = 1 << 20 // payload bytes of one frame; longer messages are split
	maxMessage = 1 << 31 // what a receiver is willing to put together
	flagMore   = 1       // the message goes on in the next frame
)

// FrameBytes returns how many bytes a message with a payload of n bytes takes on a link, and in how many frames.
func FrameBytes(n int) (bytes, frames int) {
	frames = max(1, (n+maxFrame-1)/maxFrame)
	bytes = n + frames*frameStart
	if n > 0 {
		bytes += frames * tagSize
	}
	return bytes, frames
}

// appendStart appends a frame's head and its tag. more says that other frames of the message follow.
func (s *sealer) appendStart(b []byte, h Header, payload int, more bool) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(payload))
	flags := byte(0)
	if more {
		flags = flagMore
	}
	b = append(b, h.Op, flags)
	b = binary.LittleEndian.AppendUint16(b, h.Root)
	b = binary.LittleEndian.AppendUint32(b, h.Seq)
	b = binary.LittleEndian.AppendUint64(b, h.Channel)
	return s.seal(b, b[at:])
}

// appendFrame appends a message that fits one frame.
func (s *sealer) appendFrame(b []byte, h Header, data []byte) []byte {
	b = s.appendStart(b, h, len(data), false)
	if len(data) == 0 {
		return b
	}
	return s.seal(append(b, data...), data)
}

var errHungUp = errors.New("closed by the peer")

// assembler puts messages together from the bytes of a link, in pieces of any size. It delivers only what
// has passed its check.
type assembler struct {
	seal    *sealer
	deliver func(h Header, data []byte)

	start    [frameStart]byte
	hasStart int    // bytes of start that are here
	lacks    int    // bytes of the frame's payload and tag that are not, once its start is
	size     int    // of the frame's payload
	message  []byte // to which the frame belongs, as far as it is here
	frames   int    // that were read whole
}

func newAssembler(seal *sealer, deliver func(h Header, data []byte)) *assembler {
	return &assembler{seal: seal, deliver: deliver}
}

// feed takes the next bytes. After an error no more can be understood.
func (a *assembler) feed(data []byte) error {
	for len(data) > 0 {
		if a.hasStart < frameStart {
			n := copy(a.start[a.hasStart:], data)
			data = data[n:]
			if a.hasStart += n; a.hasStart < frameStart {
				return nil
			}
			if err := a.open(); err != nil {
				return err
			}
		}
		n := min(len(data), a.lacks)
		a.message = append(a.message, data[:n]...)
		data, a.lacks = data[n:], a.lacks-n
		if a.lacks == 0 {
			if err := a.close(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *assembler) forged() error { return fmt.Errorf("frame %d was %w", a.frames+1, ErrForged) }

// open begins a frame whose head and tag are here.
func (a *assembler) open() error {
	if !a.seal.check(a.start[:headSize], a.start[headSize:]) {
		return a.forged()
	}
	n := binary.LittleEndian.Uint32(a.start[0:])
	if n > maxFrame {
		return fmt.Errorf("frame of %d bytes, at most %d allowed", n, maxFrame)
	}
	if len(a.message)+int(n) > maxMessage {
		return fmt.Errorf("message of more than %d bytes", maxMessage)
	}
	a.size, a.lacks = int(n), 0
	if n > 0 {
		a.lacks = a.size + tagSize
		a.message = slices.Grow(a.message, a.lacks)
	}
	return nil
}

// close ends a frame, and delivers the message if it was its last.
func (a *assembler) close() error {
	if a.size > 0 {
		end := len(a.message) - tagSize
		if !a.seal.check(a.message[end-a.size:end], a.message[end:]) {
			return a.forged()
		}
		a.message = a.message[:end]
	}
	a.hasStart, a.frames = 0, a.frames+1
	if a.start[5]&flagMore != 0 {
		return nil
	}
	h := Header{
		Channel: binary.LittleEndian.Uint64(a.start[12:]), Seq: binary.LittleEndian.Uint32(a.start[8:]),
		Op: a.start[4], Root: binary.LittleEndian.Uint16(a.start[6:]),
	}
	message := a.message
	a.message = nil
	a.deliver(h, message)
	return nil
}

// ended returns why a link has ended: the error of its last read, or io.ErrUnexpectedEOF in the middle of a frame.
func (a *assembler) ended(err error) error {
	if a.hasStart == 0 {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, errHungUp) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("in the middle of a message: %w", err)
}
