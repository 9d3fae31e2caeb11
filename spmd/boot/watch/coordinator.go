package watch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"perigee/internal/fault"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// explainWait is how long the coordinator waits for the launcher to say how a
// vanished process ended.
const explainWait = 500 * time.Millisecond

// flushTimeout bounds the last writes to ranks that no longer read.
const flushTimeout = time.Second

// announceLimit is how long the ranks may have to wait for the report to the user: the
// pipe that it is written to may be full.
const announceLimit = 300 * time.Millisecond

// Coordinator is the one place that knows whether all ranks are alive. It runs in the
// local launcher, or in rank 0 where there is no such process. It also holds the cards.
type Coordinator struct {
	size   int
	secret []byte
	// explain, if set, returns how a rank's process ended, waiting a little
	// for that to become known; "" if it did not end.
	explain  func(rank int, wait time.Duration) string
	announce func(Failure) // probed with the first failure, before any rank is told; may be nil
	absence  func() string // why ranks may be missing; may be nil
	complete func()        // probed, without waiting for it, when the last rank has come; may be nil
	log      *slog.Logger

	mu       sync.Mutex
	members  []*member
	present  int
	come     map[int]bool  // by rank, also those that have failed before they said hello; nil when all have
	all      chan struct{} // closed when all ranks have come, and what they are to hear is on its way
	left     int
	failure  *Failure
	failed   chan struct{} // closed with the first failure
	told     chan struct{} // closed when the ranks have been told of it
	finished chan struct{} // closed when all ranks have left
	probing  bool          // a failure is being looked into
	losing   bool          // a rank's connection has ended, which is looked into and will be the failure
	answers  chan struct{} // capacity 1; holds a token after a change among the silent
	conns    map[net.Conn]*messageWriter
	closed   bool
	serving  sync.WaitGroup
}

type member struct {
	rank  int
	host  string
	phase string
	card  []byte
	again bool // it has come by a second connection: what it said on the first may still arrive
	gone  bool // its end is expected: it has left, or has reported a failure
	left  bool // it is disconnecting, and reads no more messages
	// silent is whether it has not yet answered a probe.
	silent bool
	out    *messageWriter
}

// Announce sets what is called with the job's failure before any rank learns of it. It
// must be set before the first rank is served.
func (c *Coordinator) Announce(f func(Failure)) { c.announce = f }

// Log sets the coordinator's logger. It must be set before the first rank is served.
func (c *Coordinator) Log(l *slog.Logger) { c.log = l.With("part", "coordinator") }

// ExplainAbsence sets the function that says why ranks may be missing.
func (c *Coordinator) ExplainAbsence(f func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absence = f
}

// WhenComplete sets what is called when the last rank has joined. It must be set before
// that.
func (c *Coordinator) WhenComplete(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = f
}

// NewCoordinator makes a coordinator for size ranks. It sends secret to every rank that
// connects, so connections must be authenticated, or inherited from the launcher.
func NewCoordinator(size int, secret []byte, explain func(rank int, wait time.Duration) string) *Coordinator {
	return &Coordinator{
		size: size, secret: secret, explain: explain, log: slog.New(slog.DiscardHandler),
		members: make([]*member, size), come: map[int]bool{}, all: make(chan struct{}),
		failed: make(chan struct{}), told: make(chan struct{}), finished: make(chan struct{}),
		answers: make(chan struct{}, 1),
		conns:   map[net.Conn]*messageWriter{},
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
	if c.exists(f.Rank) {
		if m := c.members[f.Rank]; m != nil {
			f.Host, f.Phase = cmp.Or(f.Host, m.host), cmp.Or(f.Phase, m.phase)
		}
	}
	c.failure = &f
	close(c.failed)
	c.log.Error("job failed", "kind", f.Kind, "failure", f)
	if c.announce == nil || c.closed {
		c.tellLocked()
		return
	}
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		c.announce(f)
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
	defer close(c.told)
	c.log.Debug("sending the failure to all ranks")
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
	m := c.members[rank]
	if m != nil && m.gone {
		return
	}
	c.log.Warn("rank ended without leaving", "peer", rank, "reason", how)
	f := Failure{Rank: rank, Phase: "start", Kind: fault.RankLost, Cause: how}
	if m == nil {
		f.Host = host.Name() // only the launcher on this host knows ranks that never reported
	} else {
		f.Host, f.Phase = m.host, m.phase
	}
	c.failLocked(f)
}

// Serve serves one rank until its connection ends. It takes over conn, whose other end is
// known to be rank, and refused if it says that it is another. A negative rank is any. The channel is closed when all
// messages of the rank have been handled.
func (c *Coordinator) Serve(conn net.Conn, rank int) <-chan struct{} {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		close(done)
		return done
	}
	out := newMessageWriter(conn)
	c.conns[conn] = out
	c.serving.Go(func() {
		c.serve(conn, rank, out)
		close(done)
		conn.SetWriteDeadline(time.Now().Add(flushTimeout))
		out.close()
		conn.Close()
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
	})
	return done
}

// Dismiss hangs up on the ranks that have been told of the job's failure. They need not wait for rank 0 to go first, as
// they do elsewhere, where it lacks descriptors for those that have not been told.
func (c *Coordinator) Dismiss() {
	select {
	case <-c.told:
	default:
		return
	}
	told := map[*messageWriter]bool{}
	c.mu.Lock()
	for _, m := range c.members {
		if m != nil {
			told[m.out] = true
		}
	}
	conns := maps.Clone(c.conns)
	c.mu.Unlock()
	deadline := time.Now().Add(flushTimeout)
	for conn, out := range conns {
		if told[out] {
			conn.SetWriteDeadline(deadline)
			out.close()
			conn.Close()
		}
	}
}

// Close ends all connections after the queued messages have been sent. The ranks learn of
// a failure before that, and one that is being probed for is declared when Close returns.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	conns, failed := maps.Clone(c.conns), c.failure != nil
	c.mu.Unlock()
	if failed {
		<-c.told // the user comes first
	}
	deadline := time.Now().Add(flushTimeout)
	for conn := range conns {
		conn.SetWriteDeadline(deadline)
	}
	for conn, out := range conns {
		out.close()
		conn.Close()
	}
	c.serving.Wait()
}

func (c *Coordinator) serve(conn net.Conn, rank int, out *messageWriter) {
	out.send(message{Is: isSecret, Secret: c.secret})
	in := newMessageReader(conn)
	first, err := in.next()
	if errors.Is(err, wire.ErrForged) && c.exists(rank) { // the rank has proven who it is
		first = message{Is: isAbort, Failure: &Failure{
			Rank: rank, Phase: "start", Kind: fault.RankLost, Hint: alteredHint,
			Cause: fmt.Sprintf("lost the connection to its process at %s: %v", conn.RemoteAddr(), err),
		}}
	} else if err != nil {
		return // the rank is still missing; the ranks that wait for it report that
	}
	if first.Is == isAbort && first.Failure != nil && c.exists(first.Failure.Rank) && isRank(rank, first.Failure.Rank) {
		out.send(message{Is: isAbort, Failure: c.failedEarly(*first.Failure)})
		c.hasCome(first.Failure.Rank)
		return
	}
	if first.Is != isHello {
		return
	}
	if first.Again && isRank(rank, first.Rank) && c.joined(first.Rank) {
		const how = "the network has closed its connection to the coordinator"
		c.Ended(first.Rank, how)
		out.send(message{Is: isAbort, Failure: c.failedEarly(Failure{Rank: first.Rank, Host: first.Host,
			Phase: "start", Kind: fault.RankLost, Cause: how})})
		return
	}
	if isRank(rank, first.Rank) && c.overtook(first) {
		return // the rank has given this connection up
	}
	m, err := c.enter(first, rank, out)
	if err != nil {
		out.send(message{Is: isAbort, Failure: &Failure{Rank: first.Rank, Host: first.Host, Phase: "start",
			Kind: fault.Launch, Cause: err.Error()}})
		return
	}
	c.hasCome(m.rank)
	for {
		n, err := in.next()
		if err != nil {
			c.lost(m, conn, err)
			return
		}
		if !c.handle(m, n) {
			return
		}
	}
}

// failedEarly takes the failure of a rank that could not say hello, and returns the
// answer. In a complete world it is one rank too many, and its failure is ignored.
func (c *Coordinator) failedEarly(f Failure) *Failure {
	c.mu.Lock()
	if c.present < c.size {
		c.failLocked(f)
	}
	first := c.failure
	c.mu.Unlock()
	if first == nil {
		return &f
	}
	<-c.told // the rank ends when it gets the answer, and must not be the first to end
	return first
}

// hasCome notes that a rank has come.
func (c *Coordinator) hasCome(rank int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.come == nil {
		return
	}
	if c.come[rank] = true; len(c.come) == c.size {
		c.come = nil
		close(c.all)
	}
}

// isRank reports whether a process that is known to be rank, or any if that is negative, may be the one that it says.
func isRank(rank, says int) bool { return rank < 0 || rank == says }

// joined reports whether a rank has said hello.
func (c *Coordinator) joined(rank int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exists(rank) && c.members[rank] != nil
}

// overtook reports whether the same process has said the same since, on its second connection.
func (c *Coordinator) overtook(hello message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hello.Again || !c.exists(hello.Rank) {
		return false
	}
	m := c.members[hello.Rank]
	return m != nil && m.again && m.host == hello.Host && bytes.Equal(m.card, hello.Card)
}

func (c *Coordinator) exists(rank int) bool { return rank >= 0 && rank < c.size }

// enter admits a rank and, when it is the last, sends ready to all. A rank that does not
// fit into the world is refused. While ranks are missing that ends the job, since this
// process is most likely one of them.
func (c *Coordinator) enter(hello message, rank int, out *messageWriter) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkHello(hello, rank); err != nil {
		c.log.Warn("refused a rank", "reason", err)
		if c.present < c.size {
			c.failLocked(Failure{Rank: -1, Kind: fault.Launch, Cause: err.Error(),
				Hint: "give each process its own rank, and all of them the same size"})
		}
		return nil, err
	}
	m := &member{rank: hello.Rank, host: hello.Host, phase: "start", card: hello.Card, out: out,
		again: hello.Again}
	c.members[hello.Rank] = m
	c.present++
	c.log.Debug("rank joined", "peer", m.rank, "peer_host", m.host, "present", c.present, "size", c.size)
	if c.failure != nil {
		select {
		case <-c.told:
			out.send(message{Is: isAbort, Failure: c.failure})
		default: // it will be told with the others
		}
		return m, nil
	}
	if c.present == c.size {
		c.log.Info("all ranks joined", "size", c.size)
		if c.complete != nil {
			go c.complete()
		}
		for _, m := range c.members {
			m.out.send(message{Is: isReady})
		}
	}
	return m, nil
}

func (c *Coordinator) checkHello(hello message, rank int) error {
	if !isRank(rank, hello.Rank) {
		return fmt.Errorf("a process on %s has connected as rank %d, and says that it is rank %d", hello.Host, rank,
			hello.Rank)
	}
	if hello.Size != c.size {
		return fmt.Errorf("rank %d on %s was told of %d ranks, the coordinator of the job of %d", hello.Rank,
			hello.Host, hello.Size, c.size)
	}
	if !c.exists(hello.Rank) {
		return fmt.Errorf("rank %d on %s does not exist in a world of %d", hello.Rank, hello.Host, c.size)
	}
	if m := c.members[hello.Rank]; m != nil {
		return fmt.Errorf("two processes have rank %d, one on %s and one on %s", hello.Rank, m.host, hello.Host)
	}
	return nil
}

func (c *Coordinator) handle(m *member, n message) (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n.Is {
	case isGet:
		if c.exists(n.Rank) && c.members[n.Rank] != nil {
			m.out.send(message{Is: isCard, Rank: n.Rank, Card: c.members[n.Rank].card})
		}
	case isPhase:
		if m.phase = n.Phase; n.Answer {
			m.out.send(message{Is: isNoted})
		}
	case isAbort:
		m.gone = true
		signal(c.answers)
		if n.Failure != nil {
			f := *n.Failure
			f.Rank, f.Host = m.rank, m.host
			c.reportedLocked(f)
		}
		// It may stay until the coordinator goes.
	case isAlive:
		m.silent = false
		signal(c.answers)
	case isCause:
		if n.Failure != nil && c.exists(n.Failure.Rank) {
			c.log.Warn("rank reported the cause", "peer", m.rank, "failure", *n.Failure)
			c.failLocked(*n.Failure)
		}
	case isLeave:
		m.gone, m.left = true, true
		signal(c.answers)
		c.left++
		c.log.Debug("rank left", "peer", m.rank, "left", c.left, "size", c.size)
		if c.left == c.size {
			close(c.finished)
		}
		return false
	}
	return true
}

// reportedLocked takes a failure from the rank that has met it.
func (c *Coordinator) reportedLocked(f Failure) {
	c.log.Warn("rank reported a failure", "kind", f.Kind, "failure", f)
	if missing := c.missingLocked(); len(missing) > 0 { // it waited for these, and does not know it
		f.Cause = fmt.Sprintf("%d of %d ranks have not come: %s; %s", len(missing), c.size, ListRanks(missing), f.Cause)
		if c.absence != nil {
			f.Hint = cmp.Or(c.absence(), f.Hint)
		}
	}
	switch {
	case MayBeEcho(f.Kind):
		c.suspectLocked(f)
	case f.Kind == fault.Interrupt && c.losing:
		// The launcher ends the ranks that are left when one has died: torchrun within 100 ms.
	default:
		c.failLocked(f)
	}
}

// lost is called when the connection of a rank ended without leave.
func (c *Coordinator) lost(m *member, conn net.Conn, err error) {
	c.mu.Lock()
	expected := m.gone || c.closed || c.failure != nil
	c.losing = c.losing || !expected
	c.mu.Unlock()
	if expected {
		return
	}
	if errors.Is(err, io.EOF) {
		err = cmp.Or(m.out.failure(), err)
	}
	if c.explain != nil {
		if how := c.explain(m.rank, explainWait); how != "" {
			c.Ended(m.rank, how)
			return
		}
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		c.Ended(m.rank, "its process is gone"+orCut(conn))
	case wire.IsSilence(err):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.suspectLocked(Failure{
			Rank: m.rank, Host: m.host, Phase: m.phase, Kind: fault.RankLost, Cause: err.Error(),
			Hint: "has the network failed, or the host?",
		})
	default:
		c.Ended(m.rank, "lost the connection to its process: "+err.Error())
	}
}

// Missing returns the ranks that have not reported yet, ascending.
func (c *Coordinator) Missing() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missingLocked()
}

func (c *Coordinator) missingLocked() []int {
	var ranks []int
	for r, m := range c.members {
		if m == nil {
			ranks = append(ranks, r)
		}
	}
	return ranks
}
