package wire

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// handshakeTimeout is how long a listener waits for the other half of a handshake.
	handshakeTimeout = 10 * time.Second
	// maxPending bounds the connections in their handshake, which takes milliseconds. Others wait in the kernel.
	maxPending = 256
	// crowdedTimeout is handshakeTimeout where others wait for room, or for a descriptor: strangers that say nothing
	// must not hold ranks up. It is shorter than what a rank 0 without descriptors takes for its end.
	crowdedTimeout = 1500 * time.Millisecond
	// loggedRejections are logged as warnings, so that those who knock all the time do not fill a disk.
	loggedRejections = 16
	// stuckPause is how long a listener that cannot accept connections waits before it tries again.
	stuckPause = 10 * time.Millisecond
	// loggedFailures is after how many failures in a row, 2 s, the log says so.
	loggedFailures = 200
)

// Listener accepts connections from peers that prove that they know the job's secret. Others get no information, and
// are closed within handshakeTimeout of their acceptance.
type Listener struct {
	cfg      ListenerConfig
	listener net.Listener
	pending  chan struct{}   // a token for each connection in its handshake
	life     context.Context // ends with Close
	end      context.CancelFunc
	done     sync.WaitGroup

	mu       sync.Mutex
	rejected int                    // how many were not admitted, for any reason
	refused  int                    // those of them whose proof was wrong
	last     string                 // where the last of these came from
	stuck    error                  // why the last connection could not be accepted; nil if it was
	greeted  map[net.Conn]time.Time // the connections in their handshake, and when that began
	unmoved  map[string]int         // how often dialers hung up at the greeting, by their host
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
	// dialer is refused: this rank is dialling it. Where it returns true Enter follows.
	Claim func(from int) bool
	// Enter runs in its own goroutine for each admitted connection, a *Conn, and owns it.
	Enter func(conn net.Conn, from int)
	// Stuck, if set, is called again and again while connections cannot be accepted for want of descriptors, say.
	// duration is how long that has lasted.
	Stuck func(err error, duration time.Duration)
	Log   *slog.Logger // nil logs nothing
}

// Listen listens for connections to a rank.
func Listen(cfg ListenerConfig) (*Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: limitSilence}
	lc.SetMultipathTCP(false) // its sockets have neither TCP_RTO_MAX_MS nor TCP_USER_TIMEOUT
	tcp, err := lc.Listen(context.Background(), networkOf(cfg.Address), cfg.Address)
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Log.Info("listening", "address", tcp.Addr())
	return startListener(tcp, cfg), nil
}

func startListener(listener net.Listener, cfg ListenerConfig) *Listener {
	l := &Listener{cfg: cfg, listener: listener, pending: make(chan struct{}, maxPending),
		greeted: map[net.Conn]time.Time{}}
	l.life, l.end = context.WithCancel(context.Background())
	l.done.Go(l.accept)
	return l
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

// manyHangUps is how often a host hangs up at the greeting before it counts as one of another version, whose ranks try
// again several times a second. What looks whether a port is open comes less often.
const manyHangUps = 10

// Strangers are the hosts whose dialers keep hanging up at the greeting, as a perigee does that greets otherwise.
func (l *Listener) Strangers() (hosts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for host, n := range l.unmoved {
		if n >= manyHangUps {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
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
	l.end()
	l.listener.Close()
	l.done.Wait()
}

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
			if failures++; failures == loggedFailures {
				l.cfg.Log.Warn("cannot accept connections", "reason", err)
			}
			if l.cfg.Stuck != nil {
				l.cfg.Stuck(err, time.Duration(failures)*stuckPause)
			}
			l.hurry()
			time.Sleep(stuckPause)
			continue
		}
		failures = 0
		select {
		case l.pending <- struct{}{}:
		default:
			l.hurry()
			l.pending <- struct{}{}
		}
		l.greet(conn)
		l.done.Go(func() { l.admit(conn) })
	}
}

// greet begins the time in which a connection must complete its handshake.
func (l *Listener) greet(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.greeted[conn] = time.Now()
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
}

// hurry leaves the connections in their handshake no more than crowdedTimeout, so that the oldest end first.
func (l *Listener) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn, began := range l.greeted {
		conn.SetDeadline(began.Add(crowdedTimeout))
	}
}

// part ends the time of a connection whose handshake is over.
func (l *Listener) part(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.greeted, conn)
	conn.SetDeadline(time.Time{})
}

// admit enters a connection, or closes it.
func (l *Listener) admit(conn net.Conn) {
	proven, from, err := l.meet(conn)
	l.part(conn)
	<-l.pending
	if err != nil {
		conn.Close()
		l.reject(conn.RemoteAddr(), from, err)
		return
	}
	l.cfg.Log.Debug("admitted", "peer", from, "address", conn.RemoteAddr())
	l.cfg.Enter(proven, from)
}

// meet runs the handshake. Until it has proven the secret the other side may only send a message of fixed length.
func (l *Listener) meet(conn net.Conn) (proven *Conn, from int, err error) {
	stop := context.AfterFunc(l.life, func() { conn.Close() })
	var challenge []byte
	if l.cfg.Challenge != nil {
		challenge = l.cfg.Challenge()
	}
	proven, from, err = admit(conn, challenge, l.cfg.Secret, l.cfg.Self, l.cfg.Claim)
	if !stop() {
		return nil, 0, net.ErrClosed
	}
	return proven, from, err
}

func (l *Listener) reject(address net.Addr, from int, reason error) {
	switch {
	case l.life.Err() != nil:
		return
	case errors.Is(reason, errCrossed):
		l.cfg.Log.Debug("no second link", "peer", from, "address", address)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rejected++
	if host, _, err := net.SplitHostPort(address.String()); err == nil && errors.Is(reason, errNoReply) {
		if l.unmoved == nil {
			l.unmoved = map[string]int{}
		}
		l.unmoved[host]++
	}
	if errors.Is(reason, ErrProof) {
		l.refused, l.last = l.refused+1, address.String()
	}
	if l.rejected <= loggedRejections {
		l.cfg.Log.Warn("rejected a connection", "address", address, "reason", reason, "rejected", l.rejected)
	}
}
