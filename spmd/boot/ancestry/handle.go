package ancestry

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// handle stands for a process, and never for a later one of the same number.
type handle interface {
	// wait returns true when the process has ended, false when ctx has.
	wait(ctx context.Context) bool
	ended() bool
	close()
}

// pidfdOpen is a variable for the test of kernels that have no pidfds.
var pidfdOpen = unix.PidfdOpen

// hold makes a handle of a process. The error is unix.ESRCH if there is none.
func hold(proc string, pid int) (handle, error) {
	fd, err := pidfdOpen(pid, 0)
	if err == nil {
		// Go's poller takes only what does not block; a pidfd is never read.
		if err = unix.SetNonblock(fd, true); err != nil {
			unix.Close(fd)
			return nil, err
		}
		return pidfd{os.NewFile(uintptr(fd), "pidfd of "+strconv.Itoa(pid))}, nil
	}
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // seccomp filters say EPERM
		return nil, err
	}
	s, err := statOf(proc, pid)
	if err != nil {
		return nil, err
	}
	return looked{proc, pid, s.Start}, nil
}

// pidfd becomes readable when its process ends, reaped or not.
type pidfd struct{ file *os.File }

func (p pidfd) wait(ctx context.Context) bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })()
	return conn.Read(readable) == nil && ctx.Err() == nil
}

func (p pidfd) ended() (yes bool) {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) { yes = readable(fd) })
	return yes && err == nil
}

func readable(fd uintptr) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(set, 0)
	return err == nil && n > 0
}

func (p pidfd) close() { p.file.Close() }

// looked is a process that is looked at from time to time.
type looked struct {
	proc  string
	pid   int
	start uint64 // when it was started, in the kernel's ticks
}

// lookEvery is how long the end of a process may go unnoticed that has no pidfd.
const lookEvery = time.Second

func (l looked) wait(ctx context.Context) bool { return look(ctx, l.ended) }

// look waits by looking, and returns false if ctx has ended before.
func look(ctx context.Context, ended func() bool) bool {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !ended() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (l looked) ended() bool {
	s, err := statOf(l.proc, l.pid)
	return errors.Is(err, os.ErrNotExist) || err == nil && (s.Start != l.start || s.Ended())
}

func (looked) close() {}

// hidden is a process that /proc does not show, since it is another user's (hidepid=2). It is the parent of a process
// that is shown.
type hidden struct {
	pid   int
	child looked
}

// holdHidden makes a handle of the parent of a process where /proc does not show it. The error is unix.ESRCH if there
// is none.
func holdHidden(proc string, pid, child int) (handle, error) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return nil, err
	}
	s, err := statOf(proc, child)
	return hidden{pid, looked{proc, child, s.Start}}, err
}

func (h hidden) wait(ctx context.Context) bool { return look(ctx, h.ended) }

// ended looks at the child first, which gets another parent when this one ends: the number may go to a later process.
func (h hidden) ended() bool {
	if s, err := statOf(h.child.proc, h.child.pid); err == nil && s.Start == h.child.start {
		return s.Parent != h.pid
	}
	return errors.Is(unix.Kill(h.pid, 0), unix.ESRCH)
}

func (hidden) close() {}
