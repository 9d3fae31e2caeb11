package nixl

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/clock"
)

// ErrDeadline ends a Poll that passed its deadline.
var ErrDeadline = errors.New("deadline passed")

// How Poll waits: it keeps the processor for as long as the smallest messages take, and offers it to other processes
// between calls after that. An offer that none takes is cheap; to keep the processor from the rank that is waited for,
// where there are more ranks than processors, is not.
const spinFor = 2 * time.Microsecond

// Poll calls done until it returns true or an error. It is for what needs an agent to make progress, such as
// Agent.Connected, Agent.Receive and Batch.Done. It ends early with ErrAborted or ErrDeadline.
func Poll(ctl Control, done func() (bool, error)) error {
	start := clock.Now()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if ctl.Abort != nil && atomic.LoadUint32(ctl.Abort) != 0 {
			return ErrAborted
		}
		now := clock.Now()
		if ctl.Deadline != 0 && now >= ctl.Deadline {
			return ErrDeadline
		}
		if now-start > int64(spinFor) {
			// The operating system's yield: ranks are processes.
			unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
}
