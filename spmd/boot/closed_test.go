package boot

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"perigee/internal/fault"
	"perigee/spmd/boot/watch"
	"perigee/spmd/spmdtest"
)

// A connection to rank 0 that the network closes as soon as both have proven themselves keeps no rank out. Where that
// happens again, or rank 0 is gone by then, the error is the first one: the job is ending.
func TestClosedAfterTheHandshake(t *testing.T) {
	const handshake = 8 + 32 + 2 + 32 // bytes of the acceptor: magic, nonce, length of the challenge, and proof
	for _, c := range []struct {
		name  string
		times int // how many connections are closed
		gone  bool
		want  string
	}{
		{"once", 1, false, ""},
		{"twice", 2, false, "rank 0, the coordinator of the job, at %s hung up at once"},
		{"once, and rank 0 is gone", 1, true, "rank 0, the coordinator of the job, at %s hung up at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			followThrough(t, c.name, c.want, func(to string) string {
				return closeEarly(t, to, -1, handshake, c.times, c.gone)
			})
		})
	}
}

// Nor does one that is closed before rank 0 has heard of the rank: it would be missed for minutes. Where that happens
// again, or rank 0 is gone by then, the rank reports the loss.
func TestClosedBeforeTheHello(t *testing.T) {
	const proof = 4 + 4 + 32 + 32 // bytes of a dialer's handshake: two ranks, nonce and proof
	for _, c := range []struct {
		name  string
		times int // how many connections are closed
		gone  bool
		want  string
	}{
		{"once", 1, false, ""},
		{"twice", 2, false, "rank 1 lost the connection to rank 0, the coordinator of the job, at %s: it has died"},
		{"once, and rank 0 is gone", 1, true, "rank 1 lost the connection to rank 0, the coordinator of the job, at %s: it has died"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rendezvous{launcher: "test", size: 2, secret: []byte("0123456789abcdef"), oneHost: true}
			first, leader, meet, err := r.openAnywhere(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer leader.Close()
			first.Put(t.Context(), []byte("zero"))
			r.rank, r.meet = 1, []string{closeEarly(t, meet[0], proof, -1, c.times, c.gone)}
			p, err := r.follow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Put(t.Context(), []byte("one"))
			err = p.Fence(t.Context())
			if c.want != "" {
				if f := watch.FailureOf(err); f.Rank != 0 || f.Kind != fault.RankLost || f.Cause != fmt.Sprintf(c.want, r.meet[0]) {
					t.Errorf("the rank is told %+v", f)
				}
				if leader.Coordinator.Failure() != nil || !slices.Contains(leader.Coordinator.Missing(), 1) {
					t.Errorf("ranks %v are missing; %v", leader.Coordinator.Missing(), leader.Coordinator.Failure())
				}
				p.Leave(t.Context())
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if card, err := first.Get(t.Context(), 1); string(card) != "one" {
				t.Errorf("rank 1 has the card %q, %v", card, err)
			}
			if err := p.Leave(t.Context()); err != nil {
				t.Error(err)
			}
			if err := first.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// followThrough lets rank 1 of two join by another address than that of rank 0, and leave. want is the error of joining
// with that address in it, "" for none.
func followThrough(t *testing.T, name, want string, through func(to string) (address string)) {
	t.Helper()
	r := rendezvous{launcher: "test", size: 2, secret: []byte("0123456789abcdef"), oneHost: true}
	_, leader, meet, err := r.openAnywhere(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leader.Close()
	r.rank, r.meet = 1, []string{through(meet[0])}
	p, err := r.follow(t.Context())
	if want != "" {
		checkFault(t, name, false, err, fmt.Sprintf(want, r.meet[0]))
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Put(t.Context(), nil)
	if err := p.Leave(t.Context()); err != nil {
		t.Error(err)
	}
}

// closeEarly passes on connections to an address, and closes the first so many of them: when so many bytes have come
// back, or more than so many were to go there (-1 is any number). If gone is set it accepts none after these.
func closeEarly(t *testing.T, to string, up, down, times int, gone bool) (address string) {
	pass := func(to io.Writer, from io.Reader, limit int) {
		if limit < 0 {
			io.Copy(to, from)
		} else {
			io.CopyN(to, from, int64(limit))
		}
	}
	return spmdtest.Between(t, to, func(n int, l net.Listener, a, b net.Conn, start func(func())) {
		if n >= times && gone {
			l.Close()
		}
		up, down := up, down
		if n > times {
			up, down = -1, -1
		}
		over := sync.OnceFunc(func() { a.Close(); b.Close() })
		start(func() {
			defer over()
			pass(b, a, up)
			if up >= 0 {
				io.CopyN(io.Discard, a, 1)
			}
		})
		start(func() {
			defer over()
			pass(a, b, down)
		})
	})
}
