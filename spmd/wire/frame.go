package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// readFrames delivers messages until the link ends, and says why it ended.
func readFrames(r io.Reader, deliver func(h Header, data []byte)) error {
	buffered := bufio.NewReaderSize(r, 64<<10)
	var head [frameHeader]byte
	parts := map[uint64][]byte{} // messages of which only the beginning is here
	for {
		if _, err := io.ReadFull(buffered, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return errHungUp
			}
			return err
		}
		n := binary.LittleEndian.Uint32(head[0:])
		h := Header{
			Seq:     binary.LittleEndian.Uint32(head[8:]),
			Channel: binary.LittleEndian.Uint64(head[12:]),
			Op:      head[4],
			Root:    binary.LittleEndian.Uint16(head[6:]),
		}
		if n > maxFrame {
			return fmt.Errorf("frame of %d bytes, at most %d allowed", n, maxFrame)
		}
		part := parts[h.Channel]
		if len(part)+int(n) > maxMessage {
			return fmt.Errorf("message of more than %d bytes", maxMessage)
		}
		start := len(part)
		part = append(part, make([]byte, n)...)
		if _, err := io.ReadFull(buffered, part[start:]); err != nil {
			return fmt.Errorf("in the middle of a message: %w", err)
		}
		if head[5]&flagMore != 0 {
			parts[h.Channel] = part
			continue
		}
		delete(parts, h.Channel)
		deliver(h, part)
	}
}
