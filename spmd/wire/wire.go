package wire

import (
	"context"
	"sync/atomic"
)

// Header says what a message is for. Channel separates the
// groups of ranks; Seq, Op and Root let a receiver notice that the sender is in a
// different collective than itself.
type Header struct {
	Channel uint64
	Seq     uint32
	Op      byte
	Root    uint16
}

// Control is the Op of messages that no Recv waits for. They go to the function that was
// given to HandleControl, after all that the sender has sent before.
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
	// Sent returns what has been written to others so far.
	Sent() Counts
	Close() error
}

// Counts says how much an endpoint has written to others: the links it has opened, the
// messages on them, control messages apart, and in how many frames, with the bytes of those,
// headers included. Handshakes do not count.
type Counts struct{ Links, Messages, Controls, Frames, Bytes int64 }

// Minus returns the growth since an earlier reading.
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

// message counts one with a payload of n bytes.
func (t *tally) message(h Header, n int) {
	if h.Op == Control {
		t.controls.Add(1)
	} else {
		t.messages.Add(1)
	}
	bytes, frames := FrameBytes(n)
	t.bytes.Add(int64(bytes))
	t.frames.Add(int64(frames))
}
