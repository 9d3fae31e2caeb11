package wire

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// oneWrite is the longest payload that is copied behind its head.
	oneWrite = 16 << 10
	// roomWait is how often a writer that waits for room looks whether it is still to wait.
	roomWait = 10 * time.Millisecond
)

// write sends a message. A short one for which the kernel has room, and that is nearly all, costs one call into it.
func (l *link) write(ctx context.Context, h Header, data []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.gone != nil {
		return l.gone
	}
	if len(data) <= oneWrite {
		l.frame = l.seal.appendFrame(l.frame[:0], h, data)
		return l.writeAll(ctx, l.frame)
	}
	for len(data) > 0 {
		part := data[:min(len(data), maxFrame)]
		data = data[len(part):]
		l.frame = l.seal.appendStart(l.frame[:0], h, len(part), len(data) > 0)
		l.frame = l.seal.seal(l.frame, part)
		if err := l.writeAll(ctx, l.frame[:frameStart], part, l.frame[frameStart:]); err != nil {
			return err
		}
	}
	return nil
}

// writeAll writes pieces. After an error the rest of what was begun would not be understood.
func (l *link) writeAll(ctx context.Context, pieces ...[]byte) error {
	for {
		n, err := send(l.fd, pieces)
		switch err {
		case 0:
			for len(pieces) > 0 && n >= len(pieces[0]) {
				n -= len(pieces[0])
				pieces = pieces[1:]
			}
			if len(pieces) == 0 {
				return nil
			}
			pieces[0] = pieces[0][n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if l.gone = l.awaitRoom(ctx); l.gone != nil {
				return l.gone
			}
		default:
			l.gone = os.NewSyscallError("write", err)
			return l.gone
		}
	}
}

// awaitRoom blocks this thread until the kernel may take more, or for a while.
func (l *link) awaitRoom(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fds := [1]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLOUT}}
	unix.Poll(fds[:], int(roomWait.Milliseconds())) // an error is met by the next write
	return nil
}

// send writes what the kernel has room for.
func send(fd int, pieces [][]byte) (int, syscall.Errno) {
	const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	if len(pieces) == 1 && len(pieces[0]) < 2*oneWrite { // ends at once: Go's scheduler need not be told
		from, size := unsafe.Pointer(unsafe.SliceData(pieces[0])), uintptr(len(pieces[0]))
		n, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(from), size, flags, 0, 0)
		return int(n), err
	}
	n, err := unix.SendmsgBuffers(fd, pieces, nil, nil, flags)
	if err == nil {
		return n, 0
	}
	return 0, err.(syscall.Errno)
}
