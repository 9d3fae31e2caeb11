package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/version"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// announceLimit is how long the ranks may have to wait for the report to the user: the
// pipe that it is written to may be full.
const announceLimit = 300 * time.Millisecond

// Coordinator is the one place that knows whether all ranks are alive. It runs in the
// local launcher, or in rank 0 where there is no such process. It also holds the cards.
type Coordinator struct {
	// The functions, which may be nil, and Log must be set before the first rank is served. Announce is called with the
	// first failure, before any rank hears of it; Absence says why ranks may be missing; Complete is called, without
	// waiting for it, when the last rank has come.
	Announce func(Failure)
	Absence  func() string
	Complete func()
	Log      *slog.Logger

	// Launched says that Ended will be called for each process. The end of a connection means nothing then: the
	// launcher knows how the process has ended.
	Launched bool
	// Build is the one that runs here, Host where; NewCoordinator sets both.
	Build version.Build
	Host  string

	size   int
	secret []byte

	mu       sync.Mutex
	members  []*member     // by rank; nil until it has said hello, or that it has failed
	present  int           // how many there are
	all      chan struct{} // closed when all are there
	left     int
	failure  *Failure
	failed   chan struct{} // closed with the first failure
	told     bool          // the ranks have heard of it
	toldAll  chan struct{} // closed then
	finished chan struct{} // closed when all ranks have left
	probing  bool          // a failure is being looked into
	losing   bool          // nothing comes any more from a rank, which is looked into and will be the failure
	answers  chan struct{} // capacity 1; holds a token after a change among the silent
	outboxes map[*outbox]bool
	closed   bool
	serving  sync.WaitGroup
}

type member struct {
	rank   int
	host   string
	phase  string
	card   []byte
	here   bool // it is one of the coordinator's members
	gone   bool // its end is expected: it has left, or has reported a failure
	left   bool // it is disconnecting, and reads no more messages
	silent bool // it has not yet answered a probe
	out    *outbox
}

// NewCoordinator makes a coordinator for size ranks. It sends secret to every rank that
// connects, so connections must be authenticated, or inherited from the launcher.
func NewCoordinator(size int, secret []byte) *Coordinator {
	return &Coordinator{
		size: size, secret: secret, Build: version.Get(), Host: host.Name(), Log: slog.New(slog.DiscardHandler),
		members: make([]*member, size), all: make(chan struct{}),
		failed: make(chan struct{}), toldAll: make(chan struct{}), finished: make(chan struct{}),
		answers: make(chan struct{}, 1), outboxes: map[*outbox]bool{},
	}
}

// Failed is closed when the job has failed; Failure then says how.
func (c *Coordinator) Failed() <-chan struct{} { return c.failed }

// Finished is closed when every rank has left.
func (c *Coordinator) Finished() <-chan struct{} { return c.finished }

// HasLeft reports whether a rank has left.
func (c *Coordinator) HasLeft(rank int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[rank]
	return m != nil && m.left
}

// Failure returns the first failure, nil if there was none.
func (c *Coordinator) Failure() *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Storing reports whether rank 0 needs more time to write the result of the failed job.
func (c *Coordinator) Storing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[0]
	return m != nil && m.phase == Storing
}

// Missing returns the ranks that have not reported yet, ascending.
func (c *Coordinator) Missing() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missingLocked()
}

func (c *Coordinator) missingLocked() (ranks []int) {
	for r, m := range c.members {
		if m == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// Fail declares the job failed and sends the failure to all ranks. Only the first
// failure counts.
func (c *Coordinator) Fail(f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(f)
}

func (c *Coordinator) failLocked(f Failure) {
	if c.failure != nil {
		return
	}
	if c.exists(f.Rank) && c.members[f.Rank] != nil {
		m := c.members[f.Rank]
		f.Host, f.Phase = cmp.Or(f.Host, m.host), cmp.Or(f.Phase, m.phase)
	}
	c.failure = &f
	close(c.failed)
	c.Log.Error("job failed", "kind", f.Kind, "failure", f)
	if c.Announce == nil || c.closed {
		c.tellLocked()
		return
	}
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		c.Announce(f)
	}()
	c.serving.Go(func() {
		select {
		case <-announced:
		case <-time.After(announceLimit): // what it writes is not read
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tellLocked()
	})
}

// tellLocked sends the failure to all ranks, also to those that have reported one.
func (c *Coordinator) tellLocked() {
	c.told = true
	defer close(c.toldAll)
	c.Log.Debug("sending the failure to all ranks")
	for _, m := range c.members {
		if m != nil && !m.left {
			m.out.send(message{Is: isAbort, Failure: c.failure})
		}
	}
}

// giveUp declares those ranks lost that have not left, if there are any.
func (c *Coordinator) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	staying := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m == nil || m.left })
	if len(staying) == 0 {
		return
	}
	who := "it"
	if len(staying) > 1 {
		who = "ranks " + places(staying)
	}
	c.failLocked(Failure{Rank: staying[0].rank, Kind: fault.RankLost, Cause: who +
		" did not disconnect in time: stopped, or cut off"})
}

// Ended reports that a rank's process has ended. how is the cause of the failure if it
// had not left.
func (c *Coordinator) Ended(rank int, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := Failure{Rank: rank, Kind: fault.RankLost, Cause: how}
	switch m := c.members[rank]; {
	case m == nil:
		f.Host, f.Phase = host.Name(), "start" // only the launcher on this host knows ranks that never reported
	case m.gone:
		return
	}
	c.Log.Warn("rank ended without leaving", "peer", rank, "reason", how)
	c.failLocked(f)
}

// Serve serves one rank until its connection ends. It takes over conn, whose other end has proven to be rank. The
// channel is closed when all messages of the rank have been handled.
func (c *Coordinator) Serve(conn net.Conn, rank int) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		close(done)
		return done
	}
	out := newOutbox(conn)
	c.outboxes[out] = true
	c.serving.Go(out.run)
	c.serving.Go(func() {
		c.serve(conn, rank, out)
		close(done)
		out.end()
		c.mu.Lock()
		delete(c.outboxes, out)
		c.mu.Unlock()
	})
	return done
}

// Dismiss hangs up on the ranks that have heard of the job's failure. They need not wait for rank 0 to go first, as
// they do elsewhere, where it lacks descriptors for those that have not.
func (c *Coordinator) Dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != nil && c.told {
			m.out.end()
		}
	}
}

// Close ends all connections after the queued messages have been sent. The ranks learn of
// a failure before that, and one that is being probed for is declared when Close returns.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	failed := c.failure != nil
	c.mu.Unlock()
	if failed {
		<-c.toldAll // the user comes first
	}
	c.mu.Lock()
	for out := range c.outboxes {
		out.end()
	}
	c.mu.Unlock()
	c.serving.Wait()
}

func (c *Coordinator) serve(conn net.Conn, rank int, out *outbox) {
	out.send(message{Is: isSecret, Secret: c.secret, Build: &c.Build})
	m := &member{rank: rank, phase: "start", out: out}
	in := json.NewDecoder(conn)
	for {
		var n message
		if err := in.Decode(&n); err != nil {
			c.lost(m, err)
			return
		}
		if !c.handle(m, n) {
			return
		}
	}
}

func (c *Coordinator) exists(rank int) bool { return rank >= 0 && rank < c.size }

// handle takes a message, and reports whether more may follow.
func (c *Coordinator) handle(m *member, n message) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n.Is {
	case isHello:
		return c.enterLocked(m, n)
	case isAbort:
		return n.Failure != nil && c.abortedLocked(m, *n.Failure)
	case isCause: // also before the hello: the launcher may die as soon as the rank watches it
		if n.Failure != nil {
			c.Log.Warn("rank reported the cause", "peer", m.rank, "failure", *n.Failure)
			c.failLocked(*n.Failure)
		}
		return true
	}
	if !m.here {
		return false
	}
	switch n.Is {
	case isGet:
		if c.exists(n.Rank) && c.members[n.Rank] != nil {
			m.out.send(message{Is: isCard, Rank: n.Rank, Card: c.members[n.Rank].card})
		}
	case isPhase:
		if m.phase = n.Phase; n.Answer {
			m.out.send(message{Is: isNoted})
		}
	case isAlive:
		m.silent = false
		signal(c.answers)
	case isLeave:
		m.gone, m.left = true, true
		signal(c.answers)
		c.left++
		c.Log.Debug("rank left", "peer", m.rank, "left", c.left, "size", c.size)
		if c.left == c.size {
			close(c.finished)
		}
		return false
	}
	return true
}

// enterLocked admits a rank that has said hello and, when it is the last, sends ready to all. A rank that does not
// fit into the world is refused. While ranks are missing that ends the job, since this
// process is most likely one of them.
func (c *Coordinator) enterLocked(m *member, hello message) bool {
	m.host, m.card = hello.Host, hello.Card
	if err := c.checkLocked(m, hello.Size); err != nil {
		c.Log.Warn("refused a rank", "reason", err)
		f := Failure{Rank: -1, Kind: fault.Launch, Cause: err.Error(),
			Hint: "give each process its own rank, and all of them the same size"}
		if c.present < c.size {
			c.failLocked(f)
		}
		f.Rank, f.Host, f.Phase = m.rank, m.host, m.phase
		m.out.send(message{Is: isAbort, Failure: &f})
		return false
	}
	if err := c.checkBuild(m, hello.Build); err != nil {
		m.gone = true
		c.failLocked(Failure{Rank: -1, Kind: fault.Launch, Cause: err.Error(), Hint: oneBuild})
		c.addLocked(m)
		return true
	}
	c.Log.Debug("rank joined", "peer", m.rank, "peer_host", m.host, "present", c.present+1, "size", c.size)
	if c.addLocked(m); c.failure == nil && c.present == c.size {
		c.Log.Info("all ranks joined", "size", c.size)
		if c.Complete != nil {
			go c.Complete()
		}
		for _, m := range c.members {
			m.out.send(message{Is: isReady})
		}
	}
	return true
}

func (c *Coordinator) checkLocked(m *member, size int) error {
	if size != c.size {
		return fmt.Errorf("rank %d on %s was told of %d ranks, the coordinator of the job of %d", m.rank, m.host, size,
			c.size)
	}
	if !c.exists(m.rank) {
		return fmt.Errorf("rank %d on %s does not exist in a world of %d", m.rank, m.host, c.size)
	}
	if other := c.members[m.rank]; other != nil {
		return fmt.Errorf("two processes have rank %d, one on %s and one on %s", m.rank, other.host, m.host)
	}
	return nil
}

// checkBuild refuses a rank of another build: what it does need not fit to the others. What perigee itself has started
// is this build.
func (c *Coordinator) checkBuild(m *member, theirs *version.Build) error {
	if c.Launched || theirs != nil && theirs.Same(c.Build) {
		return nil
	}
	text := "of an earlier version"
	if theirs != nil {
		text = theirs.String()
	}
	return fmt.Errorf("rank %d on %s is perigee %s, rank 0 on %s perigee %s", m.rank, m.host, plaintext.Escape(text), c.Host,
		c.Build)
}

// oneBuild is the remedy for a job of several builds.
const oneBuild = "install one version of perigee on all hosts"

// addLocked makes a rank one of those that are here. If the others have heard of a failure it hears of it, too.
func (c *Coordinator) addLocked(m *member) {
	c.members[m.rank], m.here = m, true
	if c.told {
		m.out.send(message{Is: isAbort, Failure: c.failure})
	}
	if c.present++; c.present == c.size {
		close(c.all)
	}
}

// abortedLocked takes a failure from the rank that has met it, perhaps before it could say hello.
func (c *Coordinator) abortedLocked(m *member, f Failure) (more bool) {
	m.gone = true // it may stay until the coordinator goes
	signal(c.answers)
	switch {
	case m.here:
		f.Rank, f.Host = m.rank, m.host
		c.reportedLocked(f)
	case c.exists(m.rank) && c.members[m.rank] == nil:
		m.host = f.Host
		f.Rank = m.rank
		c.failLocked(f)
		c.addLocked(m)
	default: // it is one process too many, and hears its own failure
		m.out.send(message{Is: isAbort, Failure: &f})
		return false
	}
	return true
}

// reportedLocked takes a failure from a rank that has said hello.
func (c *Coordinator) reportedLocked(f Failure) {
	c.Log.Warn("rank reported a failure", "kind", f.Kind, "failure", f)
	if missing := c.missingLocked(); len(missing) > 0 { // it waited for these, and does not know it
		f.Cause = fmt.Sprintf("%d of %d ranks have not come: %s; %s", len(missing), c.size, ListRanks(missing), f.Cause)
		if c.Absence != nil {
			f.Hint = cmp.Or(c.Absence(), f.Hint)
		}
	}
	switch {
	case MayBeEcho(f.Kind):
		c.suspectLocked(f)
	case f.Kind == fault.Interrupt && c.losing: // launchers end the ranks that are left when one is lost
	default:
		c.failLocked(f)
	}
}

// lost is called when the connection of a rank has ended, and after leave, too.
func (c *Coordinator) lost(m *member, err error) {
	forged := errors.Is(err, wire.ErrForged)
	c.mu.Lock()
	expected := m.gone || c.closed || c.failure != nil || c.Launched && isEnd(err)
	c.mu.Unlock()
	if expected || !m.here && !forged { // that one is still missing; the ranks that wait for it report that
		return
	}
	err = m.out.reason(err)
	f := Failure{Rank: m.rank, Host: m.host, Phase: m.phase, Kind: fault.RankLost}
	c.Log.Warn("rank ended without leaving", "peer", m.rank, "reason", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case isEnd(err):
		f.Cause = "its process is gone" + orCut(m.out)
		c.failLocked(f)
	case wire.IsSilence(err):
		f.Cause, f.Hint = err.Error(), "has the network failed, or the host?"
		c.losing = true
		c.suspectLocked(f)
	case !m.here:
		f.Cause, f.Hint = fmt.Sprintf("lost the connection to its process at %s: %v", m.out.RemoteAddr(), err), alteredHint
		c.abortedLocked(m, f)
	default:
		f.Cause = "lost the connection to its process: " + err.Error()
		c.failLocked(f)
	}
}
