package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/procfs"
)

// ProcessID names a process among all processes of all hosts, for as long as its host runs.
type ProcessID struct {
	Boot      [16]byte // boot id of the kernel
	Namespace uint64   // of pids, in which PID counts, and of time, in which Start does
	PID       uint64
	Start     uint64 // clock ticks after boot at which the process started
}

// ProcessSize is the length of an encoded ProcessID.
const ProcessSize = 16 + 3*8

// Append adds the encoding of a ProcessID to b: Boot, then the numbers in little-endian order.
func (id ProcessID) Append(b []byte) []byte {
	b = append(b, id.Boot[:]...)
	b = binary.LittleEndian.AppendUint64(b, id.Namespace)
	b = binary.LittleEndian.AppendUint64(b, id.PID)
	return binary.LittleEndian.AppendUint64(b, id.Start)
}

// DecodeProcess reads what Append has written. b has ProcessSize bytes. A process id that no process can have is an
// error.
func DecodeProcess(b []byte) (ProcessID, error) {
	var id ProcessID
	copy(id.Boot[:], b)
	id.Namespace = binary.LittleEndian.Uint64(b[16:])
	id.PID = binary.LittleEndian.Uint64(b[24:])
	id.Start = binary.LittleEndian.Uint64(b[32:])
	if id.PID == 0 || id.PID > 1<<31-1 {
		return id, fmt.Errorf("process id %d", id.PID)
	}
	return id, nil
}

// SameHost reports whether both processes run under one kernel.
func (id ProcessID) SameHost(other ProcessID) bool { return id.Boot == other.Boot }

// SameSpace reports whether a process of the one ProcessID can name that of the other by its PID and start time.
func (id ProcessID) SameSpace(other ProcessID) bool {
	return id.Boot == other.Boot && id.Namespace == other.Namespace
}

// Self returns the ProcessID of this process.
func Self() (ProcessID, error) {
	var id ProcessID
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, err
	}
	boot, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(boot) != len(id.Boot) {
		return id, fmt.Errorf("boot_id %q: want 32 hexadecimal digits", text)
	}
	copy(id.Boot[:], boot)
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return id, fmt.Errorf("/proc/self/ns/pid: %w", err)
	}
	id.Namespace = st.Ino
	// The start times that the kernel shows depend on the reader's time namespace. Numbers of namespaces have 32 bits.
	if err := unix.Stat("/proc/self/ns/time", &st); err == nil {
		id.Namespace |= st.Ino << 32
	}
	id.PID = uint64(os.Getpid())
	id.Start, err = startTime(id.PID)
	return id, err
}

// startTime reads when a process started. A zombie counts as gone.
func startTime(pid uint64) (uint64, error) {
	s, err := procfs.ReadStat(procfs.Dir(int(pid)))
	if err == nil && s.Ended() {
		err = os.ErrNotExist
	}
	return s.Start, err
}

// Watched is a process whose exit is watched for.
type Watched struct {
	gone  atomic.Bool
	pidfd *os.File // nil for the own process, and where the kernel has no such thing
	wait  sync.WaitGroup
}

// Watch finds the process with this ProcessID, which shares the space of own, and waits for its end in
// the background. A process that is gone already is an error of kind RankLost, and one that cannot be
// looked at, for lack of descriptors for one, an error of kind Resource.
func Watch(own, id ProcessID) (*Watched, error) {
	w := &Watched{}
	if id.PID == own.PID {
		if id != own {
			return nil, ProcessLost(id)
		}
		return w, nil
	}
	// Open first and compare the start time then: what pidfd stands for cannot change any more.
	fd, err := unix.PidfdOpen(int(id.PID), unix.PIDFD_NONBLOCK)
	switch {
	case err == nil:
		w.pidfd = os.NewFile(uintptr(fd), "pidfd")
	case errors.Is(err, unix.ESRCH):
		return nil, ProcessLost(id)
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		return nil, unseen(id, err)
	}
	start, err := startTime(id.PID)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH):
		w.Stop()
		return nil, unseen(id, err)
	case err != nil || start != id.Start:
		w.Stop()
		return nil, ProcessLost(id)
	}
	if w.pidfd != nil {
		w.wait.Go(w.sleepUntilExit)
	}
	return w, nil
}

// ProcessLost is the error of a process that is gone.
func ProcessLost(id ProcessID) error {
	return fault.New(fault.RankLost, "its process (pid %d) is gone", id.PID)
}

// unseen is the error of a process of which nothing is known.
func unseen(id ProcessID, err error) error {
	return fault.New(fault.Resource, "look whether its process (pid %d) lives: %w", id.PID, err).
		WithHint("where files are too many, allow more: ulimit -n")
}

// sleepUntilExit costs nothing while it waits: the runtime's poller holds the pidfd.
func (w *Watched) sleepUntilExit() {
	conn, err := w.pidfd.SyscallConn()
	if err != nil {
		return
	}
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 0)
		return n > 0
	})
	if err == nil {
		w.gone.Store(true)
	}
}

// Gone reports whether the process has ended. A nil Watched is never gone.
func (w *Watched) Gone() bool { return w != nil && w.gone.Load() }

// Stop ends the waiting. A second call does nothing.
func (w *Watched) Stop() {
	if w.pidfd != nil {
		w.pidfd.Close()
	}
	w.wait.Wait()
}
