package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	handshakeTimeout = 10 * time.Second
	dialTimeout      = 10 * time.Second
	// maxStrangers is how many connections may wait that have not yet proved
	// anything. One more, and the one that has waited longest has to go: an
	// honest handshake takes milliseconds.
	maxStrangers = 1024
)

// A link notices within seven seconds that the other host is gone or cut off: the
// kernels probe each other on an idle link, and give up on bytes that nobody
// acknowledges. A host that is only busy still answers.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 4}

const unacknowledged = 6 * time.Second

func limitSilence(_, _ string, c syscall.RawConn) error { return giveUpAfter(c, unacknowledged) }

// giveUpAfter sets how long the kernel waits for the other one to acknowledge bytes, or to
// have room for them; 0 is for a quarter of an hour, and for ever.
func giveUpAfter(c syscall.RawConn, limit time.Duration) error {
	var err error
	if failed := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}); failed != nil {
		return failed
	}
	return err
}

// Hurry is for a connection that is as good as gone. If the other host does not
// acknowledge within limit what is written from now on, the connection ends. A
// process that is only slow, or stopped, has its kernel acknowledge, as long as
// there is room for what comes.
func Hurry(conn net.Conn, limit time.Duration) { limitSilenceOf(conn, limit) }

// bear is for a connection to somebody who may be stopped and has no room for more:
// Linux ends such a connection, too, if there is a limit, though the other host answers.
// Without one a cut is for the other end to notice.
func bear(conn net.Conn) { limitSilenceOf(conn, 0) }

func limitSilenceOf(conn net.Conn, limit time.Duration) {
	if c, ok := conn.(*net.TCPConn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			giveUpAfter(raw, limit) // if it cannot be set the connection ends later, or sooner
		}
	}
}

// Door accepts connections and lets in those who prove that they know the
// job's secret. Others learn nothing and hold up nobody.
type Door struct {
	cfg      DoorConfig
	listener net.Listener

	mu        sync.Mutex
	strangers []net.Conn // the longest waiting first
	turned    int        // who were not let in, for whatever reason
	refused   int        // those of them who tried to prove and failed
	last      string     // where the last of these came from
	closed    bool
	done      sync.WaitGroup
}

// DoorConfig describes a door to OpenDoor.
type DoorConfig struct {
	Address string // host:port to listen on
	Secret  []byte // of the job
	Self    int    // the rank for which connections are
	// Letter, if set, makes it a sealed door, for dialers that do not know the secret
	// yet: each is first sent a letter that only those can open who may know it.
	Letter func() []byte
	// Enter runs in a goroutine of its own for each admitted connection, and owns it.
	Enter func(conn net.Conn, from int)
	Log   *slog.Logger // nil logs nothing
}

// OpenDoor listens for connections to a rank.
func OpenDoor(cfg DoorConfig) (*Door, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: limitSilence}
	l, err := lc.Listen(context.Background(), "tcp", cfg.Address)
	if err != nil {
		return nil, err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Log.Info("listening", "address", l.Addr())
	d := &Door{cfg: cfg, listener: l}
	d.done.Go(d.accept)
	return d, nil
}

// Port is the one on which the door listens.
func (d *Door) Port() int { return d.listener.Addr().(*net.TCPAddr).Port }

// Refused returns how many tried to get in with another secret, and from where
// the last of them came.
func (d *Door) Refused() (n int, last string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused, d.last
}

// Close stops listening, turns the strangers away, and waits until enter has
// returned for everybody else.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	for _, c := range d.strangers {
		c.Close()
	}
	d.mu.Unlock()
	d.listener.Close()
	d.done.Wait()
}

func (d *Door) accept() {
	for {
		conn, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say
			d.evictOldest()
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if !d.wait(conn) {
			conn.Close()
			return
		}
		d.done.Go(func() { d.admit(conn) })
	}
}

func (d *Door) wait(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if len(d.strangers) >= maxStrangers {
		d.strangers[0].Close() // its goroutine takes it off the list
	}
	d.strangers = append(d.strangers, conn)
	return true
}

func (d *Door) evictOldest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strangers) > 0 {
		d.strangers[0].Close()
	}
}

func (d *Door) admit(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	from, err := d.meet(conn)
	d.mu.Lock()
	d.strangers = slices.DeleteFunc(d.strangers, func(c net.Conn) bool { return c == conn })
	closed := d.closed
	if errors.Is(err, ErrProof) {
		d.refused, d.last = d.refused+1, conn.RemoteAddr().String()
	}
	if err != nil && !closed {
		d.turned++
	}
	turned := d.turned
	d.mu.Unlock()
	if err != nil && !closed {
		d.logStranger(conn, err, turned)
	}
	if err != nil || closed || conn.SetDeadline(time.Time{}) != nil {
		conn.Close()
		return
	}
	d.cfg.Log.Debug("admitted", "from", from, "address", conn.RemoteAddr())
	d.cfg.Enter(conn, from)
}

// loggedStrangers are logged one by one. Of more only those whose number is a power
// of two: a siege must not fill a disk.
const loggedStrangers = 16

func (d *Door) logStranger(conn net.Conn, err error, number int) {
	if number > loggedStrangers && number&(number-1) != 0 {
		return
	}
	d.cfg.Log.Warn("turned away a stranger", "address", conn.RemoteAddr(), "reason", err, "so_far", number)
}

func (d *Door) meet(conn net.Conn) (from int, err error) {
	if d.cfg.Letter != nil {
		if err := sendLetter(conn, d.cfg.Letter()); err != nil {
			return 0, err
		}
	}
	return Admit(conn, d.cfg.Secret, d.cfg.Self)
}

// Dial connects rank from to rank to at a host:port and proves to each other
// that both belong to the job.
func Dial(ctx context.Context, address string, secret []byte, from, to int) (net.Conn, error) {
	conn, _, err := dial(ctx, address, from, to, func(net.Conn) ([]byte, error) { return secret, nil })
	return conn, err
}

// DialSealed is Dial for who does not know the secret yet, and returns it. open
// takes it out of the letter of a sealed door.
func DialSealed(ctx context.Context, address string, open func(letter []byte) ([]byte, error), from, to int) (net.Conn, []byte, error) {
	return dial(ctx, address, from, to, func(conn net.Conn) ([]byte, error) {
		letter, err := receiveLetter(conn)
		if err != nil {
			return nil, err
		}
		return open(letter)
	})
}

func dial(ctx context.Context, address string, from, to int, learn func(net.Conn) ([]byte, error)) (net.Conn, []byte, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: limitSilence}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	conn.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	secret, err := learn(conn)
	if err == nil {
		err = Greet(conn, secret, from, to)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return conn, secret, conn.SetDeadline(time.Time{})
}
