package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// peer is another rank, and the one link with it. The kernel acknowledges on a link that carries both directions what
// has come with what is sent; on a link of one direction each message costs a packet for its acknowledgement alone.
//
// A rank dials when it first sends to another, perhaps at several addresses at once, and confirms the connection that
// it keeps. Where two ranks dial each other at the same time the lower one refuses the other's connection in its
// handshake (errCrossed), and the higher one waits for that of the lower.
//
// All fields are guarded by the endpoint's mutex.
type peer struct {
	link      *link         // nil until it is open; it stays when it has ended
	err       error         // why there is none
	stopDial  func()        // nil unless this rank dials
	admitting int           // connections of the other rank that it has not confirmed yet
	changed   chan struct{} // closed, and replaced, when a dial or an admission has ended
	counted   bool
}

func (t *TCP) peerLocked(rank int) *peer {
	p := t.peers[rank]
	if p == nil {
		p = &peer{changed: make(chan struct{})}
		t.peers[rank] = p
	}
	return p
}

func (p *peer) changeLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// linkFrom returns the link with a rank, nil if there is none yet.
func (t *TCP) linkFrom(rank int) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[rank]; p != nil {
		return p.link
	}
	return nil
}

// linkTo returns the link with a rank, and opens it if there is none yet.
func (t *TCP) linkTo(ctx context.Context, to int) (*link, error) {
	if to < 0 || to >= t.cfg.Size {
		return nil, fmt.Errorf("rank %d does not exist in a world of %d", to, t.cfg.Size)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peerLocked(to)
	for p.link == nil && p.err == nil {
		var err error
		if p.stopDial != nil || p.admitting > 0 {
			err = t.awaitLocked(ctx, p)
		} else {
			err = t.openLocked(ctx, p, to)
		}
		if err != nil {
			return nil, err
		}
	}
	if p.link == nil {
		return nil, fmt.Errorf("link to rank %d: %w", to, p.err)
	}
	if !p.counted {
		p.counted = true
		t.sent.links.Add(1)
	}
	return p.link, nil
}

// redialPause is the time after which a rank that waits for a link looks again: the rank that dials it may not get
// through.
const redialPause = time.Second

// awaitLocked waits for a change of a peer, or for redialPause.
func (t *TCP) awaitLocked(ctx context.Context, p *peer) error {
	changed := p.changed
	t.mu.Unlock()
	defer t.mu.Lock()
	pause := time.NewTimer(redialPause)
	defer pause.Stop()
	select {
	case <-changed:
	case <-pause.C:
	case <-t.life.Done():
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// openLocked dials a rank. It returns an error only where time is up: another sender may have more.
func (t *TCP) openLocked(ctx context.Context, p *peer, to int) error {
	dialling, stop := context.WithCancel(ctx)
	defer context.AfterFunc(t.life, stop)()
	p.stopDial = stop
	defer func() {
		stop()
		p.stopDial = nil
		p.changeLocked()
	}()
	t.mu.Unlock()
	conn, err := t.dial(dialling, stop, to)
	t.mu.Lock()
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		l, err := t.adoptLocked(conn, to)
		if p.link, p.err = l, err; err == nil {
			t.serving.Go(func() { t.serve(l, to) })
		}
	case p.link != nil:
	case errors.Is(err, errCrossed):
		return t.awaitLocked(ctx, p)
	case t.life.Err() != nil:
		return net.ErrClosed
	case cause != nil:
		return fmt.Errorf("link to rank %d: none yet (%w): %w", to, err, cause)
	default:
		p.err = err
	}
	return nil
}

// answerWarning is how long a dial may last before the log has a warning.
const answerWarning = 5 * time.Second

// dial connects to a rank at one of its addresses. It calls stop, which ends ctx, where that rank is dialling this one.
func (t *TCP) dial(ctx context.Context, stop func(), to int) (*Conn, error) {
	addresses, err := t.cfg.Resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, errors.New("it published no address")
	}
	log, began := t.cfg.Log.With("peer", to), time.Now()
	defer time.AfterFunc(answerWarning, func() {
		log.Warn("no answer yet", "candidates", addresses, "elapsed", time.Since(began))
	}).Stop()
	conn, err := Race(ctx, addresses, func(ctx context.Context, address string) (*Conn, error) {
		log.Debug("dialling", "address", address)
		conn, err := dial(ctx, address, given(t.cfg.Secret), t.cfg.Rank, to)
		if err != nil {
			log.Debug("no link", "address", address, "reason", err, "elapsed", time.Since(began))
		}
		if errors.Is(err, errCrossed) {
			stop()
		}
		return conn, err
	})
	if err == nil {
		log.Info("linked", "address", conn.RemoteAddr(), "candidates", addresses, "elapsed", time.Since(began))
		conn.confirm() // where this fails the link ends at once
	} else if ctx.Err() == nil {
		log.Warn("no link at any address", "candidates", addresses, "reason", err)
	}
	return conn, err
}

// claim decides on a connection that another rank has dialled. The lower rank refuses it while it dials that one or has
// a link. receive follows each other connection.
func (t *TCP) claim(from int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peerLocked(from)
	if from >= t.cfg.Size || t.cfg.Rank < from && (p.stopDial != nil || t.links[p.link]) {
		return false
	}
	p.admitting++
	return true
}

// receive serves a connection that another rank has dialled, until it ends.
func (t *TCP) receive(c net.Conn, from int) {
	conn := c.(*Conn)
	defer conn.Close()
	defer context.AfterFunc(t.life, func() { conn.Close() })()
	err := conn.awaitConfirmation()
	confirmed := err == nil
	var l *link
	t.mu.Lock()
	p := t.peerLocked(from)
	if confirmed {
		l, err = t.adoptLocked(conn, from)
	}
	if p.link == nil && l != nil {
		p.link = l
		if p.stopDial != nil {
			p.stopDial() // it may be waiting for an address that does not answer
		}
	}
	p.admitting--
	p.changeLocked()
	t.mu.Unlock()
	if errors.Is(err, ErrForged) || confirmed && err != nil {
		t.lose(from, err)
	}
	if err != nil { // else the rank has chosen another connection, or has died, which the coordinator notices
		t.cfg.Log.Debug("not confirmed", "peer", from, "address", conn.RemoteAddr(), "reason", err)
		return
	}
	t.cfg.Log.Info("linked", "peer", from, "address", conn.RemoteAddr())
	t.serve(l, from)
}
