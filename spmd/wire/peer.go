package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// peer is what an endpoint knows of another rank. Each direction stays on one link for ever, so that messages
// keep their order, and as a rule both use the same: the kernel then acknowledges what has come with what is
// sent, where each message on a link of one direction costs a packet for its acknowledgement alone.
//
// A link that this rank has dialled is its to use. One that it has admitted it may use once the first bytes
// have come: until then the dialer may close it, since it has others of its Race. Where two ranks dial each other at
// the same time the lower one refuses the other's link in its handshake (errCrossed), unless its own has ended by then.
type peer struct {
	opening chan struct{} // capacity 1; holds a token while a sender opens the link

	// guarded by the endpoint's mutex
	out        *link         // that this rank sends on
	in         *link         // that the other one has used last
	err        error         // why there is no link to send on
	dialing    bool          // by this rank
	candidates int           // admitted links that are not in use yet
	changed    chan struct{} // closed when there is one candidate less
	counted    bool
	severed    bool // watchSeveredLocked has begun to watch
}

// candidateWait is how long a rank waits for the first bytes of a link that the other one has dialled, before it
// dials itself.
const candidateWait = time.Second

func (t *TCP) peerLocked(rank int) *peer {
	p := t.peers[rank]
	if p == nil {
		p = &peer{opening: make(chan struct{}, 1), changed: make(chan struct{})}
		t.peers[rank] = p
	}
	return p
}

// peer returns a rank and the link on which to send to it, if there is one.
func (t *TCP) peer(to int) (*peer, *link, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, net.ErrClosed
	}
	if to < 0 || to >= t.size {
		return nil, nil, fmt.Errorf("rank %d does not exist in a world of %d", to, t.size)
	}
	p := t.peerLocked(to)
	t.countLocked(p)
	return p, p.out, nil
}

// countLocked counts a link with the first message that this rank sends on it.
func (t *TCP) countLocked(p *peer) {
	if p.out != nil && !p.counted {
		p.counted = true
		t.sent.links.Add(1)
	}
}

// linkFrom returns the link on which a rank sends, nil if there is none yet.
func (t *TCP) linkFrom(rank int) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[rank]; p != nil {
		return p.in
	}
	return nil
}

// claim decides on a link that another rank has dialled.
func (t *TCP) claim(from int) bool {
	if from < 0 || from >= t.size {
		return true // receive closes it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peerLocked(from)
	// The other rank dials though this one's link has ended: nothing of that one has reached it (see severed.go).
	if t.rank < from && (p.dialing || p.out != nil && p.out.dialed && t.livesLocked(p.out)) {
		return false
	}
	p.candidates++
	return true
}

// unclaim is told of the end of a link that was not used.
func (t *TCP) unclaim(from int) {
	if from < 0 || from >= t.size {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peerLocked(from).changeLocked()
}

func (p *peer) changeLocked() {
	p.candidates--
	close(p.changed)
	p.changed = make(chan struct{})
}

// welcome is told of a link's first bytes.
func (t *TCP) welcome(l *link, from int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peerLocked(from)
	p.in = l
	if l.dialed {
		return
	}
	if p.out == nil {
		p.out = l
	}
	p.changeLocked()
	t.watchSeveredLocked(from)
}

// open returns the link on which to send to a rank that had none.
func (t *TCP) open(ctx context.Context, p *peer, to int) (*link, error) {
	select {
	case p.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx) // the sender that opens the link may have more time
	}
	defer func() { <-p.opening }()
	l, err := t.find(ctx, p, to)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		p.err = err
	}
	t.countLocked(p)
	return l, err
}

// overdue is the end of a context, and why there was no link until then.
type overdue struct{ cause, reason error }

func (o overdue) Error() string { return fmt.Sprintf("none yet (%v): %v", o.reason, o.cause) }

func (o overdue) Unwrap() error { return o.cause }

// late makes err, by which a search for a link has ended, overdue where time was up and handshakes came to no answer.
func late(ctx context.Context, err, last error) error {
	if cause := context.Cause(ctx); err != nil && last != nil && cause != nil {
		return overdue{cause, last}
	}
	return err
}

func (t *TCP) find(ctx context.Context, p *peer, to int) (*link, error) {
	tries := redials{rank: to, limit: t.maxRebuffs, log: t.log, pause: firstRedialPause}
	for patient := true; ; {
		l, changed, err := t.attempt(p, patient)
		if l == nil && changed == nil && err == nil {
			var conn *Conn
			conn, err = t.dial(ctx, to)
			l, changed, err = t.dialed(p, conn, err, to)
		}
		wait, again := candidateWait, false
		if _, again = errors.AsType[unanswered](err); again { // the coordinator knows whether the other is gone
			wait, err = tries.next(err, time.Now())
		}
		if l != nil || err != nil {
			return l, late(ctx, err, tries.last)
		}
		patience := time.NewTimer(wait)
		select {
		case <-changed:
		case <-patience.C:
			patient = patient && again
		case <-ctx.Done():
			err = late(ctx, context.Cause(ctx), tries.last)
		case <-t.life.Done():
			err = net.ErrClosed
		}
		patience.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// attempt returns the link, or what to wait for, or nothing where this rank is to dial.
func (t *TCP) attempt(p *peer, patient bool) (l *link, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.out != nil || p.err != nil:
		return p.out, nil, p.err
	case patient && p.candidates > 0:
		return nil, p.changed, nil
	}
	p.dialing = true
	return nil, nil, nil
}

// dialed takes the outcome of a dial: the link, or, where the other rank's is to come, what to wait for.
func (t *TCP) dialed(p *peer, conn *Conn, err error, to int) (*link, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.dialing = false
	if p.out != nil { // the other rank was faster
		if err == nil {
			conn.Close()
		}
		return p.out, nil, nil
	}
	if errors.Is(err, errCrossed) {
		return nil, p.changed, nil
	}
	if err == nil {
		p.out, err = t.adoptLocked(conn, to)
	}
	return p.out, nil, err
}
