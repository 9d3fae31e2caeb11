package host

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
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
		if pid > 0 && isStopped(pid) && sameProgram(pid) {
			unix.Kill(pid, unix.SIGCONT)
		}
	}
}

func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name, in parentheses, may hold anything.
	return err == nil && bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T "))
}

// sameProgram guards against a number that has gone to another process.
func sameProgram(pid int) bool {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	its, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && os.SameFile(own, its)
}
