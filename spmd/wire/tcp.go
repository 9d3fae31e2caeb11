package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
)

// TCP is an endpoint over TCP. A rank dials another when it first sends to it, unless that one has dialled it.
type TCP struct {
	cfg      TCPConfig
	listener *Listener
	box      *mailbox
	pump     *pump
	sent     tally
	life     context.Context // ends with Close
	end      context.CancelFunc
	serving  sync.WaitGroup // the links that this rank has dialled, and the watch over all

	mu    sync.Mutex
	peers map[int]*peer
	links map[*link]bool // all that have not ended
}

// TCPConfig describes an endpoint to ListenTCP.
type TCPConfig struct {
	Rank, Size int
	Secret     []byte
	Listen     string // host:port to listen on, ":0" for any
	// Resolve returns a peer's addresses (host:port), best first. It is asked before each dial.
	Resolve func(ctx context.Context, rank int) ([]string, error)
	// LinkLost, if set, is called when a link with a rank is of no more use though the rank has not closed it: nothing
	// comes through any more (IsSilence), or something forged did (ErrForged).
	LinkLost func(rank int, err error)
	Log      *slog.Logger // nil logs nothing
}

// ListenTCP opens an endpoint.
func ListenTCP(cfg TCPConfig) (*TCP, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	t := &TCP{cfg: cfg, box: newMailbox(), peers: map[int]*peer{}, links: map[*link]bool{}}
	var err error
	if t.pump, err = newPump(); err != nil {
		return nil, fmt.Errorf("watch the links of other ranks: %w", err)
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.listener, err = Listen(ListenerConfig{
		Address: cfg.Listen, Secret: cfg.Secret, Self: cfg.Rank, Claim: t.claim, Enter: t.receive, Log: cfg.Log,
	})
	if err != nil {
		t.end()
		t.pump.close()
		return nil, fmt.Errorf("listen for other ranks on %s: %w", cfg.Listen, err)
	}
	t.serving.Go(t.watchAnswers)
	return t, nil
}

// HandleControl sets the function that gets the messages with the Op Control.
func (t *TCP) HandleControl(handle func(from int, h Header, data []byte)) {
	t.box.handleControl(handle)
}

// Port is the one on which the endpoint listens.
func (t *TCP) Port() int { return t.listener.Port() }

// Sent returns what has been written to others so far.
func (t *TCP) Sent() Counts { return t.sent.counts() }

// adoptLocked makes a connection the link with a rank. The connection itself is closed.
func (t *TCP) adoptLocked(conn *Conn, with int) (*link, error) {
	if t.life.Err() != nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	l, err := t.pump.adopt(conn, func(h Header, data []byte) { t.box.put(with, h, data) })
	if err != nil {
		return nil, err
	}
	t.links[l] = true
	return l, nil
}

// serve waits for the end of a link.
func (t *TCP) serve(l *link, with int) {
	<-l.ended
	t.mu.Lock()
	delete(t.links, l)
	t.mu.Unlock()
	t.cfg.Log.Debug("link ended", "peer", with, "reason", l.err)
	t.lose(with, l.err)
}

// lose fails the receivers of a rank, and reports the end of the link unless the rank itself has closed it.
func (t *TCP) lose(with int, err error) {
	t.box.fail(with, err)
	if t.cfg.LinkLost != nil && (IsSilence(err) || errors.Is(err, ErrForged)) {
		t.cfg.LinkLost(with, err)
	}
}

// IsSilence reports whether a link's error means that nothing comes through any
// more. A process that ends, however it does, has its kernel say so.
func IsSilence(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}

// LacksLoopback reports whether a rank was dialled through a loopback interface that is down, as that of a new network
// namespace is, and at no other address. IsSilence may be true for such an error as well, though no network has failed.
func LacksLoopback(err error) bool {
	all, ok := errors.AsType[attempts](err)
	if !ok {
		all = attempts{err}
	}
	return !slices.ContainsFunc(all, func(err error) bool { return !lacksLoopback(err) })
}

// lacksLoopback is LacksLoopback for one address.
func lacksLoopback(err error) bool {
	dialling, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return false
	}
	to, ok := dialling.Addr.(*net.TCPAddr)
	if !ok || !to.IP.IsLoopback() {
		return false
	}
	// Where the interface has kept its address what is sent is only swallowed.
	return errors.Is(err, syscall.ENETUNREACH) || !loopbackIsUp()
}

func loopbackIsUp() bool {
	all, err := net.Interfaces()
	const up = net.FlagLoopback | net.FlagUp
	return err != nil || slices.ContainsFunc(all, func(i net.Interface) bool { return i.Flags&up == up })
}

// LacksPorts reports whether this host had no local port left for a connection, or to listen on any. The kernel has the
// same error for an address of IPv6 to which it has no address to come from.
func LacksPorts(err error) bool {
	if all, ok := errors.AsType[attempts](err); ok {
		return slices.ContainsFunc(all, LacksPorts)
	}
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return false
	}
	at, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	return op.Op == "dial" && at.IP.To4() != nil && errors.Is(err, syscall.EADDRNOTAVAIL) ||
		op.Op == "listen" && at.Port == 0 && errors.Is(err, syscall.EADDRINUSE)
}

// Send writes a message to a rank, opening the link first if need be.
func (t *TCP) Send(ctx context.Context, to int, h Header, data []byte) error {
	if len(data) > maxMessage {
		return fmt.Errorf("message of %d bytes to rank %d: at most %d allowed", len(data), to, maxMessage)
	}
	if to == t.cfg.Rank {
		t.box.put(to, h, slices.Clone(data))
		return nil
	}
	l, err := t.linkTo(ctx, to)
	if err != nil {
		return err
	}
	t.sent.message(h, len(data))
	if err = l.write(ctx, h, data); err != nil {
		return cmp.Or(context.Cause(ctx), fmt.Errorf("link to rank %d: %w", to, err))
	}
	return nil
}

// Recv returns the next message of a rank on a channel.
func (t *TCP) Recv(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	k := mailKey{from, channel}
	next, ok := t.box.tryTake(k)
	if ok {
		return next.header, next.data, nil
	}
	if l := t.linkFrom(from); l != nil {
		l.waiting.Add(1)
		defer l.waiting.Add(-1)
		l.lookFor(func() bool {
			next, ok = t.box.tryTake(k)
			return ok
		})
		if ok {
			return next.header, next.data, nil
		}
	}
	return t.box.take(ctx, k)
}

// Close ends all links, and the waits of those who still use them, and waits
// for the endpoint's goroutines.
func (t *TCP) Close() error {
	t.mu.Lock()
	t.end()
	links := slices.Collect(maps.Keys(t.links))
	t.mu.Unlock()
	flush(links)
	for _, l := range links {
		l.Close()
	}
	t.listener.Close()
	t.serving.Wait()
	t.pump.close()
	for r := range t.cfg.Size {
		t.box.fail(r, net.ErrClosed)
	}
	return nil
}
