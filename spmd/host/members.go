package host

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/procfs"
)

// maxMembers is how many processes a segment knows by number. More than that may
// use it.
const maxMembers = 1 << 13

// roll lies behind the slots: the processes that have mapped the segment.
type roll struct {
	count atomic.Uint32
	pids  [maxMembers]atomic.Uint32
}

func (s *Segment) roll() *roll {
	return (*roll)(unsafe.Pointer(&s.mem[slotSize*(1+slotCount)]))
}

// Register adds this process to the members, so that ContinueStopped of another finds it.
func (s *Segment) Register() {
	if !s.enter() {
		return
	}
	defer s.leave()
	if i := s.roll().count.Add(1) - 1; i < maxMembers {
		s.roll().pids[i].Store(uint32(os.Getpid()))
	}
}

// ElectLeader returns true to the first caller among all processes, false to all others:
// the leader reports to the user what all of them know.
func (s *Segment) ElectLeader() bool {
	if !s.enter() {
		return true
	}
	defer s.leave()
	return s.head().led.CompareAndSwap(0, 1)
}

// ContinueStopped continues members that were stopped (SIGSTOP), so that they notice the
// end of the job. What a debugger has stopped stays so.
func (s *Segment) ContinueStopped() {
	if !s.enter() {
		return
	}
	defer s.leave()
	for i := range min(s.roll().count.Load(), maxMembers) {
		pid := int(s.roll().pids[i].Load())
		if pid > 0 && isStopped(pid) {
			unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// isStopped reports whether a process of this program is stopped: the number of one that has ended may have gone to
// another.
func isStopped(pid int) bool {
	s, err := procfs.ReadStat(procfs.Dir(pid))
	if err != nil || s.State != 'T' {
		return false
	}
	same, _ := procfs.Runs(procfs.Dir(pid), procfs.OwnProgram)
	return same
}
