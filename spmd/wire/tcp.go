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
	"time"
)

// TCP is an endpoint over TCP. A rank dials another when it first sends to it, unless that one has dialled it.
type TCP struct {
	rank     int
	size     int
	secret   []byte
	resolve  func(ctx context.Context, rank int) ([]string, error)
	linkLost func(rank int, err error)
	log      *slog.Logger
	// maxRebuffs ends a search for a rank (see redials).
	maxRebuffs int

	listener *Listener // written with mu held: the first rank may be let in before ListenTCP returns
	box      *mailbox
	pump     *pump
	sent     tally
	life     context.Context // ends with Close
	end      context.CancelFunc

	serving sync.WaitGroup // the links that this rank has dialled, and the watch over all

	mu     sync.Mutex
	peers  map[int]*peer
	links  map[*link]struct{}
	closed bool
}

// TCPConfig describes an endpoint to ListenTCP.
type TCPConfig struct {
	Rank, Size int
	Secret     []byte
	Listen     string // host:port to listen on, ":0" for any
	// Resolve returns a peer's addresses (host:port), best first. It is asked
	// once per peer.
	Resolve func(ctx context.Context, rank int) ([]string, error)
	// LinkLost, if set, is called when a link with a rank is of no more use though the rank has not closed it: nothing
	// comes through any more (IsSilence), something forged did (ErrForged), or this rank's messages are lost, and the
	// other one does not know it (ErrSevered).
	LinkLost func(rank int, err error)
	Log      *slog.Logger // nil logs nothing
}

// ListenTCP opens an endpoint.
func ListenTCP(cfg TCPConfig) (*TCP, error) {
	t := &TCP{
		rank: cfg.Rank, size: cfg.Size, secret: cfg.Secret, resolve: cfg.Resolve, linkLost: cfg.LinkLost,
		log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), maxRebuffs: maxRebuffs,
		box: newMailbox(), peers: map[int]*peer{}, links: map[*link]struct{}{},
	}
	var err error
	if t.pump, err = newPump(); err != nil {
		return nil, fmt.Errorf("watch the links of other ranks: %w", err)
	}
	t.life, t.end = context.WithCancel(context.Background())
	listener, err := Listen(ListenerConfig{
		Address: cfg.Listen, Secret: cfg.Secret, Self: cfg.Rank,
		Claim: t.claim, Unclaim: t.unclaim, Enter: t.receive, Log: t.log,
	})
	if err != nil {
		t.end()
		t.pump.close()
		return nil, fmt.Errorf("listen for other ranks on %s: %w", cfg.Listen, err)
	}
	t.mu.Lock()
	t.listener = listener
	t.mu.Unlock()
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

// receive serves an admitted connection until it ends.
func (t *TCP) receive(conn net.Conn, from int) {
	if from < 0 || from >= t.size {
		conn.Close()
		return
	}
	t.mu.Lock()
	l, err := t.adoptLocked(conn.(*Conn), from)
	t.mu.Unlock()
	if err != nil {
		t.unclaim(from)
		t.box.fail(from, err)
		return
	}
	t.serve(l, from)
}

// adoptLocked makes a connection a link with a rank.
func (t *TCP) adoptLocked(conn *Conn, with int) (*link, error) {
	if t.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	from := conn.RemoteAddr()
	l, err := t.pump.adopt(conn, t.makeRoomLocked, func(l *link) {
		if !l.dialed {
			t.log.Info("linked", "peer", with, "address", from)
		}
		t.welcome(l, with)
	},
		func(h Header, data []byte) { t.box.put(with, h, data) })
	if err != nil {
		return nil, err
	}
	t.links[l] = struct{}{}
	if l.dialed {
		t.serving.Go(func() { t.serve(l, with) })
	}
	return l, nil
}

// makeRoomLocked frees a descriptor that a stranger holds, for a link with a rank, and returns false if there is none.
func (t *TCP) makeRoomLocked() bool { return t.listener != nil && t.listener.evictOldest() }

// serve waits for the end of a link.
func (t *TCP) serve(l *link, with int) {
	used, err := l.wait()
	t.mu.Lock()
	delete(t.links, l)
	t.mu.Unlock()
	t.log.Debug("link ended", "peer", with, "used", used, "reason", err)
	if !used && !l.dialed {
		t.unclaim(with)
		if hungUp(err) {
			// It has lost a Race, or a rank has died, which the coordinator misses, or the network has closed it (see
			// severed.go).
			return
		}
	}
	t.box.fail(with, err)
	if t.linkLost != nil && (IsSilence(err) || errors.Is(err, ErrForged)) {
		t.linkLost(with, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchSeveredLocked(with)
}

// hungUp reports whether a link's error is what its end looks like when the other process
// closes it, with or without the answer to its greeting unread.
func hungUp(err error) bool { return errors.Is(err, errHungUp) || errors.Is(err, syscall.ECONNRESET) }

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

// Send writes a message to a rank, opening the link first if need be.
func (t *TCP) Send(ctx context.Context, to int, h Header, data []byte) error {
	if len(data) > maxMessage {
		return fmt.Errorf("message of %d bytes to rank %d: at most %d allowed", len(data), to, maxMessage)
	}
	if to == t.rank {
		t.box.put(to, h, slices.Clone(data))
		return nil
	}
	p, l, err := t.peer(to)
	if err != nil {
		return err
	}
	if l == nil {
		l, err = t.open(ctx, p, to)
	}
	if err == nil {
		err = l.write(ctx, h, data)
		t.sent.message(h, len(data))
	}
	if err != nil {
		_, says := errors.AsType[overdue](err)
		if cause := context.Cause(ctx); cause != nil && !says {
			return cause
		}
		return fmt.Errorf("link to rank %d: %w", to, err)
	}
	return nil
}

// dial connects to a peer at one of its addresses.
func (t *TCP) dial(ctx context.Context, to int) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	addresses, err := t.resolve(ctx, to)
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, errors.New("it published no address")
	}
	log, began := t.log.With("peer", to), time.Now()
	conn, err := Race(ctx, addresses, func(ctx context.Context, address string) (net.Conn, error) {
		log.Debug("dialling", "address", address)
		conn, err := Dial(ctx, address, t.secret, t.rank, to)
		for errors.Is(err, syscall.EMFILE) && t.listener.evictOldest() {
			conn, err = Dial(ctx, address, t.secret, t.rank, to)
		}
		if err != nil {
			log.Debug("no link", "address", address, "reason", err, "elapsed", time.Since(began))
		}
		return conn, err
	})
	if errors.Is(err, errCrossed) {
		return nil, err
	}
	if err != nil {
		level := slog.LevelWarn
		if _, again := errors.AsType[unanswered](err); again || ctx.Err() != nil { // it is tried again, or time is up
			level = slog.LevelDebug
		}
		log.Log(ctx, level, "no link at any address", "candidates", addresses, "reason", err)
		return nil, err
	}
	log.Info("linked", "address", conn.RemoteAddr(), "candidates", addresses, "elapsed", time.Since(began))
	return conn.(*Conn), nil
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
	return t.box.take(ctx, from, channel)
}

// Close ends all links, and the waits of those who still use them, and waits
// for the endpoint's goroutines.
func (t *TCP) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	links := slices.Collect(maps.Keys(t.links))
	t.mu.Unlock()
	flush(links)
	for _, l := range links {
		l.Close()
	}
	t.end()
	t.listener.Close()
	t.serving.Wait()
	t.pump.close()
	for r := range t.size {
		t.box.fail(r, net.ErrClosed)
	}
	return nil
}
