package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/version"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// Self holds what a rank knows of itself.
type Self struct {
	Rank, Size int
	Host       string        // in the launcher's words; "" is the host's own name
	Build      version.Build // that runs here; none: this program's
}

// Client is a rank's end of its connection to the coordinator. It is both the
// rank's Store and its Monitor.
type Client struct {
	self     Self
	leader   Leader
	conn     writer
	phases   phases
	launcher context.Context // see Heed

	ready   chan struct{}
	failed  chan Failure            // for the world; holds the first failure once
	down    chan struct{}           // closed with the first failure
	failure atomic.Pointer[Failure] // the first one; nil while there is none
	probed  chan struct{}           // capacity 1; holds a token after a roll call
	end     chan struct{}           // closed when the connection has ended
	left    atomic.Bool
	aborted atomic.Bool // by this rank

	mu    sync.Mutex
	cards map[int]chan []byte
}

// Leader describes the process at the other end, for the report of its death.
type Leader struct {
	Name string
	Rank int // -1 if it is none
	// Reports says that the leader reports a failure to the user. Then it ends first: mpirun ends all ranks, and drops
	// their output, as soon as one of them has ended with an error.
	Reports bool
	// GracePeriod is how long a rank waits before it reports the death.
	GracePeriod time.Duration
}

// NewClient takes over a connection to the coordinator and waits for the job's secret. leader
// describes that end.
func NewClient(ctx context.Context, conn net.Conn, self Self, leader Leader) (*Client, []byte, error) {
	self.Host, self.Build = cmp.Or(self.Host, host.Name()), cmp.Or(self.Build, version.Get())
	c := &Client{
		self: self, leader: leader, conn: writer{Conn: conn}, launcher: context.Background(),
		ready: make(chan struct{}), failed: make(chan Failure, 1), down: make(chan struct{}),
		probed: make(chan struct{}, 1), end: make(chan struct{}), cards: map[int]chan []byte{},
	}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	in := json.NewDecoder(conn)
	var first message
	err := in.Decode(&first)
	if stop() && err == nil && first.Is == isSecret {
		go c.listen(in)
		if f := c.otherBuild(first); f != nil {
			*f = c.Abort(*f)
			c.Leave(ctx)
			return nil, nil, *f
		}
		return c, first.Secret, nil
	}
	defer conn.Close()
	if errors.Is(err, wire.ErrForged) { // what this rank sends may arrive
		f := c.lostLeader(err)
		f.Phase = "start"
		c.conn.limit()
		c.conn.write(message{Is: isAbort, Failure: &f})
		return nil, nil, f
	}
	if ctx.Err() != nil {
		return nil, nil, GaveUp(ctx, "%s does not answer", leader.Name)
	}
	return nil, nil, fault.New(fault.Launch, "%s hung up at once", leader.Name).
		WithHint("is the job already ending, or is another program on that port?")
}

// otherBuild is the failure of a rank whose coordinator is of a build that cannot say so itself, nil if it is not. What
// perigee itself has started is this build.
func (c *Client) otherBuild(first message) *Failure {
	if first.Build != nil || c.leader.Rank < 0 {
		return nil
	}
	return &Failure{Rank: c.self.Rank, Host: c.self.Host, Kind: fault.Launch, Hint: oneBuild,
		Cause: fmt.Sprintf("it is perigee %s, and an earlier one is %s", c.self.Build, c.leader.Name)}
}

// listen takes what the coordinator sends until the connection ends.
func (c *Client) listen(in *json.Decoder) {
	defer close(c.end)
	ready := sync.OnceFunc(func() { close(c.ready) })
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			c.hungUp(err)
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
		case isNoted:
			c.phases.noted(c)
		case isProbe:
			c.conn.write(message{Is: isAlive})
			signal(c.probed)
		case isAbort:
			if m.Failure != nil {
				c.fail(*m.Failure)
			}
		}
	}
}

// hungUp reports the end of the connection, unless this rank is leaving.
func (c *Client) hungUp(err error) {
	if c.left.Load() {
		return
	}
	time.Sleep(c.leader.GracePeriod)
	f := c.lostLeader(c.conn.reason(err))
	if errors.Is(err, wire.ErrForged) { // the coordinator lives, and would call this process gone
		c.conn.write(message{Is: isCause, Failure: &f})
	}
	c.fail(f)
}

// alteredHint is for a connection that ended with wire.ErrForged.
const alteredHint = "something between the two alters what the ranks send, by mistake or on purpose"

// lostLeader is the failure of a job whose coordinator is gone, or, if nothing
// comes through to it any more, may be behind a failed network, or behind one that alters what passes.
func (c *Client) lostLeader(err error) Failure {
	f := Failure{Rank: c.leader.Rank, Kind: fault.RankLost, Alone: true}
	switch {
	case errors.Is(err, wire.ErrForged):
		f.Rank, f.Host = c.self.Rank, c.self.Host
		f.Cause = fmt.Sprintf("lost the connection to %s: %v", c.leader.Name, err)
		f.Hint = alteredHint
	case wire.IsSilence(err):
		f.Rank, f.Host = c.self.Rank, c.self.Host
		f.Cause = fmt.Sprintf("lost the connection to %s: this host (%s) is cut off, or that one is down",
			c.leader.Name, f.Host)
	case f.Rank >= 0:
		f.Cause = fmt.Sprintf("rank %d lost the connection to %s: it has died%s", c.self.Rank, c.leader.Name,
			orCut(c.conn.Conn))
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

// fail records the first failure.
func (c *Client) fail(f Failure) {
	if c.failure.CompareAndSwap(nil, &f) {
		c.failed <- f
		close(c.down)
	}
}

// Put sends hello, with this rank's card.
func (c *Client) Put(_ context.Context, card []byte) error {
	c.conn.write(message{Is: isHello, Size: c.self.Size, Host: c.self.Host, Card: card, Build: &c.self.Build})
	return nil
}

// wait waits for a channel, the job's failure, or the context.
func wait[T any](ctx context.Context, c *Client, ch <-chan T) (T, error) {
	var zero T
	select {
	case v := <-ch:
		return v, nil
	case <-c.down:
		return zero, *c.failure.Load()
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

// Fence waits for ready: until all ranks have said hello.
func (c *Client) Fence(ctx context.Context) error {
	_, err := wait(ctx, c, c.ready)
	if err != nil && ctx.Err() != nil {
		return GaveUp(ctx, "rank %d waited for the other ranks to start", c.self.Rank)
	}
	return err
}

// Get asks for the card of a rank, and waits for it.
func (c *Client) Get(ctx context.Context, rank int) ([]byte, error) {
	ch := make(chan []byte, 1)
	c.mu.Lock()
	c.cards[rank] = ch
	c.mu.Unlock()
	c.conn.write(message{Is: isGet, Rank: rank})
	return wait(ctx, c, ch)
}

// Phase sends what this rank does from now on, before it returns: it arrives even if this process is killed right
// after.
func (c *Client) Phase(name string) { c.phases.enter(c, bounded(name)) }

// bounded is a text as a message may have it.
func bounded(text string) string { return plaintext.Cut(text, maxText) }

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
	c.conn.limit()
	c.aborted.Store(true)
	f.Rank, f.Phase, f.Cause, f.Hint = c.self.Rank, bounded(f.Phase), bounded(f.Cause), bounded(f.Hint)
	// A network that has failed between two ranks may have cut this one off from the
	// coordinator, too. That failure says more.
	wire.SetUserTimeout(c.conn.Conn, silentFor)
	c.conn.write(message{Is: isAbort, Failure: &f})
	c.awaitVerdict()
	if first := c.failure.Load(); first != nil { // if only in the last moment
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
			Cause: fmt.Sprintf("it does not answer: stopped, or cut off; rank %d timed out waiting (%s)", c.self.Rank,
				f.Cause)}
		c.conn.limit()
		c.conn.write(message{Is: isCause, Failure: &f}) // if it wakes up it will report the same
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

// Failed yields the job's first failure, once.
func (c *Client) Failed() <-chan Failure { return c.failed }

// disturbed reports whether this rank knows that the job has failed.
func (c *Client) disturbed() bool { return c.aborted.Load() || c.failure.Load() != nil }

// leaveWait is how long a rank of a failed job waits for a leader that reports to go first.
const leaveWait = 2 * time.Second

// Leave sends leave and waits until the coordinator has received it. Where the job has failed it only waits for a
// leader that is to end first.
func (c *Client) Leave(ctx context.Context) error {
	c.left.Store(true) // the end of the connection is expected
	c.conn.limit()
	var err error
	if !c.disturbed() || !c.leader.Reports {
		c.conn.write(message{Is: isLeave})
		select {
		case <-c.end: // the coordinator has hung up
		case <-c.down:
		case <-ctx.Done():
			err = c.unheard()
		}
	}
	if c.disturbed() && c.leader.Reports {
		select {
		case <-c.end:
		case <-time.After(leaveWait):
		case <-ctx.Done():
		}
	}
	c.conn.Close()
	<-c.end
	if news := c.failure.Load(); err == nil && news != nil && !c.aborted.Load() {
		return *news
	}
	return err
}

// unheard is the failure of a rank whose leave is not answered.
func (c *Client) unheard() error {
	who := "it"
	if c.leader.Rank < 0 {
		who = c.leader.Name
	}
	return Failure{Rank: c.leader.Rank, Kind: fault.RankLost, Alone: c.leader.Rank >= 0,
		Cause: fmt.Sprintf("%s has not answered when rank %d left: stopped, or cut off", who, c.self.Rank)}
}

// Heed makes the death of the launcher a failure of the job. The launcher's context ends with the failure as its cause.
// release is called when nothing is to be heard of it any more. It must be called before the rank works.
func (c *Client) Heed(launcher context.Context, release func()) {
	c.launcher = launcher
	go func() {
		defer release()
		select {
		case <-launcher.Done():
			c.orphaned(context.Cause(launcher))
		case <-c.end:
		}
	}()
}

// orphaned reports the death of the launcher. The coordinator believes it without probing:
// the launcher may be killing ranks that it does not take with it, and their deaths are
// only a consequence.
func (c *Client) orphaned(cause error) {
	c.conn.limit()
	f := FailureOf(cause)
	f.Rank, f.Host, f.Hint, f.Alone = c.self.Rank, c.self.Host, "", true
	c.conn.write(message{Is: isCause, Failure: &f})
	c.awaitVerdict()
	c.fail(f) // unless the coordinator has said more
}

// outputGrace is how long a rank whose output has broken waits for the end of the
// launcher that took it: the kernel closes the pipes of a process before its end
// can be seen.
const outputGrace = 200 * time.Millisecond

// causeOf returns the launcher's death if that is why the output is lost.
func (c *Client) causeOf(f Failure) Failure {
	if f.Kind != fault.Output {
		return f
	}
	select {
	case <-c.launcher.Done():
		e := FailureOf(context.Cause(c.launcher))
		f.Kind, f.Cause, f.Hint = e.Kind, e.Cause, ""
	case <-time.After(outputGrace):
	}
	return f
}
