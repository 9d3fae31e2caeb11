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

// queue is what has come from one sender on one channel. It exists while it holds messages, or a receiver waits.
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

// dropLocked forgets an empty queue.
func (m *mailbox) dropLocked(k mailKey, q *queue) {
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
	if q.first++; q.first == len(q.messages) {
		m.dropLocked(k, q)
	}
	return next, true
}

// leaveLocked lets a receiver go that got no message.
func (m *mailbox) leaveLocked(k mailKey) {
	if q := m.queues[k]; q != nil && q.first == len(q.messages) {
		m.dropLocked(k, q)
	}
}

// look returns the next message, or why there will be none, or else what is signalled when that changes.
func (m *mailbox) look(k mailKey) (next message, ready <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, ok := m.tryTakeLocked(k)
	if ok {
		return next, nil, nil
	}
	if broken := m.broken[k.from]; broken != nil {
		m.leaveLocked(k)
		return next, nil, fmt.Errorf("link from rank %d: %w", k.from, broken)
	}
	q := m.queueLocked(k)
	if q.ready == nil {
		q.ready = make(chan struct{}, 1)
	}
	return next, q.ready, nil
}

// take waits for the next message. One that has come is returned even if ctx has ended meanwhile.
func (m *mailbox) take(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	for over := false; ; {
		next, ready, err := m.look(mailKey{from, channel})
		if err != nil || ready == nil {
			return next.header, next.data, err
		}
		if over {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.leaveLocked(mailKey{from, channel})
			return Header{}, nil, context.Cause(ctx)
		}
		select {
		case <-ready:
		case <-ctx.Done():
			over = true
		}
	}
}
