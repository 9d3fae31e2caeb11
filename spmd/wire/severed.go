package wire

import (
	"errors"
	"fmt"
	"time"
)

// An acceptor takes the end of a link that was not used for that of one which lost its Race. If something in the
// network has closed the link before the first bytes came through, the dialer's messages are lost, and the dialer
// alone knows it: the acceptor waits for them. Where the dialer waits for nothing from that rank, neither would
// ever fail. But the acceptor, which has no link to send on, dials the other rank when it sends something, if only
// to ask what it waits for. So a rank whose link has ended, and to which the other rank sends on a second one,
// knows that its messages are lost.

// ErrSevered is the error of a link to a rank that has ended, while that rank goes on and sends on another.
var ErrSevered = errors.New("ended while the rank goes on, so that messages to it are lost")

// severedWait is how long a rank must go on. One that ends, whether it dies or leaves, closes all its links at once,
// but what says so may be lost on the way, and is sent again after 0.2 s, 0.6 s and 1.4 s.
const severedWait = 4 * time.Second

// livesLocked reports whether a link has not ended.
func (t *TCP) livesLocked(l *link) bool {
	_, lives := t.links[l]
	return lives
}

// watchSeveredLocked is called when a link with a rank has ended, and when the rank has begun to use one: either may be
// the later. It reports ErrSevered once.
func (t *TCP) watchSeveredLocked(with int) {
	p := t.peerLocked(with)
	if t.linkLost == nil || t.closed || p.severed || p.out == nil || t.livesLocked(p.out) ||
		p.in == nil || !t.livesLocked(p.in) {
		return
	}
	p.severed = true
	out, in := p.out, p.in
	t.serving.Go(func() {
		patience := time.NewTimer(severedWait)
		defer patience.Stop()
		select {
		case <-patience.C:
			_, why := out.wait() // it has ended
			t.linkLost(with, fmt.Errorf("%w: %w", ErrSevered, why))
		case <-in.ended: // the other rank is gone, or knows that a link that it uses has ended
		case <-t.life.Done():
		}
	})
}
