package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	handshakeTimeout = 10 * time.Second
	dialTimeout      = 10 * time.Second
	// maxPending bounds the connections that are still in their handshake. One more
	// closes the oldest of them, since an honest handshake takes milliseconds.
	maxPending = 1024
)

// pendingBound is maxPending, or a quarter of the descriptors that the process may have if that is less: rank 0 has two
// listeners, and needs some itself. A listener that has run out of them lets in one connection at a time, and an honest
// one behind thousands would wait for long.
func pendingBound(descriptors uint64) int { return int(max(1, min(maxPending, descriptors/4))) }

// A link notices within seven seconds that the other host is gone or cut off: the
// kernels probe each other on an idle link, and give up on bytes that are not
// acknowledged. A host that is only busy still answers.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 4}

const userTimeout = 6 * time.Second

// repeatPause is the longest pause between two repeats of what is not acknowledged, the least that Linux can be told.
// Without it the pauses double: the repeat after 3 s is the last before 6.2 s, when a link counts as cut off, though
// the network may be back since long before.
const repeatPause = time.Second

func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	if err := c.Control(func(fd uintptr) {
		// Linux before 6.15 does not know it.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS, int(repeatPause.Milliseconds()))
	}); err != nil {
		return err
	}
	return setUserTimeout(c, userTimeout)
}

// setUserTimeout bounds the time that sent bytes may stay unacknowledged, or that the peer
// may have no room for them. 0 means the kernel's default: about a quarter of an hour for
// the first, no bound for the second.
func setUserTimeout(c syscall.RawConn, limit time.Duration) error {
	var err error
	if failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}); failed != nil {
		return failed
	}
	return err
}

// SetUserTimeout ends a connection when the other host does not acknowledge bytes within
// limit. A process that is slow or stopped does not count as long as its kernel has room
// for more bytes.
func SetUserTimeout(conn net.Conn, limit time.Duration) {
	if c := tcp(conn); c != nil {
		if raw, err := c.SyscallConn(); err == nil {
			setUserTimeout(raw, limit) // without it the connection ends later, or sooner
		}
	}
}

// Listener accepts connections from peers that prove that they know the job's secret.
// Unauthenticated connections get no information and cannot block others.
type Listener struct {
	cfg      ListenerConfig
	listener net.Listener
	bound    int // of pending

	mu       sync.Mutex
	pending  []net.Conn // still in their handshake, the oldest first
	rejected int        // how many were not admitted, for any reason
	refused  int        // those of them whose proof was wrong
	last     string     // where the last of these came from
	stuck    error      // why the last connection could not be accepted; nil if it was
	closed   bool
	done     sync.WaitGroup
}

// ListenerConfig configures Listen.
type ListenerConfig struct {
	Address string // host:port to listen on
	Secret  []byte // of the job
	Self    int    // the rank that dialers must ask for
	// Challenge, if set, is for dialers that do not know the secret yet: each is first
	// sent a challenge from which only those can read the secret that may know it.
	Challenge func() []byte
	// Claim, if set, is asked in the handshake with a rank that has proven the secret. Where it returns false the
	// dialer is refused: this rank is dialling it. Unclaim is called for a claim that does not lead to Enter.
	Claim   func(from int) bool
	Unclaim func(from int)
	// Enter runs in its own goroutine for each admitted connection, a *Conn, and owns it.
	Enter func(conn net.Conn, from int)
	// Stuck, if set, is called again and again while connections cannot be accepted for want of descriptors, say.
	// duration is how long that has lasted.
	Stuck func(err error, duration time.Duration)
	Log   *slog.Logger // nil logs nothing
}

// Listen listens for connections to a rank.
func Listen(cfg ListenerConfig) (*Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: limitUnacknowledged}
	tcp, err := lc.Listen(context.Background(), networkOf(cfg.Address), cfg.Address)
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Log.Info("listening", "address", tcp.Addr())
	l := &Listener{cfg: cfg, listener: tcp, bound: maxPending}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		l.bound = pendingBound(limit.Cur)
	}
	l.done.Go(l.accept)
	return l, nil
}

// networkOf is the network on which to listen at an address. At all of a host's addresses Go listens for IPv4 alone
// where there is no 127.0.0.1, also where the host has no address of IPv4 at all.
func networkOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	own, err := net.InterfaceAddrs()
	if host != "" || err != nil || len(own) == 0 || slices.ContainsFunc(own, isIPv4) {
		return "tcp"
	}
	return "tcp6"
}

func isIPv4(a net.Addr) bool {
	n, ok := a.(*net.IPNet)
	return !ok || n.IP.To4() != nil
}

// Port is the TCP port of the listener.
func (l *Listener) Port() int { return l.listener.Addr().(*net.TCPAddr).Port }

// Refused returns how many dialers did not know the secret, and the address of the last.
func (l *Listener) Refused() (n int, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused, l.last
}

// Stuck returns why connections cannot be accepted, nil if they can.
func (l *Listener) Stuck() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stuck
}

// Close stops listening, closes the connections that are still in their handshake, and
// waits until Enter has returned for all others.
func (l *Listener) Close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.pending {
		c.Close()
	}
	l.mu.Unlock()
	l.listener.Close()
	l.done.Wait()
}

// A listener that cannot accept connections tries again after stuckPause. After every stuckTries it closes one that is
// still in its handshake, which has had the time of an honest one.
const (
	stuckPause = 10 * time.Millisecond
	stuckTries = 10
)

func (l *Listener) accept() {
	for failures := 0; ; {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		l.mu.Lock()
		l.stuck = err
		l.mu.Unlock()
		if err != nil { // out of descriptors, say
			if failures++; failures%stuckTries == 0 {
				l.evictOldest()
			}
			if l.cfg.Stuck != nil {
				l.cfg.Stuck(err, time.Duration(failures)*stuckPause)
			}
			time.Sleep(stuckPause)
			continue
		}
		failures = 0
		if !l.wait(conn) {
			conn.Close()
			return
		}
		l.done.Go(func() { l.admit(conn) })
	}
}

func (l *Listener) wait(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if len(l.pending) >= l.bound {
		// Off the list at once: its goroutine may get round to it only after many more have come.
		l.pending[0].Close()
		l.pending = l.pending[1:]
	}
	l.pending = append(l.pending, conn)
	return true
}

// evictOldest closes the oldest connection that is still in its handshake, and returns false if there is none.
func (l *Listener) evictOldest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return false
	}
	l.pending[0].Close()
	l.pending = l.pending[1:]
	return true
}

// settle takes a connection off those that may be closed for others that come: it has failed, or proven itself.
func (l *Listener) settle(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.DeleteFunc(l.pending, func(c net.Conn) bool { return c == conn })
}

// admit enters a connection, or closes it.
func (l *Listener) admit(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	from, keys, claimed, err := l.meet(conn)
	crossed := errors.Is(err, errCrossed)
	l.settle(conn)
	l.mu.Lock()
	closed := l.closed
	if errors.Is(err, ErrProof) {
		l.refused, l.last = l.refused+1, conn.RemoteAddr().String()
	}
	if err != nil && !closed && !crossed {
		l.rejected++
	}
	rejected := l.rejected
	l.mu.Unlock()
	switch {
	case crossed:
		l.cfg.Log.Debug("no second link", "peer", from, "address", conn.RemoteAddr())
	case err != nil && !closed:
		l.logRejected(conn, err, rejected)
	}
	var proven *Conn
	if err == nil && !closed {
		proven, err = newConn(conn, keys, false)
	}
	if err != nil || closed || conn.SetDeadline(time.Time{}) != nil {
		conn.Close()
		if claimed {
			l.cfg.Unclaim(from)
		}
		return
	}
	l.cfg.Log.Debug("admitted", "peer", from, "address", conn.RemoteAddr())
	l.cfg.Enter(proven, from)
}

// loggedRejections are logged one by one; after that only those whose number is a power
// of two, so that a flood of connections does not fill a disk.
const loggedRejections = 16

func (l *Listener) logRejected(conn net.Conn, err error, number int) {
	if number > loggedRejections && number&(number-1) != 0 {
		return
	}
	l.cfg.Log.Warn("rejected a connection", "address", conn.RemoteAddr(), "reason", err, "rejected", number)
}

func (l *Listener) meet(conn net.Conn) (from int, keys linkKeys, claimed bool, err error) {
	if l.cfg.Challenge != nil {
		if err := sendChallenge(conn, l.cfg.Challenge()); err != nil {
			return 0, keys, false, err
		}
	}
	claim := func(dialer int) bool {
		l.settle(conn)
		if l.cfg.Claim == nil {
			return true
		}
		from, claimed = dialer, l.cfg.Claim(dialer)
		return claimed
	}
	dialer, keys, err := admit(conn, l.cfg.Secret, l.cfg.Self, claim)
	if !claimed {
		from = dialer
	}
	return from, keys, claimed, err
}

// Dial connects rank from to rank to at address (host:port). Both sides prove to each
// other that they know the secret. What is returned is a *Conn.
func Dial(ctx context.Context, address string, secret []byte, from, to int) (net.Conn, error) {
	conn, _, err := dial(ctx, address, from, to, func(net.Conn) ([]byte, error) { return secret, nil })
	return conn, err
}

// DialChallenged is Dial for a rank that does not know the secret yet: open reads it from
// the challenge of the listener. DialChallenged returns it.
func DialChallenged(
	ctx context.Context, address string, open func(challenge []byte) (secret []byte, err error), from, to int,
) (conn net.Conn, secret []byte, err error) {
	return dial(ctx, address, from, to, func(conn net.Conn) ([]byte, error) {
		challenge, err := receiveChallenge(conn)
		if err != nil {
			return nil, err
		}
		return open(challenge)
	})
}

func dial(
	ctx context.Context, address string, from, to int, learn func(net.Conn) ([]byte, error),
) (net.Conn, []byte, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: limitUnacknowledged}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	secret, err := learn(conn)
	var proven *Conn
	if err == nil {
		proven, err = greetAs(conn, secret, from, to)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
			errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded) {
			err = unanswered{err}
		}
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return proven, secret, conn.SetDeadline(time.Time{})
}

// unanswered is the error of a handshake that came to no answer. Among many strangers the listener closes honest
// connections, too, and a rank that is stopped does not answer until it goes on.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

func greetAs(conn net.Conn, secret []byte, from, to int) (*Conn, error) {
	keys, err := greet(conn, secret, from, to)
	if err != nil {
		return nil, err
	}
	return newConn(conn, keys, true)
}
