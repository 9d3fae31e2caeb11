package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	frameHeader      = 20
	maxFrame         = 1 << 20 // payload bytes of one frame; longer messages are split
	maxMessage       = 1 << 31 // what a receiver is willing to put together
	flagMore         = 1
	handshakeTimeout = 10 * time.Second
	dialTimeout      = 10 * time.Second
	maxStrangers     = 128 // connections that have not yet proved anything
)

// TCP is an endpoint over TCP. A link carries messages one way: each rank
// dials the ranks it sends to, when it first sends.
type TCP struct {
	rank    int
	size    int
	secret  []byte
	resolve func(ctx context.Context, rank int) ([]string, error)

	listener  net.Listener
	addresses []string
	box       *mailbox

	mu     sync.Mutex
	out    map[int]*outLink
	in     map[net.Conn]struct{}
	closed bool
	done   sync.WaitGroup
}

type outLink struct {
	mu   sync.Mutex
	conn net.Conn
	buf  *bufio.Writer
	err  error
}

// TCPConfig describes an endpoint to ListenTCP.
type TCPConfig struct {
	Rank, Size int
	Secret     []byte
	Listen     string   // host:port to listen on, ":0" for any
	Addresses  []string // IPs by which peers may reach this rank, best first
	// Resolve returns a peer's addresses (host:port), best first. It is asked
	// once per peer.
	Resolve func(ctx context.Context, rank int) ([]string, error)
}

// ListenTCP opens an endpoint.
func ListenTCP(cfg TCPConfig) (*TCP, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for other ranks on %s: %w", cfg.Listen, err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		l.Close()
		return nil, err
	}
	t := &TCP{
		rank: cfg.Rank, size: cfg.Size, secret: cfg.Secret, resolve: cfg.Resolve,
		listener: l, box: newMailbox(),
		out: map[int]*outLink{}, in: map[net.Conn]struct{}{},
	}
	for _, ip := range cfg.Addresses {
		t.addresses = append(t.addresses, net.JoinHostPort(ip, port))
	}
	t.done.Add(1)
	go t.accept()
	return t, nil
}

// Addresses returns host:port pairs, best first.
func (t *TCP) Addresses() []string { return t.addresses }

func (t *TCP) accept() {
	defer t.done.Done()
	strangers := make(chan struct{}, maxStrangers)
	for {
		strangers <- struct{}{}
		conn, err := t.listener.Accept()
		if err != nil {
			<-strangers
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors, say: let others finish
			continue
		}
		if !t.track(conn) {
			conn.Close()
			return
		}
		t.done.Add(1)
		go func() {
			defer t.done.Done()
			defer t.untrack(conn)
			conn.SetDeadline(time.Now().Add(handshakeTimeout))
			from, err := Admit(conn, t.secret, t.rank)
			<-strangers
			if err != nil || from < 0 || from >= t.size {
				return // a stranger; the ranks of this job are not his business
			}
			conn.SetDeadline(time.Time{})
			t.box.fail(from, t.read(conn, from))
		}()
	}
}

func (t *TCP) track(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.in[c] = struct{}{}
	return true
}

func (t *TCP) untrack(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.in, c)
}

// read delivers frames until the link ends, and says why it ended.
func (t *TCP) read(conn net.Conn, from int) error {
	r := bufio.NewReaderSize(conn, 64<<10)
	var head [frameHeader]byte
	parts := map[uint64][]byte{} // messages of which only the beginning is here
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("closed by the peer")
			}
			return err
		}
		n := binary.LittleEndian.Uint32(head[0:])
		h := Header{
			Seq:     binary.LittleEndian.Uint32(head[8:]),
			Channel: binary.LittleEndian.Uint64(head[12:]),
			Op:      head[4],
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
		if _, err := io.ReadFull(r, part[start:]); err != nil {
			return err
		}
		if head[5]&flagMore != 0 {
			parts[h.Channel] = part
			continue
		}
		delete(parts, h.Channel)
		t.box.put(from, h, part)
	}
}

// Send writes a message to a rank, opening the link first if need be.
func (t *TCP) Send(ctx context.Context, to int, h Header, data []byte) error {
	if to == t.rank {
		t.box.put(to, h, append([]byte(nil), data...))
		return nil
	}
	if len(data) > maxMessage {
		return fmt.Errorf("message of %d bytes to rank %d: at most %d allowed", len(data), to, maxMessage)
	}
	l, err := t.link(to)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil && l.err == nil {
		l.conn, l.err = t.dial(ctx, to)
		if l.err == nil {
			l.buf = bufio.NewWriterSize(l.conn, 16<<10)
		}
	}
	if l.err == nil {
		l.err = l.write(ctx, h, data)
	}
	if l.err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("link to rank %d: %w", to, l.err)
	}
	return nil
}

func (t *TCP) link(to int) (*outLink, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, net.ErrClosed
	}
	if to < 0 || to >= t.size {
		return nil, fmt.Errorf("rank %d does not exist in a world of %d", to, t.size)
	}
	l := t.out[to]
	if l == nil {
		l = &outLink{}
		t.out[to] = l
	}
	return l, nil
}

func (l *outLink) write(ctx context.Context, h Header, data []byte) error {
	stop := context.AfterFunc(ctx, func() { l.conn.SetWriteDeadline(time.Now()) })
	defer stop()
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		var head [frameHeader]byte
		binary.LittleEndian.PutUint32(head[0:], uint32(len(part)))
		head[4] = h.Op
		if len(data) > 0 {
			head[5] = flagMore
		}
		binary.LittleEndian.PutUint32(head[8:], h.Seq)
		binary.LittleEndian.PutUint64(head[12:], h.Channel)
		if _, err := l.buf.Write(head[:]); err != nil {
			return err
		}
		if _, err := l.buf.Write(part); err != nil {
			return err
		}
	}
	return l.buf.Flush()
}

// dial tries a peer's addresses in order.
func (t *TCP) dial(ctx context.Context, to int) (net.Conn, error) {
	addresses, err := t.resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, a := range addresses {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, "tcp", a)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		conn.SetDeadline(time.Now().Add(handshakeTimeout))
		if err := Greet(conn, t.secret, t.rank, to); err != nil {
			conn.Close()
			failures = append(failures, fmt.Errorf("%s: %w", a, err))
			continue
		}
		conn.SetDeadline(time.Time{})
		return conn, nil
	}
	if len(failures) == 0 {
		return nil, errors.New("it published no address")
	}
	return nil, errors.Join(failures...)
}

// Recv returns the next message of a rank on a channel.
func (t *TCP) Recv(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	return t.box.take(ctx, from, channel)
}

// Close ends all links and waits for their goroutines.
func (t *TCP) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	out := t.out
	for c := range t.in {
		c.Close()
	}
	t.mu.Unlock()
	err := t.listener.Close()
	for _, l := range out {
		l.mu.Lock()
		if l.conn != nil {
			l.conn.Close()
		}
		l.mu.Unlock()
	}
	t.done.Wait()
	return err
}
