package wire

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outLink is a link to a rank.
type outLink struct {
	mu   sync.Mutex // held while a message is written, and while dialling
	conn *Conn
	err  error

	raw     syscall.RawConn
	frame   []byte
	attempt func(fd uintptr) bool // writes pending once
	pending []byte
}

// oneWrite is the longest payload that is copied behind its head, so that one call into the kernel sends both.
const oneWrite = 16 << 10

func (l *outLink) use(conn *Conn) error {
	raw, err := tcp(conn).SyscallConn()
	if err != nil {
		return err
	}
	l.conn, l.raw = conn, raw
	l.attempt = func(fd uintptr) bool {
		for len(l.pending) > 0 {
			n, err := unix.Write(int(fd), l.pending)
			if err == unix.EINTR {
				continue
			}
			if n > 0 {
				l.pending = l.pending[n:]
			}
			break // no room, or an error that the next write meets again
		}
		return true
	}
	return nil
}

// write sends a message. A short one for which the kernel has room, and that is nearly all, needs neither
// a deadline nor a watch over ctx.
func (l *outLink) write(ctx context.Context, h Header, data []byte) error {
	if len(data) > oneWrite {
		return l.writeLong(ctx, h, data)
	}
	l.frame = l.conn.out.appendFrame(l.frame[:0], h, data)
	l.pending = l.frame
	if err := l.raw.Write(l.attempt); err != nil || len(l.pending) == 0 {
		return err
	}
	defer l.watch(ctx)()
	_, err := l.conn.Conn.Write(l.pending)
	return err
}

// writeLong sends a message without copying it.
func (l *outLink) writeLong(ctx context.Context, h Header, data []byte) error {
	defer l.watch(ctx)()
	seal := l.conn.out
	for len(data) > 0 {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		l.frame = seal.appendStart(l.frame[:0], h, len(part), len(data) > 0)
		l.frame = seal.seal(l.frame, part)
		pieces := net.Buffers{l.frame[:frameStart], part, l.frame[frameStart:]}
		if _, err := pieces.WriteTo(l.conn.Conn); err != nil {
			return err
		}
	}
	return nil
}

// watch ends writes of the link when ctx ends.
func (l *outLink) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { l.conn.SetWriteDeadline(time.Unix(1, 0)) })
}
