package result

import (
	"errors"
	"io"
	"testing"
)

// endless is a text without end.
type endless struct{ text string }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[i%len(e.text)]
	}
	return len(p), nil
}

// What may be recorded grows with the memory of a host, so a run of many ranks makes more than 4 GiB of text. Its
// result is read: it is a stream, bounded by its file.
func TestLargeTextIsRead(t *testing.T) {
	const file = 1 << 30 // stored bytes
	g := newGuard(endless{" 1"}, &counted{n: file})
	g.bytes = 4<<30 - 10
	if n, err := g.Read(make([]byte, 100)); n != 100 || err != nil {
		t.Errorf("%d bytes behind 4 GiB, %v", n, err)
	}
	g.bytes = baseText + file*textPerByte
	if _, err := g.Read(make([]byte, 100)); !errors.As(err, new(bomb)) {
		t.Errorf("more than the file may unpack to: %v", err)
	}
	g = newGuard(endless{" 1"}, &counted{n: maxSize})
	g.bytes = maxSize
	if _, err := io.ReadFull(g, make([]byte, 100)); !errors.Is(err, errTooLong) {
		t.Errorf("more than any text: %v", err)
	}
}
