package wire

import (
	"context"
	"errors"
	"testing"

	"perigee/spmd/spmdtest"
)

// A receiver that leaves without a message leaves no queue behind: a job makes many groups, each with its channel.
func TestReceiversLeaveNoQueue(t *testing.T) {
	m := newMailbox()
	queues := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.queues)
	}
	over := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, _, err := m.take(ctx, mailKey{1, 7}); err != over || queues() != 0 {
		t.Errorf("after %v there are %d queues", err, queues())
	}
	received := make(chan error, 1)
	go func() {
		_, _, err := m.take(t.Context(), mailKey{1, 7})
		received <- err
	}()
	spmdtest.Wait(t, func() bool { return queues() == 1 })
	m.fail(1, errCut)
	if err := <-received; !errors.Is(err, errCut) || queues() != 0 {
		t.Errorf("after %v there are %d queues", err, queues())
	}
	m.put(2, Header{Channel: 7}, []byte("late"))
	if _, data, err := m.take(ctx, mailKey{2, 7}); err != nil || string(data) != "late" || queues() != 0 {
		t.Errorf("got %q, %v; there are %d queues", data, err, queues())
	}
}
