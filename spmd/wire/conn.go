package wire

import (
	"net"
	"sync"
)

// Conn is a connection after its handshake. What is written travels in frames with a proof each; Read returns
// only bytes whose proof was right, and fails with ErrForged for good where one was wrong.
//
// Read is for one goroutine, beside others that call Write.
type Conn struct {
	net.Conn // deadlines, addresses and Close

	writing sync.Mutex
	out     *sealer
	frame   []byte
	torn    error // why nothing can be written any more

	in     *assembler
	raw    []byte
	ready  []byte // proven, not yet read
	failed error
}

// newConn takes a connection over. The keys are those of its two directions.
func newConn(conn net.Conn, mine, theirs []byte) (*Conn, error) {
	out, err := newSealer(mine)
	if err != nil {
		return nil, err
	}
	in, err := newSealer(theirs)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn, out: out}
	c.in = newAssembler(in, func(_ Header, data []byte) { c.ready = append(c.ready, data...) })
	return c, nil
}

// Write sends data as one frame, or several. A write that fails may have sent part of a frame, behind which the peer
// would take any other for a forged one. So every later write fails with the same error.
func (c *Conn) Write(data []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.torn != nil {
		return 0, c.torn
	}
	for len(data) > 0 {
		part := data[:min(len(data), maxFrame)]
		c.frame = c.out.appendFrame(c.frame[:0], Header{}, part)
		if _, c.torn = c.Conn.Write(c.frame); c.torn != nil {
			return n, c.torn
		}
		n, data = n+len(part), data[len(part):]
	}
	return n, nil
}

// Read waits for a whole frame unless part of one is left.
func (c *Conn) Read(b []byte) (int, error) {
	if c.raw == nil {
		c.raw = make([]byte, connBuffer)
	}
	for len(c.ready) == 0 && c.failed == nil {
		n, err := c.Conn.Read(c.raw)
		if n == 0 && err != nil {
			return 0, c.in.ended(err) // a deadline may be moved, so this is not for good
		}
		c.failed = c.in.feed(c.raw[:n])
	}
	n := copy(b, c.ready)
	if c.ready = c.ready[n:]; n == 0 {
		return 0, c.failed
	}
	return n, nil
}

const connBuffer = 4 << 10

// tcp returns the connection below, nil if it is none of TCP.
func tcp(conn net.Conn) *net.TCPConn {
	if c, ok := conn.(*Conn); ok {
		conn = c.Conn
	}
	t, _ := conn.(*net.TCPConn)
	return t
}
