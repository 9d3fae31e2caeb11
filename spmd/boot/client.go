package boot

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"perigee/internal/fault"
)

// client is a rank's end of its connection to the coordinator. It is both the
// rank's Store and its Monitor.
type client struct {
	conn net.Conn
	out  *memoWriter
	rank int
	host string

	ready  chan struct{}
	failed chan Failure

	mu    sync.Mutex
	cards map[int]chan []byte
	left  bool
	end   chan struct{} // closed when the connection has ended
}

// dialCoordinator takes over a connection and waits for the job's secret.
func dialCoordinator(conn net.Conn, rank int) (*client, []byte, error) {
	c := &client{
		conn: conn, out: newMemoWriter(conn), rank: rank, host: hostname(),
		ready: make(chan struct{}), failed: make(chan Failure, 1),
		cards: map[int]chan []byte{}, end: make(chan struct{}),
	}
	in := newMemoReader(conn)
	first, err := in.next()
	if err != nil || first.Is != isSecret {
		c.close()
		return nil, nil, fault.New(fault.Launch, "the job's coordinator hung up at once").
			WithHint("is the job already ending, or is another program on that port?")
	}
	go c.listen(in)
	return c, first.Secret, nil
}

func (c *client) listen(in *memoReader) {
	defer close(c.end)
	for {
		m, err := in.next()
		if err != nil {
			c.mu.Lock()
			left := c.left
			c.mu.Unlock()
			if !left {
				c.fail(Failure{Rank: -1, Kind: fault.RankLost, Cause: "lost the connection to the job's coordinator (the launcher, or rank 0): it has died or is cut off"})
			}
			return
		}
		switch m.Is {
		case isReady:
			close(c.ready)
		case isCard:
			c.mu.Lock()
			if ch := c.cards[m.Rank]; ch != nil {
				ch <- m.Card
				delete(c.cards, m.Rank)
			}
			c.mu.Unlock()
		case isAbort:
			if m.Failure != nil {
				c.fail(*m.Failure)
			}
		}
	}
}

func (c *client) fail(f Failure) {
	select {
	case c.failed <- f:
	default: // one is already waiting to be read, and the first one counts
	}
}

func (c *client) Put(_ context.Context, card []byte) error {
	if len(card) > maxLine/2 {
		return errors.New("card too large")
	}
	c.out.send(memo{Is: isHello, Rank: c.rank, Host: c.host, Card: card})
	return nil
}

// wait waits for a channel, the end of the connection, or the context. A
// failure that arrives meanwhile is put back for the world to find.
func wait[T any](ctx context.Context, c *client, ch <-chan T) (T, error) {
	var zero T
	select {
	case v := <-ch:
		return v, nil
	case f := <-c.failed:
		c.fail(f)
		return zero, f
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

func (c *client) Fence(ctx context.Context) error {
	_, err := wait(ctx, c, c.ready)
	return err
}

func (c *client) Get(ctx context.Context, rank int) ([]byte, error) {
	ch := make(chan []byte, 1)
	c.mu.Lock()
	c.cards[rank] = ch
	c.mu.Unlock()
	c.out.send(memo{Is: isGet, Rank: rank})
	return wait(ctx, c, ch)
}

func (c *client) Phase(name string) { c.out.send(memo{Is: isPhase, Phase: name}) }

// Abort sends the failure and returns when it is on its way.
func (c *client) Abort(f Failure) {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(flushTimeout))
	c.out.send(memo{Is: isAbort, Failure: &f})
	c.out.close()
}

func (c *client) Failed() <-chan Failure { return c.failed }

// Leave says goodbye and waits until it has been heard. A job that has
// failed meanwhile has heard enough.
func (c *client) Leave(ctx context.Context) error {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	c.out.send(memo{Is: isBye})
	select {
	case <-c.end: // the coordinator hangs up after a goodbye
	case <-ctx.Done():
	}
	c.close()
	return context.Cause(ctx)
}

func (c *client) close() {
	c.out.close()
	c.conn.Close()
}
