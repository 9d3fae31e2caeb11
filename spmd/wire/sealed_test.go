package wire

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzSealedFrames makes frames whose tags are right, as a peer of the job could: changed bytes of a link, as
// FuzzReadFrames makes them, get no further than to the first tag. Four bytes are a frame: what it is (bit 0: more
// of the message follows; 1: a bit of it is changed; 2: its end is cut off), the channel of its message, and its length.
func FuzzSealedFrames(f *testing.F) {
	f.Add([]byte{0, 1, 3, 0})
	f.Add([]byte{1, 1, 2, 0, 0, 1, 1, 0})
	f.Add([]byte{1, 1, 2, 0, 1, 2, 2, 0, 0, 2, 0, 0, 0, 1, 5, 0})
	f.Add([]byte{1, 1, 0, 0, 2, 1, 9, 0})
	f.Add([]byte{4, 1, 100, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		const mostFrames = 64
		s := testSealer(t)
		var stream []byte
		messages, whole, more, channel := 0, true, false, byte(0)
		for n := 0; len(script) >= 4 && n < mostFrames && whole; n, script = n+1, script[4:] {
			kind, length := script[0], int(binary.LittleEndian.Uint16(script[2:]))
			if !more {
				channel = script[1]
			}
			more = kind&1 != 0
			b := frame(s, uint32(length), uint64(channel), kind&1, bytes.Repeat([]byte{channel}, length))
			if kind&2 != 0 {
				b[(n*7)%len(b)] ^= 1 << (n % 8)
				whole = false
			}
			if kind&4 != 0 {
				b = b[:len(b)-1-n%len(b)]
				whole = false
			}
			if whole && kind&1 == 0 {
				messages++
			}
			stream = append(stream, b...)
		}
		var first error
		for _, piece := range []int{1 << 20, 1, frameStart - 1, frameStart + 1} {
			got := 0
			err := readFrames(t, bytes.NewReader(stream), piece, func(h Header, data []byte) {
				got++
				if len(data) > 0 && (data[0] != byte(h.Channel) || data[len(data)-1] != byte(h.Channel)) {
					t.Fatalf("a message of channel %d holds bytes of %d and %d", h.Channel, data[0], data[len(data)-1])
				}
			})
			if got != messages || err == nil || first != nil && err.Error() != first.Error() {
				t.Fatalf("pieces of %d: %d messages of %d, %v; before: %v", piece, got, messages, err, first)
			}
			first = err
		}
	})
}
