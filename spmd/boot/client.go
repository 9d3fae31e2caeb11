package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"perigee/internal/fault"
	"perigee/spmd/wire"
)

// client is a rank's end of its connection to the coordinator. It is both the
// rank's Store and its Monitor.
type client struct {
	conn       net.Conn
	rank, size int
	host       string
	leader     string // what the coordinator is, for the report of its death

	ready  chan struct{}
	failed chan Failure  // for the world; holds the first failure once
	down   chan struct{} // closed with the first failure

	write sync.Mutex // held while a memo is written

	mu      sync.Mutex
	cards   map[int]chan []byte
	failure *Failure
	left    bool
	silence bool          // a write has found that nothing comes through any more
	aborted bool          // by this rank
	end     chan struct{} // closed when the connection has ended
}

// dialCoordinator takes over a connection and waits for the job's secret.
// leader says who is at the other end.
func dialCoordinator(ctx context.Context, conn net.Conn, rank, size int, leader string) (*client, []byte, error) {
	c := &client{
		conn: conn, rank: rank, size: size, host: Hostname(), leader: leader,
		ready: make(chan struct{}), failed: make(chan Failure, 1), down: make(chan struct{}),
		cards: map[int]chan []byte{}, end: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	in := newMemoReader(conn)
	first, err := in.next()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil || first.Is != isSecret {
		conn.Close()
		if ctx.Err() != nil {
			return nil, nil, GaveUp(ctx, "%s does not answer", leader)
		}
		return nil, nil, fault.New(fault.Launch, "%s hung up at once", leader).
			WithHint("is the job already ending, or is another program on that port?")
	}
	go c.listen(in)
	return c, first.Secret, nil
}

func (c *client) listen(in *memoReader) {
	defer close(c.end)
	ready := sync.OnceFunc(func() { close(c.ready) })
	for {
		m, err := in.next()
		if err != nil {
			c.mu.Lock()
			left, silence := c.left, c.silence
			c.mu.Unlock()
			if !left {
				how := "it has died"
				if silence || wire.IsSilence(err) {
					how = "this host (" + c.hostName() + ") is cut off, or that one is down"
				}
				c.fail(Failure{Rank: -1, Kind: fault.RankLost, Cause: "lost the connection to " + c.leader + ": " + how})
			}
			return
		}
		switch m.Is {
		case isReady:
			ready()
		case isCard:
			c.mu.Lock()
			if ch := c.cards[m.Rank]; ch != nil {
				ch <- m.Card
				delete(c.cards, m.Rank)
			}
			c.mu.Unlock()
		case isRoll:
			c.send(memo{Is: isHere})
		case isAbort:
			if m.Failure != nil {
				c.fail(*m.Failure)
			}
		}
	}
}

// nameHost sets the name by which reports know this rank's host, if the
// launcher has one. It must be called before Put.
func (c *client) nameHost(name string) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = name
}

func (c *client) hostName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// fail keeps the first failure for whoever asks.
func (c *client) fail(f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = &f
	c.failed <- f
	close(c.down)
}

// send writes a memo before it returns, so that it is heard even if this
// process is killed at once. A coordinator that is stopped stops its ranks.
func (c *client) send(m memo) {
	c.write.Lock()
	defer c.write.Unlock()
	// If the connection is gone listen knows, and says so.
	if err := json.NewEncoder(c.conn).Encode(m); wire.IsSilence(err) {
		c.mu.Lock()
		c.silence = true
		c.mu.Unlock()
	}
}

// lastWords bounds all further memos: this rank is about to go.
func (c *client) lastWords() {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(flushTimeout))
}

func (c *client) Put(_ context.Context, card []byte) error {
	if len(card) > maxLine/2 {
		return fmt.Errorf("card of %d bytes, at most %d allowed", len(card), maxLine/2)
	}
	c.send(memo{Is: isHello, Rank: c.rank, Size: c.size, Host: c.hostName(), Card: card})
	return nil
}

// wait waits for a channel, the job's failure, or the context.
func wait[T any](ctx context.Context, c *client, ch <-chan T) (T, error) {
	var zero T
	select {
	case v := <-ch:
		return v, nil
	case <-c.down:
		return zero, *c.failure
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

func (c *client) Fence(ctx context.Context) error {
	_, err := wait(ctx, c, c.ready)
	if err != nil && ctx.Err() != nil {
		return GaveUp(ctx, "rank %d waited for the other ranks to start", c.rank)
	}
	return err
}

func (c *client) Get(ctx context.Context, rank int) ([]byte, error) {
	ch := make(chan []byte, 1)
	c.mu.Lock()
	c.cards[rank] = ch
	c.mu.Unlock()
	c.send(memo{Is: isGet, Rank: rank})
	return wait(ctx, c, ch)
}

func (c *client) Phase(name string) { c.send(memo{Is: isPhase, Phase: clip(name)}) }

// Abort sends the failure and returns when it is on its way. The connection
// stays until Leave: its end would look like another death.
func (c *client) Abort(f Failure) {
	c.lastWords()
	c.mu.Lock()
	c.aborted = true
	c.mu.Unlock()
	f.Rank, f.Phase, f.Cause, f.Hint = c.rank, clip(f.Phase), clip(f.Cause), clip(f.Hint)
	c.send(memo{Is: isAbort, Failure: &f})
}

// clip shortens a text to maxText bytes.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + " ..."
}

func (c *client) Failed() <-chan Failure { return c.failed }

// Leave says goodbye and waits until it has been heard. In a job that has
// failed nobody waits for a goodbye.
func (c *client) Leave(ctx context.Context) error {
	c.lastWords()
	c.send(memo{Is: isBye})
	err := c.hungUp(ctx)
	c.conn.Close()
	<-c.end
	return err
}

// hungUp waits for the coordinator to hang up, which it does after a goodbye,
// and returns the job's failure if there is one.
func (c *client) hungUp(ctx context.Context) error {
	select {
	case <-c.end:
	case <-c.down:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return *c.failure
	}
	return nil
}

// follower is the client of a rank whose coordinator is in rank 0.
type follower struct{ *client }

// farewell is how long a rank of a failed job waits for rank 0 to go first.
const farewell = 2 * time.Second

// Leave says goodbye. After a failure rank 0 goes first: it is the one that
// tells the user, and mpirun ends all ranks, and swallows what they say, as
// soon as one of them has ended with an error.
func (f follower) Leave(ctx context.Context) error {
	f.lastWords()
	var err error
	if !f.disturbed() {
		f.send(memo{Is: isBye})
		err = f.hungUp(ctx)
	}
	if f.disturbed() {
		select {
		case <-f.end:
		case <-time.After(farewell):
		case <-ctx.Done():
		}
	}
	f.conn.Close()
	<-f.end
	return err
}

// disturbed reports whether this rank knows that the job has failed.
func (c *client) disturbed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted || c.failure != nil
}
