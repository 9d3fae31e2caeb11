package wire

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// link is a connection with a rank, in both directions. It is taken over from Go's poller, which would be woken
// by everything that comes.
type link struct {
	pump    *pump
	ended   chan struct{} // closed at the end
	waiting atomic.Int32  // who waits for a message of this link, looking for it or not

	mu        sync.Mutex // held by who reads; taken before writing and the pump's
	fd        int
	armed     bool
	lent      *time.Timer // ends the time for which receivers may leave it disarmed
	err       error       // why it has ended; constant after that
	buffer    []byte
	messages  *assembler
	repeating time.Time // since when the kernel repeats what it has sent, for checkAnswers

	writing sync.Mutex // held by who writes
	gone    error      // why nothing can be written any more
	seal    *sealer
	frame   []byte
}

// adopt takes a connection over, and closes it.
func (p *pump) adopt(conn *Conn, deliver func(h Header, data []byte)) (*link, error) {
	defer conn.Close()
	fd, err := takeOver(tcp(conn))
	if err != nil {
		return nil, fmt.Errorf("keep a link: %w", err)
	}
	l := &link{
		pump: p, ended: make(chan struct{}), fd: fd, messages: newAssembler(conn.in.seal, deliver), seal: conn.out,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = time.AfterFunc(time.Hour, l.takeBack)
	l.lent.Stop()
	p.mu.Lock()
	p.links[int32(fd)] = l
	p.mu.Unlock()
	l.control(unix.EPOLL_CTL_ADD, unix.EPOLLIN)
	return l, l.err
}

// takeOver returns a descriptor of a connection that outlives the first. A read that waits does so for blockFor at
// most.
func takeOver(conn *net.TCPConn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	if failed := raw.Control(func(socket uintptr) {
		fd, err = unix.FcntlInt(socket, unix.F_DUPFD_CLOEXEC, 0)
	}); failed != nil || err != nil {
		return -1, cmp.Or(failed, os.NewSyscallError("fcntl", err))
	}
	limit := unix.NsecToTimeval(int64(blockFor))
	err = cmp.Or(
		unix.SetNonblock(fd, false),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		// A rank may be stopped with full buffers: with a user timeout Linux would end its links although its host
		// answers (see silence.go).
		setUserTimeout(uintptr(fd), 0),
	)
	if err != nil {
		unix.Close(fd)
	}
	return fd, os.NewSyscallError("setsockopt", err)
}

// Close ends the link.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(net.ErrClosed)
	return nil
}

// lookFor reads the link until it has delivered what done is true for, but not for
// long. It does nothing if another receiver reads.
func (l *link) lookFor(done func() bool) {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.err != nil || done() {
		return
	}
	l.disarm()
	if l.look(done) && l.waiting.Load() == 1 {
		l.lent.Reset(lendFor) // the receiver is likely to come back before that
		return
	}
	l.arm()
}

func (l *link) look(done func() bool) bool {
	start := time.Now()
	for i := 1; i%lookBatch > 0 || time.Since(start) < lookFor; i++ {
		if l.read(unix.MSG_DONTWAIT) > 0 && done() {
			return true
		}
		// with fewer cores than ranks the peer may be waiting for this one
		unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	// This thread waits in the kernel. The wake-up goes to the very thread that needs it, where that of a goroutine
	// takes two or three threads.
	return l.read(0) > 0 && done()
}

// takeBack arms a link that no receiver has read for lendFor.
func (l *link) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arm()
}

// drain reads what is there, when the pump has been told that something is.
func (l *link) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false // the kernel reports events once
	for range pumpReads {
		if l.read(unix.MSG_DONTWAIT) < readBuffer {
			break
		}
	}
	l.arm()
}

// read delivers what one read returns, and returns how much that was: 0 if nothing is
// there, or the link has ended. Without MSG_DONTWAIT it waits for bytes, but not for longer than blockFor.
func (l *link) read(flags int) int {
	if l.err != nil {
		return 0
	}
	if l.buffer == nil {
		l.buffer = make([]byte, readBuffer)
	}
	n, err := receive(l.fd, l.buffer, flags)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0
	case err != 0:
		l.end(l.messages.ended(os.NewSyscallError("read", err)))
		return 0
	case n == 0:
		l.end(l.messages.ended(errHungUp))
		return 0
	}
	if err := l.messages.feed(l.buffer[:n]); err != nil {
		l.end(err)
	}
	return n
}

// receive is recv(2). Package unix only has one that allocates an address.
func receive(fd int, buffer []byte, flags int) (int, syscall.Errno) {
	to, size := unsafe.Pointer(unsafe.SliceData(buffer)), uintptr(len(buffer))
	if flags&unix.MSG_DONTWAIT != 0 { // it ends at once: Go's scheduler need not be told
		n, _, err := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(to), size, uintptr(flags), 0, 0)
		return int(n), err
	}
	n, _, err := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(to), size, uintptr(flags), 0, 0)
	return int(n), err
}

// arm lets the pump hear of what comes, or has come already.
func (l *link) arm() {
	if !l.armed {
		l.control(unix.EPOLL_CTL_MOD, unix.EPOLLIN)
	}
}

func (l *link) disarm() {
	if l.armed {
		l.control(unix.EPOLL_CTL_MOD, 0)
	}
}

// control sets which events, besides errors, the kernel reports to the pump once.
func (l *link) control(op int, events uint32) {
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
func (l *link) end(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	l.lent.Stop()
	l.pump.forget(l)
	unix.Shutdown(l.fd, unix.SHUT_RDWR) // ends the wait of a writer for room
	l.writing.Lock()
	l.gone = err
	unix.Close(l.fd)
	l.writing.Unlock()
	close(l.ended)
}
