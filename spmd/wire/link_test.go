package wire

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// linkOf returns the link that carries what a rank sends, once there is one.
func linkOf(t *testing.T, e *TCP, from int) *link {
	t.Helper()
	var l *link
	spmdtest.Wait(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		if p := e.peers[from]; p != nil {
			l = p.link
		}
		return l != nil
	})
	return l
}

// has reports whether a message of a rank waits on a channel.
func has(m *mailbox, from int, channel uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[mailKey{from, channel}]
	return q != nil && q.first < len(q.messages)
}

func (l *link) isArmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.armed
}

// A receiver that has found its message itself leaves the link unread for a while.
// After that what comes is read though no receiver waits for it.
func TestLentLinksAreTakenBack(t *testing.T) {
	ends := mesh(t, 2)
	send := func(data []byte) {
		t.Helper()
		must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, data))
	}
	receive := func() []byte {
		t.Helper()
		_, data, err := ends[0].Recv(t.Context(), 1, 1)
		must.Do(t, err)
		return data
	}
	send(nil)
	receive()
	l := linkOf(t, ends[0], 1)
	for range 20 {
		l.mu.Lock()
		l.disarm() // so that the pump does not come first
		l.mu.Unlock()
		send([]byte("soon"))
		spmdtest.Wait(t, func() bool { // on this machine the message is on the other side at once, but nothing says so
			l.lookFor(func() bool { return has(ends[0].box, 1, 1) })
			return has(ends[0].box, 1, 1)
		})
		if data := receive(); string(data) != "soon" {
			t.Fatalf("got %q", data)
		}
		spmdtest.Wait(t, l.isArmed)
	}
	// More than the kernel keeps: it can only be sent if the link is read.
	large := bytes.Repeat([]byte("0123456789abcdef"), 4<<20)
	send(large)
	if !bytes.Equal(receive(), large) {
		t.Error("a message that no receiver waited for was damaged")
	}
}

// Some look for their messages themselves, some are told by the pump, and all of one
// sender's come through one link: everybody gets his own, in order.
func TestReceiversShareALink(t *testing.T) {
	const receivers, each = 4, 300
	ends := mesh(t, 2)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("a message was forgotten"))
	defer cancel()
	var all sync.WaitGroup
	for ch := range uint64(receivers) {
		tokens := make(chan struct{}, 1) // one message of a channel is under way at a time
		all.Go(func() {
			for i := range uint32(each) {
				tokens <- struct{}{}
				if rand.IntN(20) == 0 {
					time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // longer than anybody looks, or lends
				}
				if err := ends[1].Send(ctx, 0, Header{Channel: ch, Seq: i}, make([]byte, rand.IntN(200))); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Go(func() {
			for i := range uint32(each) {
				h, _, err := ends[0].Recv(ctx, 1, ch)
				if err != nil || h.Seq != i {
					t.Errorf("channel %d: message %d instead of %d: %v", ch, h.Seq, i, err)
					cancel()
					return
				}
				<-tokens
			}
		})
	}
	all.Wait()
}

// The end of a link is noticed though it is lent and no receiver waits.
func TestEndOfALentLink(t *testing.T) {
	ends := mesh(t, 2)
	must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, nil))
	if _, _, err := ends[0].Recv(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	l := linkOf(t, ends[0], 1)
	l.mu.Lock()
	l.disarm()
	l.lent.Reset(lendFor)
	l.mu.Unlock()
	ends[1].Close()
	if <-l.ended; !errors.Is(l.err, errHungUp) {
		t.Errorf("%v", l.err)
	}
	if _, _, err := ends[0].Recv(t.Context(), 1, 1); err == nil || !strings.Contains(err.Error(), "closed by the peer") {
		t.Errorf("%v", err)
	}
}

// BenchmarkRoundTrip is a message there and one back, both ends in this process.
func BenchmarkRoundTrip(b *testing.B) {
	ends := mesh(b, 2)
	var echo sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	echo.Go(func() {
		for {
			if _, _, err := ends[1].Recv(ctx, 0, 1); err != nil {
				return
			}
			if err := ends[1].Send(ctx, 0, Header{Channel: 1}, nil); err != nil {
				return
			}
		}
	})
	for b.Loop() {
		must.Do(b, ends[0].Send(ctx, 1, Header{Channel: 1}, nil))
		if _, _, err := ends[0].Recv(ctx, 1, 1); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	echo.Wait()
}
