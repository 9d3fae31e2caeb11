package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// pair returns the two ends of a link that has been used.
func pair(t *testing.T, ends []*TCP) (zero, one *link) {
	t.Helper()
	must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, nil))
	if _, _, err := ends[0].Recv(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	must.Do(t, ends[0].Send(t.Context(), 1, Header{Channel: 1}, nil))
	if _, _, err := ends[1].Recv(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	return linkOf(t, ends[0], 1), linkOf(t, ends[1], 0)
}

func (l *link) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// TestUnansweredBytesEndALink cuts a link on which a message is under way: keep-alive does not look at such links.
func TestUnansweredBytesEndALink(t *testing.T) {
	lost := make(chan error, 1)
	ends := mesh(t, 2)
	ends[1].cfg.LinkLost = func(_ int, err error) { lost <- err }
	zero, one := pair(t, ends)
	cutOff(t, zero.fd)
	must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, []byte("last words")))
	spmdtest.Wait(t, func() bool {
		one.checkAnswers(time.Now(), 300*time.Millisecond)
		return one.hasEnded()
	})
	if err := <-lost; !IsSilence(err) {
		t.Errorf("the link was lost because of %v", err)
	}
	if _, _, err := ends[1].Recv(t.Context(), 0, 1); !IsSilence(err) {
		t.Errorf("a receiver got %v", err)
	}
}

// TestShortOutage has a network that fails for a few seconds. What could not be sent in that time comes soon after.
func TestShortOutage(t *testing.T) {
	ends := mesh(t, 2)
	zero, one := pair(t, ends)
	for _, l := range []*link{zero, one} {
		pause, err := unix.GetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS)
		if errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("this kernel has no bound for the pauses between repeats")
		}
		if err != nil || time.Duration(pause)*time.Millisecond != repeatPause {
			t.Errorf("repeats come within %d ms, %v", pause, err)
		}
	}
	cutOff(t, zero.fd)
	began := time.Now()
	must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, nil))
	time.Sleep(3300 * time.Millisecond) // the fourth repeat has been lost 3 s after the first try
	must.Do(t, unix.SetsockoptInt(zero.fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0))
	if _, _, err := ends[0].Recv(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took >= answerLimit {
		t.Errorf("the message came after %v", took)
	}
}

// TestFullBuffersEndNoLink sends to a rank that is stopped: its kernel has no room, and says so.
func TestFullBuffersEndNoLink(t *testing.T) {
	ends := mesh(t, 2)
	zero, one := pair(t, ends)
	zero.mu.Lock() // no bytes are read any more
	ctx, cancel := context.WithCancelCause(t.Context())
	sent := make(chan error, 1)
	go func() { sent <- ends[1].Send(ctx, 0, Header{Channel: 1}, make([]byte, 64<<20)) }()
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(10 * time.Millisecond) {
		one.checkAnswers(time.Now(), 300*time.Millisecond)
	}
	if one.hasEnded() {
		t.Errorf("a link to a stopped rank has ended: %v", one.err)
	}
	why := errors.New("enough")
	cancel(why)
	if err := <-sent; err != why {
		t.Errorf("the sender got %v", err)
	}
	zero.mu.Unlock()
}

// TestCloseWaitsForTheLastMessage closes an end that has not read all that has come, behind messages that the other
// end has no room for yet: a connection that is reset would lose them.
func TestCloseWaitsForTheLastMessage(t *testing.T) {
	ends := mesh(t, 2)
	zero, one := pair(t, ends)
	one.mu.Lock()
	one.disarm()
	one.mu.Unlock()
	zero.mu.Lock()
	const size = 3 << 20 // more than is read at once, less than the kernel keeps
	must.Do(t, ends[1].Send(t.Context(), 0, Header{Channel: 1}, make([]byte, size)))
	must.Do(t, ends[0].Send(t.Context(), 1, Header{Channel: 1}, []byte("unread")))
	closed := make(chan struct{})
	go func() { ends[1].Close(); close(closed) }()
	zero.mu.Unlock()
	if _, data, err := ends[0].Recv(t.Context(), 1, 1); err != nil || len(data) != size {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
	<-closed
}
