package wire

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a net.Listener that accepts what a test says.
type scripted struct {
	net.Listener
	next chan func() (net.Conn, error)
}

func (s scripted) Accept() (net.Conn, error) {
	f, ok := <-s.next
	if !ok {
		return nil, net.ErrClosed
	}
	return f()
}

// A listener without descriptors says why and since when, and closes connections in their handshake only after the
// time of an honest one.
func TestStuckListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("too many open files")
		fail := func() (net.Conn, error) { return nil, full }
		var lasted []time.Duration
		in := scripted{next: make(chan func() (net.Conn, error))}
		l := &Listener{listener: in, bound: maxPending}
		l.cfg.Stuck = func(err error, d time.Duration) {
			if err != full {
				t.Errorf("stuck for %v", err)
			}
			lasted = append(lasted, d)
		}
		l.cfg.Log = slog.New(slog.DiscardHandler)
		waiting, other := net.Pipe()
		defer other.Close()
		l.wait(waiting)
		l.done.Go(l.accept)
		for i := range stuckTries {
			if l.Stuck() != nil != (i > 0) || len(l.pending) != 1 {
				t.Errorf("after %d attempts: %v, %d in their handshake", i, l.Stuck(), len(l.pending))
			}
			in.next <- fail
			synctest.Wait()
		}
		if len(l.pending) != 0 || len(lasted) != stuckTries || lasted[stuckTries-1] != stuckTries*stuckPause {
			t.Errorf("%d in their handshake; %v", len(l.pending), lasted)
		}
		a, b := net.Pipe()
		b.Close()
		in.next <- func() (net.Conn, error) { return a, nil }
		in.next <- fail
		synctest.Wait()
		if n := len(lasted); lasted[n-1] != stuckPause {
			t.Errorf("after a success: %v", lasted[n-1])
		}
		close(in.next)
		l.done.Wait()
	})
}
