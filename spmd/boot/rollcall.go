package boot

import (
	"fmt"
	"time"

	"perigee/internal/fault"
)

// A rank that gave up waiting does not know for whom it waited: a barrier only
// counts. So before a timeout becomes the job's failure the coordinator calls
// all ranks; one that does not answer is the culprit, be it stopped or cut off.

// rollTime is how long an answer may take. It comes from a goroutine of its own,
// so a rank that only computes, or waits itself, answers at once.
const rollTime = 700 * time.Millisecond

// callRoll looks for the cause of a timeout and declares the failure. It is
// called once; what others report meanwhile counts as the same.
func (c *Coordinator) callRoll(f Failure) {
	c.mu.Lock()
	for _, m := range c.members {
		if m != nil && !m.gone {
			m.silent = true
			m.out.send(memo{Is: isRoll})
		}
	}
	c.mu.Unlock()
	select {
	case <-time.After(rollTime):
	case <-c.failed:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var silent []int
	for r, m := range c.members {
		if m != nil && m.silent && !m.gone {
			silent = append(silent, r)
		}
	}
	if len(silent) > 0 {
		m := c.members[silent[0]]
		cause := fmt.Sprintf("it does not answer: stopped, or cut off; rank %d waited in vain (%s)", f.Rank, f.Cause)
		if len(silent) > 1 {
			cause = fmt.Sprintf("ranks %s do not answer: stopped, or cut off; rank %d waited in vain (%s)", listRanks(silent), f.Rank, f.Cause)
		}
		f = Failure{Rank: m.rank, Host: m.host, Phase: m.phase, Kind: fault.Timeout, Cause: cause, Hint: f.Hint}
	}
	c.failLocked(f)
}
