package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"perigee/internal/fault"
	"perigee/internal/plaintext"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// Client is a rank's end of its connection to the coordinator. It is both the
// rank's Store and its Monitor.
type Client struct {
	conn       net.Conn // changed by listen alone, with write and mu held (see rejoin)
	rank, size int
	host       string
	leader     Leader

	ready  chan struct{}
	failed chan Failure  // for the world; holds the first failure once
	down   chan struct{} // closed with the first failure
	probed chan struct{} // capacity 1; holds a token after a roll call

	write sync.Mutex // held while a message is written
	torn  bool       // a write has failed, perhaps in the middle of a message; guarded by write
	hello *message   // nil until Put; guarded by write

	phases phases

	mu      sync.Mutex
	cards   map[int]chan []byte
	failure *Failure
	death   LauncherDeath
	left    bool
	silence bool          // a write has found that nothing comes through any more
	aborted bool          // by this rank
	end     chan struct{} // closed when the connection has ended
}

// Leader describes the process at the other end, for the report of its death.
type Leader struct {
	Name string
	Rank int // -1 if it is none
	// GracePeriod is how long a rank waits before it reports the death.
	GracePeriod time.Duration
	// Again, if set, dials the coordinator once more where a connection ends before all ranks have come.
	Again func(ctx context.Context) (net.Conn, error)
}

// ErrHungUp means that a connection to the coordinator has ended before that said anything. To the coordinator this
// rank has not come yet.
var ErrHungUp = errors.New("hung up at once")

// NewClient takes over a connection to the coordinator and waits for the job's secret. leader
// describes that end.
func NewClient(ctx context.Context, conn net.Conn, rank, size int, leader Leader) (*Client, []byte, error) {
	c := &Client{
		conn: conn, rank: rank, size: size, host: host.Name(), leader: leader,
		ready: make(chan struct{}), failed: make(chan Failure, 1), down: make(chan struct{}),
		probed: make(chan struct{}, 1),
		cards:  map[int]chan []byte{}, end: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	in := newMessageReader(conn)
	first, err := in.next()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil || first.Is != isSecret {
		defer conn.Close()
		if errors.Is(err, wire.ErrForged) { // what this rank sends may arrive
			f := c.lostLeader(err, false)
			f.Phase = "start"
			c.limitWrites()
			c.send(message{Is: isAbort, Failure: &f})
			return nil, nil, f
		}
		if ctx.Err() != nil {
			return nil, nil, GaveUp(ctx, "%s does not answer", leader.Name)
		}
		return nil, nil, fault.New(fault.Launch, "%s %w", leader.Name, ErrHungUp).
			WithHint("is the job already ending, or is another program on that port?")
	}
	go c.listen(in)
	return c, first.Secret, nil
}

func (c *Client) listen(in *messageReader) {
	defer close(c.end)
	ready := sync.OnceFunc(func() { close(c.ready) })
	mayRejoin := c.leader.Again != nil
	for {
		m, err := in.next()
		if err != nil && mayRejoin && !errors.Is(err, wire.ErrForged) {
			mayRejoin = false
			if again := c.rejoin(); again != nil {
				in = again
				continue
			}
		}
		if err != nil {
			c.mu.Lock()
			left, silence := c.left, c.silence
			c.mu.Unlock()
			if !left {
				time.Sleep(c.leader.GracePeriod)
				f := c.lostLeader(err, silence || wire.IsSilence(err))
				if errors.Is(err, wire.ErrForged) { // the coordinator lives, and would call this process gone
					c.send(message{Is: isCause, Failure: &f})
				}
				c.fail(f)
			}
			return
		}
		switch m.Is {
		case isReady:
			mayRejoin = false
			ready()
		case isCard:
			c.mu.Lock()
			if ch := c.cards[m.Rank]; ch != nil {
				ch <- m.Card
				delete(c.cards, m.Rank)
			}
			c.mu.Unlock()
		case isNoted:
			c.phases.noted(c)
		case isProbe:
			c.send(message{Is: isAlive})
			signal(c.probed)
		case isAbort:
			if m.Failure != nil {
				c.fail(*m.Failure)
			}
		}
	}
}

// rejoinWait bounds the second try to join.
const rejoinWait = time.Second

// rejoin takes up another connection to the coordinator, and returns what comes there, nil if there is none. A hello
// that has got lost leaves this rank missing, and the others would wait for it. Where the coordinator has heard it the
// loss of the first connection ends the job, which this rank hears on the second. What it sends meanwhile waits.
func (c *Client) rejoin() *messageReader {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	over := c.left || c.aborted || c.failure != nil
	c.mu.Unlock()
	if over {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), rejoinWait)
	defer cancel()
	conn, err := c.leader.Again(ctx)
	if err != nil {
		return nil
	}
	deadline, _ := ctx.Deadline()
	conn.SetReadDeadline(deadline)
	in := newMessageReader(conn)
	first, err := in.next()
	if err != nil || first.Is != isSecret || conn.SetReadDeadline(time.Time{}) != nil || !c.replace(conn) {
		conn.Close()
		return nil
	}
	c.torn = false
	if c.hello != nil {
		again := *c.hello
		again.Again = true
		c.torn = json.NewEncoder(conn).Encode(again) != nil
	}
	return in
}

// replace makes conn the connection to the coordinator, unless this rank leaves.
func (c *Client) replace(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return false
	}
	c.conn.Close()
	c.conn, c.silence = conn, false
	return true
}

// current is the connection to the coordinator.
func (c *Client) current() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// alteredHint is for a connection that ended with wire.ErrForged.
const alteredHint = "something between the two alters what the ranks send, by mistake or on purpose"

// lostLeader is the failure of a job whose coordinator is gone, or, if nothing
// comes through to it any more, may be behind a failed network, or behind one that alters what passes.
func (c *Client) lostLeader(err error, silence bool) Failure {
	f := Failure{Rank: c.leader.Rank, Kind: fault.RankLost, Alone: true}
	switch {
	case errors.Is(err, wire.ErrForged):
		f.Rank, f.Host = c.rank, c.hostName()
		f.Cause = fmt.Sprintf("lost the connection to %s: %v", c.leader.Name, err)
		f.Hint = alteredHint
	case silence:
		f.Rank, f.Host = c.rank, c.hostName()
		f.Cause = fmt.Sprintf("lost the connection to %s: this host (%s) is cut off, or that one is down",
			c.leader.Name, f.Host)
	case f.Rank >= 0:
		f.Cause = fmt.Sprintf("rank %d lost the connection to %s: it has died%s", c.rank, c.leader.Name,
			orCut(c.conn))
	default:
		f.Cause = fmt.Sprintf("lost the connection to %s: it has died", c.leader.Name)
	}
	return f
}

// orCut is what else than the death of the process at the other end may have ended a connection: between hosts,
// anything on the way can.
func orCut(conn net.Conn) string {
	here, ok := conn.LocalAddr().(*net.TCPAddr)
	there, also := conn.RemoteAddr().(*net.TCPAddr)
	// A host talks to itself from the address that it talks to.
	if !ok || !also || here.IP.Equal(there.IP) || there.IP.IsLoopback() {
		return ""
	}
	return ", or the network has closed the connection"
}

// NameHost sets the name by which reports know this rank's host, if the
// launcher has one. It must be called before Put.
func (c *Client) NameHost(name string) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.host = name
}

func (c *Client) hostName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}

// fail records the first failure.
func (c *Client) fail(f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = &f
	c.failed <- f
	close(c.down)
}

// send writes a message before it returns, so that it arrives even if this
// process is killed right after. After a write that has failed
// nothing is sent: it would continue a line that was begun.
func (c *Client) send(m message) {
	c.write.Lock()
	defer c.write.Unlock()
	if m.Is == isHello {
		c.hello = &m
	}
	if c.torn {
		return
	}
	// listen reports a connection that has ended.
	err := json.NewEncoder(c.conn).Encode(m)
	if c.torn = err != nil; wire.IsSilence(err) {
		c.mu.Lock()
		c.silence = true
		c.mu.Unlock()
	}
}

// limitWrites bounds the time for all further messages: this rank is about to end.
func (c *Client) limitWrites() { c.current().SetWriteDeadline(time.Now().Add(flushTimeout)) }

// leaving notes that the end of the connection is expected.
func (c *Client) leaving() {
	c.mu.Lock()
	c.left = true
	c.mu.Unlock()
	c.limitWrites()
}

// Put sends hello, with this rank's card.
func (c *Client) Put(_ context.Context, card []byte) error {
	if len(card) > maxLine/2 {
		return fmt.Errorf("card of %d bytes, at most %d allowed", len(card), maxLine/2)
	}
	c.send(message{Is: isHello, Rank: c.rank, Size: c.size, Host: c.hostName(), Card: card})
	return nil
}

// wait waits for a channel, the job's failure, or the context.
func wait[T any](ctx context.Context, c *Client, ch <-chan T) (T, error) {
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

// Fence waits for ready: until all ranks have said hello.
func (c *Client) Fence(ctx context.Context) error {
	_, err := wait(ctx, c, c.ready)
	if err != nil && ctx.Err() != nil {
		return GaveUp(ctx, "rank %d waited for the other ranks to start", c.rank)
	}
	return err
}

// Get asks for the card of a rank, and waits for it.
func (c *Client) Get(ctx context.Context, rank int) ([]byte, error) {
	ch := make(chan []byte, 1)
	c.mu.Lock()
	c.cards[rank] = ch
	c.mu.Unlock()
	c.send(message{Is: isGet, Rank: rank})
	return wait(ctx, c, ch)
}

// Phase sends what this rank does from now on.
func (c *Client) Phase(name string) { c.phases.enter(c, bounded(name)) }

// verdictWait is how long a rank that has reported a failure waits for the verdict of
// the coordinator, or for the next probe; a multiple of countStep. After a timeout the
// coordinator probes first.
const verdictWait = probeTime + 1250*time.Millisecond

// silentFor is how long a coordinator's host may leave a failure unacknowledged. It
// is shorter than verdictWait.
const silentFor = time.Second

// Abort sends the failure and waits for the coordinator's verdict. If rank 0 does not
// answer, or has closed the connection, it is itself the cause. The connection stays
// until Leave: its end would look like another death.
func (c *Client) Abort(f Failure) Failure {
	f = c.causeOf(f)
	c.limitWrites()
	c.mu.Lock()
	c.aborted = true
	c.mu.Unlock()
	f.Rank, f.Phase, f.Cause, f.Hint = c.rank, bounded(f.Phase), bounded(f.Cause), bounded(f.Hint)
	// A network that has failed between two ranks may have cut this one off from the
	// coordinator, too. That failure says more.
	wire.SetUserTimeout(c.current(), silentFor)
	c.send(message{Is: isAbort, Failure: &f})
	c.awaitVerdict()
	if first := c.known(); first != nil { // if only in the last moment
		if first.Alone && c.leader.Rank < 0 {
			return f // with the launcher gone this rank's own words say more
		}
		return *first
	}
	if c.leader.Rank >= 0 {
		kind := fault.RankLost
		if f.Kind == fault.Timeout {
			kind = fault.Timeout
		}
		f = Failure{Rank: c.leader.Rank, Kind: kind, Hint: f.Hint, Alone: true,
			Cause: fmt.Sprintf("it does not answer: stopped, or cut off; rank %d timed out waiting (%s)", c.rank,
				f.Cause)}
		c.limitWrites()
		c.send(message{Is: isCause, Failure: &f}) // if it wakes up it will report the same
	}
	return f
}

// awaitVerdict returns when the job's failure is known, or the coordinator has been
// silent for verdictWait.
func (c *Client) awaitVerdict() {
	tick := time.NewTicker(countStep)
	defer tick.Stop()
	for left := verdictWait / countStep; left > 0; {
		select {
		case <-c.down:
			return
		case <-c.probed:
			left = verdictWait / countStep
		case <-tick.C:
			left--
		}
	}
}

// bounded is a text as a message may have it.
func bounded(text string) string { return plaintext.Cut(text, maxText) }

// Failed yields the job's first failure, once.
func (c *Client) Failed() <-chan Failure { return c.failed }

// Leave sends leave and waits until the coordinator has received it, unless the job has
// failed.
func (c *Client) Leave(ctx context.Context) error {
	c.leaving()
	c.send(message{Is: isLeave})
	err := c.hungUp(ctx)
	c.current().Close()
	<-c.end
	return err
}

// hungUp waits for the coordinator to close the connection, which it does after leave,
// and returns the job's failure unless this rank has reported one itself.
func (c *Client) hungUp(ctx context.Context) error {
	select {
	case <-c.end:
	case <-c.down:
	case <-ctx.Done():
		return c.unheard()
	}
	return c.update()
}

// unheard is the failure of a rank whose leave is not answered.
func (c *Client) unheard() error {
	who := "it"
	if c.leader.Rank < 0 {
		who = c.leader.Name
	}
	return Failure{Rank: c.leader.Rank, Kind: fault.RankLost, Alone: c.leader.Rank >= 0,
		Cause: fmt.Sprintf("%s has not answered when rank %d left: stopped, or cut off", who, c.rank)}
}

// known returns the job's failure as far as this rank knows, nil if there is none.
func (c *Client) known() *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// update is the job's failure if this rank has not reported one itself.
func (c *Client) update() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil && !c.aborted {
		return *c.failure
	}
	return nil
}

// Follower is the Client of a rank whose coordinator is in rank 0.
type Follower struct{ *Client }

// leaveWait is how long a rank of a failed job waits for rank 0 to go first.
const leaveWait = 2 * time.Second

// Leave sends leave. After a failure rank 0 ends first: it reports to the user, and mpirun
// ends all ranks, and drops their output, as soon as one of them has ended with an
// error.
func (f Follower) Leave(ctx context.Context) error {
	f.leaving()
	var err error
	if f.disturbed() {
		err = f.update()
	} else {
		f.send(message{Is: isLeave})
		err = f.hungUp(ctx)
	}
	if f.disturbed() {
		select {
		case <-f.end:
		case <-time.After(leaveWait):
		case <-ctx.Done():
		}
	}
	f.current().Close()
	<-f.end
	return err
}

// disturbed reports whether this rank knows that the job has failed.
func (c *Client) disturbed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted || c.failure != nil
}

// LeadingClient is the client of rank 0 where that runs the coordinator. It stays until
// all others have left.
type LeadingClient struct {
	*Client
	Coordinator *Coordinator
	Shut        func() // stops what admits ranks to the coordinator; may be called twice
}

// HasLeft reports whether a rank has left.
func (l *LeadingClient) HasLeft(rank int) bool { return l.Coordinator.HasLeft(rank) }

// Leave waits until all ranks have left, or passes on the failure that ends the job, and
// closes the coordinator.
func (l *LeadingClient) Leave(ctx context.Context) error {
	err := l.Client.Leave(ctx)
	if err == nil {
		select {
		case <-l.Coordinator.Finished():
		case <-l.Coordinator.Failed():
		case <-ctx.Done():
			l.Coordinator.giveUp()
		}
		if f := l.Coordinator.Failure(); f != nil {
			err = *f // also if all have left since
		}
	}
	l.Close()
	return err
}

// lateWait is how long the coordinator of a job that has failed stays for ranks that have not come yet. Ranks of one
// launcher start within moments of each other.
const lateWait = 8 * time.Second

// AwaitLate waits, when the job has failed, until the ranks that have not come yet have come and heard why: they would
// look for rank 0 until their patience is over. It waits for lateWait, until ctx ends, or until the launcher dies. The
// signal that has ended the job, and ctx with it, does not end that: it may have come to this rank alone.
func (l *LeadingClient) AwaitLate(ctx context.Context) {
	l.Coordinator.hasCome(l.rank)
	l.mu.Lock()
	died := l.death.Died
	l.mu.Unlock()
	over := ctx.Done()
	if fault.KindOf(context.Cause(ctx)) == fault.Interrupt {
		over = nil
	}
	limit := time.NewTimer(lateWait)
	defer limit.Stop()
	select {
	case <-l.Coordinator.all:
	case <-died:
	case <-over:
	case <-limit.C:
		l.Coordinator.log.Warn("ranks that have not come do not hear of the failure", "ranks", ListRanks(l.Coordinator.Missing()))
	}
}

// Close closes the coordinator and stops admitting ranks to it.
func (l *LeadingClient) Close() {
	l.Coordinator.Close()
	l.Shut()
}
