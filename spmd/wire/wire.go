// Package wire carries messages between ranks.
//
// An Endpoint is one rank's access to all others. Two implementations exist:
// TCP, whose links are opened when first needed and only after both sides have
// proved that they know the job's secret; and an in-memory network for tests,
// where N endpoints live in one process. Messages from one rank on one channel
// arrive in the order in which they were sent.
package wire

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Header tells the receiver what a message is for. Channel separates the
// groups of ranks; Seq, Op and Root let a receiver notice that the sender is in a
// different collective than itself.
type Header struct {
	Channel uint64
	Seq     uint32
	Op      byte
	Root    uint16
}

// Control is the Op of messages that no Recv waits for. They go to the function that was
// given to Controls, after all that the sender has sent before.
const Control = 0xff

// Endpoint is one rank's access to the others. Send and Recv may be called
// from any goroutine, but at most one receiver may wait for a given pair of
// sender and channel.
type Endpoint interface {
	// Send hands a message over. It returns when data may be reused, not when
	// the peer has received it.
	Send(ctx context.Context, to int, h Header, data []byte) error
	// Recv returns the next message that rank from sent on a channel.
	Recv(ctx context.Context, from int, channel uint64) (Header, []byte, error)
	// HandleControl sets the function that gets the messages with the Op Control. It must not block.
	HandleControl(handle func(from int, h Header, data []byte))
	// Sent tells what has been written to others so far.
	Sent() Counts
	Close() error
}

// Counts is what an endpoint has written to others: the links it has opened, the
// messages on them, control messages apart, and in how many frames, with the bytes of those,
// headers included. Handshakes do not count.
type Counts struct{ Links, Messages, Controls, Frames, Bytes int64 }

// Minus is what has been added since an earlier reading.
func (c Counts) Minus(earlier Counts) Counts {
	return Counts{
		c.Links - earlier.Links, c.Messages - earlier.Messages, c.Controls - earlier.Controls,
		c.Frames - earlier.Frames, c.Bytes - earlier.Bytes,
	}
}

// tally counts while others read.
type tally struct{ links, messages, controls, frames, bytes atomic.Int64 }

func (t *tally) counts() Counts {
	return Counts{t.links.Load(), t.messages.Load(), t.controls.Load(), t.frames.Load(), t.bytes.Load()}
}

// Write counts bytes on their way.
func (t *tally) Write(b []byte) (int, error) {
	t.bytes.Add(int64(len(b)))
	return len(b), nil
}

// message counts one that was written in so many frames.
func (t *tally) message(h Header, frames int) {
	if h.Op == Control {
		t.controls.Add(1)
	} else {
		t.messages.Add(1)
	}
	t.frames.Add(int64(frames))
}

// mailbox holds what has arrived and was not yet asked for.
type mailbox struct {
	mu      sync.Mutex
	queues  map[mailKey]*queue
	broken  map[int]error // senders whose link is gone
	control func(from int, h Header, data []byte)
}

type mailKey struct {
	from    int
	channel uint64
}

type queue struct {
	messages []message
	ready    chan struct{} // capacity 1; holds a token after a change
}

type message struct {
	header Header
	data   []byte
}

func newMailbox() *mailbox {
	return &mailbox{queues: map[mailKey]*queue{}, broken: map[int]error{}}
}

func (m *mailbox) queueLocked(k mailKey) *queue {
	q := m.queues[k]
	if q == nil {
		q = &queue{ready: make(chan struct{}, 1)}
		m.queues[k] = q
	}
	return q
}

func (q *queue) signal() {
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

// fail makes present and future receivers from a rank fail once what had
// arrived is consumed.
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

// has reports whether a message of a rank waits on a channel.
func (m *mailbox) has(from int, channel uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[mailKey{from, channel}]
	return q != nil && len(q.messages) > 0
}

// take returns the next message. One that has come is not left there because ctx has
// ended meanwhile.
func (m *mailbox) take(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	k := mailKey{from, channel}
	for over := false; ; {
		m.mu.Lock()
		q := m.queueLocked(k)
		if len(q.messages) > 0 {
			l := q.messages[0]
			q.messages = q.messages[1:]
			if len(q.messages) == 0 {
				delete(m.queues, k)
			}
			m.mu.Unlock()
			return l.header, l.data, nil
		}
		broken := m.broken[from]
		m.mu.Unlock()
		if broken != nil {
			return Header{}, nil, fmt.Errorf("link from rank %d: %w", from, broken)
		}
		if over {
			return Header{}, nil, context.Cause(ctx)
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			over = true
		}
	}
}
