package shm

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

// self fills in the parts of a card that tell who this process is.
func self() (card, error) {
	var c card
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return c, err
	}
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(id) != len(c.bootID) {
		return c, fmt.Errorf("boot_id %q: want 32 hexadecimal digits", text)
	}
	copy(c.bootID[:], id)
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return c, fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	c.pidns = st.Ino
	c.pid = uint64(os.Getpid())
	c.start, err = startTime(c.pid)
	return c, err
}

// startTime reads when a process started, in clock ticks after boot: field 22 of
// /proc/PID/stat. A zombie counts as gone.
func startTime(pid uint64) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The name in field 2 may hold spaces and brackets; the last bracket ends it.
	_, rest, _ := cutLast(string(text), ")")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0, fmt.Errorf("%s: %d fields after the name: want 20", path, len(fields))
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// process is the owner of a peer's buffers. Its death does not end a copy into
// memory that outlives it, so somebody has to look.
type process struct {
	gone  atomic.Bool
	pidfd *os.File // nil for the own process, and where the kernel has no such thing
	wait  sync.WaitGroup
}

// watch finds the process that a card names and keeps an eye on it.
func watch(own, c card) (*process, error) {
	if c.bootID != own.bootID {
		return nil, fault.New(fault.Engine, "it runs on another host").
			WithHint("the shm engine serves ranks of one host only; use --engine nixl")
	}
	if c.pidns != own.pidns {
		return nil, fault.New(fault.Engine, "it runs in another pid namespace (a container of its own)").
			WithHint("start the ranks of a host in one container, or use --engine nixl")
	}
	p := &process{}
	if c.pid == own.pid {
		if c.start != own.start {
			return nil, lost(c.pid)
		}
		return p, nil
	}
	// Open first and compare the start time then: what pidfd stands for cannot change any more.
	fd, err := unix.PidfdOpen(int(c.pid), unix.PIDFD_NONBLOCK)
	switch {
	case err == nil:
		p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	case errors.Is(err, unix.ESRCH):
		return nil, lost(c.pid)
	}
	start, err := startTime(c.pid)
	if err != nil || start != c.start {
		p.stop()
		return nil, lost(c.pid)
	}
	if p.pidfd != nil {
		p.wait.Go(p.sleepUntilExit)
	}
	return p, nil
}

func lost(pid uint64) error {
	return fault.New(fault.RankLost, "its process (pid %d) is gone", pid)
}

// sleepUntilExit costs nothing while it waits: the runtime's poller holds the pidfd.
func (p *process) sleepUntilExit() {
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return
	}
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		return n > 0
	})
	if err == nil {
		p.gone.Store(true)
	}
}

func (p *process) stop() {
	if p.pidfd != nil {
		p.pidfd.Close()
	}
	p.wait.Wait()
}
