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

// A listener without descriptors says why and since when.
func TestStuckListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("too many open files")
		fail := func() (net.Conn, error) { return nil, full }
		var lasted []time.Duration
		in := scripted{next: make(chan func() (net.Conn, error))}
		l := startListener(in, ListenerConfig{
			Stuck: func(err error, d time.Duration) {
				if err != full {
					t.Errorf("stuck for %v", err)
				}
				lasted = append(lasted, d)
			},
			Log: slog.New(slog.DiscardHandler),
		})
		const tries = 10
		for i := range tries {
			if l.Stuck() != nil != (i > 0) {
				t.Errorf("after %d attempts: %v", i, l.Stuck())
			}
			in.next <- fail
			synctest.Wait()
		}
		if len(lasted) != tries || lasted[tries-1] != tries*stuckPause {
			t.Errorf("stuck for %v", lasted)
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

// Strangers that say nothing, and as many as there may be, keep a rank waiting until their time is up. No more of them
// are taken in meanwhile, and the rank gets in.
func TestSilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := scripted{next: make(chan func() (net.Conn, error))}
		entered := make(chan int, 1)
		l := startListener(in, ListenerConfig{
			Secret: secret, Log: slog.New(slog.DiscardHandler),
			Enter: func(conn net.Conn, from int) { conn.Close(); entered <- from },
		})
		began := time.Now()
		for range maxPending {
			stranger, ours := net.Pipe()
			defer stranger.Close()
			in.next <- func() (net.Conn, error) { return ours, nil }
		}
		rank, ours := net.Pipe()
		defer rank.Close()
		go func() {
			in.next <- func() (net.Conn, error) { return ours, nil }
			close(in.next)
		}()
		synctest.Wait()
		if n := len(l.pending); n != maxPending {
			t.Errorf("%d connections are in their handshake", n)
		}
		if _, err := greet(rank, given(secret), 1, 0); err != nil {
			t.Error(err)
		}
		if from := <-entered; from != 1 || time.Since(began) != handshakeTimeout {
			t.Errorf("rank %d came in after %v", from, time.Since(began))
		}
		l.done.Wait()
	})
}
