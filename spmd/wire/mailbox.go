package wire

import (
	"context"
	"fmt"
	"sync"
)

// mailbox holds what has arrived and was not yet asked for.
type mailbox struct {
	mu      sync.Mutex
	queues  map[mailKey]*queue
	free    []*queue      // empty ones, for reuse: a message must cost no allocation
	broken  map[int]error // senders whose link is gone
	control func(from int, h Header, data []byte)
}

type mailKey struct {
	from    int
	channel uint64
}

// queue holds the messages of one sender on one channel. It exists while it holds messages, or a receiver waits.
type queue struct {
	messages []message
	first    int           // of messages, that was not taken yet
	ready    chan struct{} // capacity 1, holds a token after a change; nil until a receiver waits
}

type message struct {
	header Header
	data   []byte
}

func newMailbox() *mailbox {
	return &mailbox{queues: map[mailKey]*queue{}, broken: map[int]error{}}
}

// maxFree bounds the queues that are kept for reuse.
const maxFree = 64

func (m *mailbox) queueLocked(k mailKey) *queue {
	q := m.queues[k]
	if q == nil {
		if n := len(m.free); n > 0 {
			q, m.free = m.free[n-1], m.free[:n-1]
		} else {
			q = &queue{}
		}
		m.queues[k] = q
	}
	return q
}

// dropEmptyLocked forgets a queue that holds nothing.
func (m *mailbox) dropEmptyLocked(k mailKey) {
	q := m.queues[k]
	if q == nil || q.first < len(q.messages) {
		return
	}
	delete(m.queues, k)
	if len(m.free) == maxFree {
		return
	}
	q.messages, q.first = q.messages[:0], 0
	select {
	case <-q.ready:
	default:
	}
	m.free = append(m.free, q)
}

func (q *queue) signal() {
	if q.ready == nil {
		return
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (m *mailbox) put(from int, h Header, data []byte) {
	m.mu.Lock()
	if h.Op == Control {
		handle := m.control
		m.mu.Unlock()
		if handle != nil {
			handle(from, h, data)
		}
		return
	}
	defer m.mu.Unlock()
	q := m.queueLocked(mailKey{from, h.Channel})
	q.messages = append(q.messages, message{h, data})
	q.signal()
}

// fail makes present and future receivers from a rank fail once what had arrived is consumed.
func (m *mailbox) fail(from int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken[from] != nil {
		return
	}
	m.broken[from] = err
	for k, q := range m.queues {
		if k.from == from {
			q.signal()
		}
	}
}

func (m *mailbox) handleControl(handle func(from int, h Header, data []byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.control = handle
}

// tryTake returns the next message of a rank on a channel if it is here.
func (m *mailbox) tryTake(k mailKey) (next message, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tryTakeLocked(k)
}

func (m *mailbox) tryTakeLocked(k mailKey) (next message, ok bool) {
	q := m.queues[k]
	if q == nil || q.first == len(q.messages) {
		return message{}, false
	}
	next = q.messages[q.first]
	q.messages[q.first] = message{} // its data is the receiver's from now on
	q.first++
	m.dropEmptyLocked(k)
	return next, true
}

// take waits for the next message. One that has come is returned even if ctx has ended meanwhile.
func (m *mailbox) take(ctx context.Context, k mailKey) (Header, []byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.dropEmptyLocked(k) // also where no message has come
	for over := false; ; {
		if next, ok := m.tryTakeLocked(k); ok {
			return next.header, next.data, nil
		}
		if err := m.broken[k.from]; err != nil {
			return Header{}, nil, fmt.Errorf("link from rank %d: %w", k.from, err)
		}
		if over {
			return Header{}, nil, context.Cause(ctx)
		}
		over = m.awaitLocked(ctx, m.queueLocked(k))
	}
}

// awaitLocked waits for a change of a queue, and reports whether ctx has ended instead.
func (m *mailbox) awaitLocked(ctx context.Context, q *queue) (over bool) {
	if q.ready == nil {
		q.ready = make(chan struct{}, 1)
	}
	ready := q.ready
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-ready:
		return false
	case <-ctx.Done():
		return true
	}
}
