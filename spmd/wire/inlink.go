package wire

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// inLink is a link from a rank.
type inLink struct {
	pump    *pump
	ended   chan struct{} // closed at the end
	waiting atomic.Int32  // who waits for a message of this link, looking for it or not
	used    bool          // guarded by the pump's mutex: a receiver has read it lately

	mu       sync.Mutex // held by who reads; taken before the pump's
	fd       int
	armed    bool
	err      error // why it has ended
	buffer   []byte
	messages *assembler
	begun    func() // called with the first bytes; nil after that
}

// adopt takes a connection over from Go's poller, which would be woken by everything
// that comes. begun is called once, before the first message is delivered.
func (p *pump) adopt(conn *Conn, begun func(*inLink), deliver func(h Header, data []byte)) (*inLink, error) {
	defer conn.Close()
	raw, err := tcp(conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &inLink{pump: p, ended: make(chan struct{}), buffer: make([]byte, readBuffer),
		messages: newAssembler(conn.in.seal, deliver)}
	l.begun = func() { begun(l) }
	if failed := raw.Control(func(fd uintptr) {
		l.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC,
			0)
	}); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, fmt.Errorf("keep a link: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p.mu.Lock()
	p.links[int32(l.fd)] = l
	p.mu.Unlock()
	l.control(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
	return l, l.err
}

// wait returns why the link has ended, when it has, and whether anything came through it.
func (l *inLink) wait() (used bool, err error) {
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun == nil, l.err
}

// Close ends the link.
func (l *inLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(net.ErrClosed)
	return nil
}

// lookFor reads the link until it has delivered what done is true for, but not for
// long. It does nothing if another receiver reads.
func (l *inLink) lookFor(done func() bool) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.err != nil || done() {
		return
	}
	l.disarm()
	start := time.Now()
	for i := 1; l.err == nil; i++ {
		if n := l.read(); n > 0 && done() {
			l.leave()
			return
		}
		if i%lookBatch == 0 && time.Since(start) > lookFor {
			break
		}
		// with fewer cores than ranks the peer may be waiting for this one
		unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	for l.err == nil && time.Since(start) < blockFor {
		l.block(blockFor - time.Since(start))
		if n := l.read(); n > 0 && done() {
			l.leave()
			return
		}
	}
	l.arm()
}

// block keeps this thread in the kernel until bytes have come, but not for longer than limit. The wake-up goes
// to the very thread that needs it, where that of a goroutine takes two or three threads.
func (l *inLink) block(limit time.Duration) {
	fds := [1]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(limit))
	unix.Ppoll(fds[:], &timeout, nil) // an error is met by the next read
}

// leave lets the link be disarmed for a while, unless others wait for it.
func (l *inLink) leave() {
	if l.waiting.Load() > 1 {
		l.arm()
		return
	}
	l.pump.lend(l)
}

// drain reads what is there, when the pump has been told that something is.
func (l *inLink) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false // the kernel reports events once
	for range pumpReads {
		if l.read() < len(l.buffer) {
			break
		}
	}
	l.arm()
}

// read delivers what one read returns, and returns how much that was: 0 if nothing is
// there, or the link has ended.
func (l *inLink) read() int {
	if l.err != nil {
		return 0
	}
	n, err := unix.Read(l.fd, l.buffer)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0
	case err != nil:
		l.end(l.messages.ended(os.NewSyscallError("read", err)))
		return 0
	case n == 0:
		l.end(l.messages.ended(io.EOF))
		return 0
	}
	if l.begun != nil {
		l.begun()
		l.begun = nil
	}
	if err := l.messages.feed(l.buffer[:n]); err != nil {
		l.end(err)
	}
	return n
}

// arm lets the pump hear of what comes, or has come already.
func (l *inLink) arm() {
	if !l.armed {
		l.control(unix.EPOLL_CTL_MOD, unix.EPOLLIN)
	}
}

func (l *inLink) disarm() {
	if l.armed {
		l.control(unix.EPOLL_CTL_MOD, 0)
	}
}

// control sets which events, besides errors, the kernel reports to the pump once.
func (l *inLink) control(op int, events uint32) {
	if l.err != nil {
		return
	}
	e := unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: int32(l.fd)}
	if err := unix.EpollCtl(l.pump.ep, op, l.fd, &e); err != nil {
		l.end(os.NewSyscallError("epoll_ctl", err))
		return
	}
	l.armed = events != 0
}

// end is the end of the link.
func (l *inLink) end(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	l.pump.forget(l)
	unix.Close(l.fd)
	close(l.ended)
}
