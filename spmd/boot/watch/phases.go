package watch

import (
	"encoding/json"
	"sync"
)

// A coordinator that is stopped reads nothing. The connection would fill with the phases of a rank that enters many,
// and the rank would be stuck where no timeout of a collective ends the wait, or lose the connection as if the network
// had failed. So a rank lets the coordinator confirm now and then that it has read them. While that is behind by
// maxUnread only the rank's latest phase waits, and the others are left out.

// maxUnread is what is sent of phases, in bytes, before the coordinator confirms that it has read some: less than the
// kernels keep of a connection that is not read. Those of most jobs take less than half of it, and are never confirmed.
const maxUnread = 16 << 10

// lineBytes counts what a line takes on the way besides the name of the phase, with its frame.
const lineBytes = 100

// phases are those that a rank has sent, and one that waits.
type phases struct {
	mu     sync.Mutex // held while one is sent, so that the last one counts
	unread int        // bytes that may be unread
	asked  int        // of them, up to the phase that is to be confirmed; 0 if none is
	latest *string    // waits to be sent; nil if none does
}

// enter sends a phase, or keeps it until another is confirmed.
func (p *phases) enter(c *Client, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enterLocked(c, name)
}

func (p *phases) enterLocked(c *Client, name string) {
	if p.latest = nil; p.asked > 0 && p.unread >= maxUnread {
		p.latest = &name
		return
	}
	escaped, _ := json.Marshal(name)
	p.unread += lineBytes + len(escaped)
	m := message{Is: isPhase, Phase: name}
	if p.asked == 0 && p.unread >= maxUnread/2 {
		p.asked, m.Answer = p.unread, true
	}
	c.conn.write(m)
}

// noted takes the coordinator's confirmation.
func (p *phases) noted(c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread, p.asked = p.unread-p.asked, 0
	if p.latest != nil {
		p.enterLocked(c, *p.latest)
	}
}
