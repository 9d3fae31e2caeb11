package nixl

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/clock"
)

// ErrDeadline ends a Poll that passed its deadline.
var ErrDeadline = errors.New("deadline passed")

// Poll calls done until it returns true or an error. It is for what needs an agent to make progress, such as
// Agent.Connected, Agent.Receive and Batch.Done. It ends early with ErrAborted or ErrDeadline.
//
// Between calls it offers the processor to other processes. An offer that none takes is cheap; to keep the processor
// from the rank that is waited for, where there are more ranks than processors, is not.
func Poll(ctl Control, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if ctl.Abort != nil && atomic.LoadUint32(ctl.Abort) != 0 {
			return ErrAborted
		}
		if ctl.Deadline != 0 && clock.Now() >= ctl.Deadline {
			return ErrDeadline
		}
		// The operating system's yield: ranks are processes.
		unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}
