package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// connPair returns both ends of a connection without a kernel between them.
func connPair(t *testing.T) (dialer, acceptor *Conn) {
	t.Helper()
	p := transcript{secret, make([]byte, nonceSize), make([]byte, nonceSize), 1, 0}
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	var err error
	if dialer, err = p.conn(a, true); err != nil {
		t.Fatal(err)
	}
	if acceptor, err = p.conn(b, false); err != nil {
		t.Fatal(err)
	}
	return dialer, acceptor
}

// After a write that was given up in the middle of a frame the peer gets no other frame, which it would take for a
// forged one.
func TestTornFrameIsTheLast(t *testing.T) {
	writer, reader := connPair(t)
	begun := make([]byte, frameStart)
	torn := make(chan error, 1)
	go func() {
		n, err := writer.Write([]byte("given up in the middle"))
		if n != 0 {
			t.Errorf("%d bytes were written", n)
		}
		torn <- err
	}()
	if _, err := io.ReadFull(reader.Conn, begun); err != nil {
		t.Fatal(err)
	}
	writer.SetWriteDeadline(time.Unix(1, 0))
	first := <-torn
	if !errors.Is(first, os.ErrDeadlineExceeded) {
		t.Fatalf("the write ended with %v", first)
	}
	writer.SetWriteDeadline(time.Time{})
	reader.Conn = afterwards{bytes.NewReader(begun), reader.Conn}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(reader)
		read <- err
	}()
	if _, err := writer.Write([]byte("next")); err != first {
		t.Errorf("the next write ended with %v", err)
	}
	writer.Close()
	if err := <-read; !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrForged) {
		t.Errorf("the peer got %v", err)
	}
}

// afterwards is a connection of which some bytes were read already.
type afterwards struct {
	before *bytes.Reader
	net.Conn
}

func (a afterwards) Read(b []byte) (int, error) {
	if a.before.Len() > 0 {
		return a.before.Read(b)
	}
	return a.Conn.Read(b)
}
