package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/kit/must"
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

// A thousand strangers that say nothing keep a rank waiting for less than five seconds: where others wait the oldest of
// them have less time. No more of them are taken in at once than there may be.
func TestSilentStrangers(t *testing.T) {
	for strangers, want := range map[int]time.Duration{
		maxPending - 1: 0, maxPending: crowdedTimeout, 300: crowdedTimeout, 1000: 1000 / maxPending * crowdedTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			in := scripted{next: make(chan func() (net.Conn, error))}
			entered := make(chan int, 1)
			l := startListener(in, ListenerConfig{
				Secret: secret, Log: slog.New(slog.DiscardHandler),
				Enter: func(conn net.Conn, from int) { conn.Close(); entered <- from },
			})
			began := time.Now()
			rank, ours := net.Pipe()
			defer rank.Close()
			go func() {
				for range strangers {
					_, ours := net.Pipe() // the other end never closes
					in.next <- func() (net.Conn, error) { return ours, nil }
				}
				in.next <- func() (net.Conn, error) { return ours, nil }
				close(in.next)
			}()
			synctest.Wait()
			if n := len(l.pending); n != min(strangers+1, maxPending) {
				t.Errorf("%d strangers: %d connections are in their handshake", strangers, n)
			}
			if _, err := greet(rank, given(secret), 1, 0); err != nil {
				t.Error(err)
			}
			if from, waited := <-entered, time.Since(began); from != 1 || waited != want || waited >= 5*time.Second {
				t.Errorf("%d strangers: rank %d came in after %v, want %v", strangers, from, waited, want)
			}
			l.done.Wait()
		})
	}
}

// Strangers that have taken the last descriptors lose them as fast, long before rank 0 would give up.
func TestStrangersWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := scripted{next: make(chan func() (net.Conn, error))}
		startListener(in, ListenerConfig{Secret: secret, Log: slog.New(slog.DiscardHandler)})
		stranger, ours := net.Pipe()
		began := time.Now()
		in.next <- func() (net.Conn, error) { return ours, nil }
		in.next <- func() (net.Conn, error) { return nil, errors.New("too many open files") }
		io.Copy(io.Discard, stranger)
		if waited := time.Since(began); waited != crowdedTimeout {
			t.Errorf("it was let go after %v", waited)
		}
		close(in.next)
	})
}

// So it is with sockets.
func TestSilentSockets(t *testing.T) {
	l, err := Listen(ListenerConfig{
		Address: "127.0.0.1:0", Secret: secret, Enter: func(conn net.Conn, _ int) { conn.Close() },
	})
	must.Do(t, err)
	defer l.Close()
	address := fmt.Sprint("127.0.0.1:", l.Port())
	for range maxPending + 44 {
		c, err := net.Dial("tcp", address)
		must.Do(t, err)
		defer c.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), handshakeTimeout-time.Second) // without a rank they have as long
	defer cancel()
	conn, err := Dial(ctx, address, secret, 1, 0)
	must.Do(t, err)
	conn.Close()
}
