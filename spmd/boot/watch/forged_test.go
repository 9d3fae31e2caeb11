package watch

import (
	"io"
	"net"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
	"perigee/spmd/wire"
)

// Where bytes of the coordinator are altered on their way to a rank, the job's failure says so, at both ends: neither
// has died.
func TestForgedWordsOfTheCoordinator(t *testing.T) {
	c := newCoordinator(t, 2)
	connectFollower(t, c, 0).Put(t.Context(), nil)
	secret := []byte("a secret of the job")
	l, err := wire.Listen(wire.ListenerConfig{Address: "127.0.0.1:0", Secret: secret, Enter: func(conn net.Conn, from int) { c.Serve(conn, from) }})
	must.Do(t, err)
	defer l.Close()
	between, spoil := alteringRelay(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())))
	conn, err := wire.Dial(t.Context(), between, secret, 1, 0)
	must.Do(t, err)
	cl, _, err := NewClient(t.Context(), conn, Self{Rank: 1, Size: 2}, Leader{Name: "rank 0, the coordinator"})
	must.Do(t, err)
	spoil.Store(true)
	must.Do(t, cl.Put(t.Context(), nil))
	want := regexp.MustCompile(`^lost the connection to rank 0, the coordinator: frame \d+ was altered, repeated, left out or injected on the way$`)
	<-c.Failed()
	for who, f := range map[string]Failure{"the coordinator": *c.Failure(), "the rank": <-cl.Failed()} {
		if f.Rank != 1 || f.Kind != fault.RankLost || !want.MatchString(f.Cause) {
			t.Errorf("%s has %+v", who, f)
		}
	}
	cl.Leave(t.Context())
}

// alteringRelay passes on bytes between who connects to it and an address. Once spoil is set it alters those to the one
// that has connected.
func alteringRelay(t *testing.T, to string) (address string, spoil *atomic.Bool) {
	spoil = new(atomic.Bool)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	var done sync.WaitGroup
	t.Cleanup(func() { l.Close(); done.Wait() })
	done.Go(func() {
		a, err := l.Accept()
		if err != nil {
			return
		}
		defer a.Close()
		b, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		done.Go(func() { io.Copy(b, a); b.Close() })
		buf := make([]byte, 4096)
		for {
			n, err := b.Read(buf)
			if err != nil {
				return
			}
			if spoil.Load() {
				buf[n-1] ^= 1
			}
			if _, err := a.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	return l.Addr().String(), spoil
}

// So it is with the first words of either side: the others do not wait for a rank whose connection has ended so.
func TestForgedFirstWords(t *testing.T) {
	const handshake = 72 // bytes of either side
	for _, c := range []struct {
		name     string
		up, down int // which byte to alter, by direction; -1 is none
		want     string
	}{
		{"of the rank", handshake + 40, -1, `^lost the connection to its process at 127\.0\.0\.1:\d+: frame 1 was altered, repeated, left out or injected on the way$`},
		{"of the coordinator", -1, handshake + 40, `^lost the connection to rank 0, the coordinator: frame 1 was altered, repeated, left out or injected on the way$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := newCoordinator(t, 3)
			first := connectFollower(t, job, 0)
			first.Put(t.Context(), nil)
			secret := []byte("a secret of the job")
			l, err := wire.Listen(wire.ListenerConfig{Address: "127.0.0.1:0", Secret: secret, Enter: func(conn net.Conn, from int) { job.Serve(conn, from) }})
			must.Do(t, err)
			defer l.Close()
			between := spmdtest.Alter(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())), c.up, c.down, 1)
			conn, err := wire.Dial(t.Context(), between, secret, 1, 0)
			must.Do(t, err)
			var told Failure
			cl, _, err := NewClient(t.Context(), conn, Self{Rank: 1, Size: 3}, Leader{Name: "rank 0, the coordinator"})
			if err == nil {
				cl.Put(t.Context(), nil)
				told = <-cl.Failed()
				cl.Leave(t.Context())
			} else {
				told = FailureOf(err)
			}
			want := regexp.MustCompile(c.want)
			for who, f := range map[string]Failure{"rank 0": <-first.Failed(), "the rank": told} {
				if f.Rank != 1 || f.Kind != fault.RankLost || f.Hint != alteredHint || !want.MatchString(f.Cause) {
					t.Errorf("%s has %+v", who, f)
				}
			}
			job.Close()
			first.Leave(t.Context())
		})
	}
}

// A connection between hosts may end without the death of a process.
func TestWhatEndsAConnection(t *testing.T) {
	const cut = ", or the network has closed the connection"
	for _, c := range []struct{ here, there, want string }{
		{"127.0.0.1", "127.0.0.1", ""}, {"::1", "::1", ""}, {"10.0.0.1", "10.0.0.1", ""}, {"127.0.0.1", "127.0.1.1", ""}, {"10.0.0.2", "10.0.0.1", cut},
	} {
		if got := orCut(ends{here: net.ParseIP(c.here), there: net.ParseIP(c.there)}); got != c.want {
			t.Errorf("from %s to %s: %q", c.here, c.there, got)
		}
	}
	if a, b := net.Pipe(); orCut(a) != "" || orCut(b) != "" {
		t.Error("a pipe is no network")
	}
}

// ends is a connection that only knows its ends.
type ends struct {
	net.Conn
	here, there net.IP
}

func (e ends) LocalAddr() net.Addr { return &net.TCPAddr{IP: e.here} }

func (e ends) RemoteAddr() net.Addr { return &net.TCPAddr{IP: e.there} }
