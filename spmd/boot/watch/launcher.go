package watch

import (
	"time"

	"perigee/internal/fault"
)

// LauncherDeath is how a rank hears that the launcher which has started it has died.
type LauncherDeath struct {
	Died    <-chan struct{}     // closed when it has; nil where it is not watched
	Failure func() *fault.Error // what has happened; called once Died is closed
}

// Heed makes the death of the launcher a failure of the job. release is called when nothing is
// to be heard of it any more. It must be called before the rank works.
func (c *Client) Heed(d LauncherDeath, release func()) {
	c.mu.Lock()
	c.death = d
	c.mu.Unlock()
	go func() {
		defer release()
		select {
		case <-d.Died:
			c.orphaned(d.Failure())
		case <-c.end:
		}
	}()
}

// orphaned reports the death of the launcher. The coordinator believes it without probing:
// the launcher may be killing ranks that it does not take with it, and their deaths are
// only a consequence.
func (c *Client) orphaned(e *fault.Error) {
	c.limitWrites()
	f := Failure{Rank: c.rank, Host: c.hostName(), Kind: e.Kind, Cause: e.Msg, Alone: true}
	c.send(message{Is: isCause, Failure: &f})
	c.awaitVerdict()
	c.fail(f) // unless the coordinator has said more
}

// outputGrace is how long a rank whose output has broken waits for the end of the
// launcher that took it: the kernel closes the pipes of a process before its end
// can be seen.
const outputGrace = 200 * time.Millisecond

// causeOf returns the launcher's death if that is why the output is lost.
func (c *Client) causeOf(f Failure) Failure {
	c.mu.Lock()
	d := c.death
	c.mu.Unlock()
	if d.Died == nil || f.Kind != fault.Output {
		return f
	}
	select {
	case <-d.Died:
		e := d.Failure()
		f.Kind, f.Cause, f.Hint = e.Kind, e.Msg, ""
	case <-time.After(outputGrace):
	}
	return f
}
