package boot

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/version"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// rendezvous is a world whose rank 0 runs the coordinator, at one of a few
// addresses that all ranks know.
type rendezvous struct {
	launcher              string
	rank, size, localRank int
	node                  string // this host's name as the launcher has it, or ""
	iface                 string // as in EnvIface
	oneHost               bool   // all ranks are on one host
	job                   string // what of the job's name all ranks know, or ""
	host                  string // rank 0's, or "" if only addresses are known

	listen []string    // host:port on which rank 0 tries to listen, in order
	meet   []string    // host:port at which the others look for rank 0, best first
	agents *agentStore // where rank 0 may leave other addresses, or nil
	secret []byte      // nil if it is sealed
	seal   sealer      // hands the secret to followers who may know it; nil if they know it
	hints  hints
	watch  Watcher

	siblings *siblings // nil if unknown
}

// hints are remedies in the words of the launcher.
type hints struct {
	occupied string // rank 0 cannot listen
	refused  string // a process answers that does not know the secret
	silent   string // rank 0 does not answer
	missing  string // ranks have not come
}

// sealer closes a secret into something that only the same user can open.
type sealer interface {
	// seal returns a letter with the secret in it, a new one from time to time.
	seal(ctx context.Context, secret []byte) (letter func() []byte, err error)
	open(ctx context.Context, letter []byte) (secret []byte, err error)
}

func (r rendezvous) join(ctx context.Context, watch Watcher) (*Process, error) {
	r.watch = watch
	var p *Process
	var err error
	if r.rank == 0 {
		p, _, err = r.lead(ctx)
	} else {
		absent := r.watchSiblings(ctx)
		p, err = r.follow(ctx)
		absent.stop()
		if err != nil && absent.has(0) {
			err = absent.explain(ctx, err)
		}
	}
	return p, r.asFailure(err)
}

// asFailure adds which rank could not join the others, and where.
func (r rendezvous) asFailure(err error) error {
	if err == nil {
		return nil
	}
	f := watch.FailureOf(err)
	if f.Rank < 0 {
		f.Rank, f.Host, f.Phase, f.Alone = r.rank, cmp.Or(r.node, host.Name()), "start", true
	}
	return f
}

// waitingLong is how long ranks wait for others before they report it.
const waitingLong = 5 * time.Second

// waiting reports to the user what this rank waits for, if that takes long: its
// launcher, or rank 0. Rank 0 and, if it is rank 0 that is missing, rank 1 speak
// for all. Process.Waiting returns which ranks rank 0 waits for as coordinator.
func (r rendezvous) waiting(why func() string) (stop func() bool) {
	if r.watch.Waiting == nil || r.rank > 1 {
		return func() bool { return true }
	}
	return time.AfterFunc(waitingLong, func() { r.watch.Waiting(why()) }).Stop
}

func (r rendezvous) self() watch.Self { return watch.Self{Rank: r.rank, Size: r.size, Host: r.node} }

// process describes this rank. preferred is an address of this host that has
// proved useful, or "".
func (r rendezvous) process(preferred string) (*Process, error) {
	ips, err := r.linkIPs(preferred)
	if err != nil {
		return nil, err
	}
	host, ips := listenFor(ips)
	return &Process{
		Launcher: r.launcher, Rank: r.rank, Size: r.size, LocalRank: r.localRank, Host: r.node,
		Secret: r.secret, Listen: net.JoinHostPort(host, "0"), IPs: ips,
	}, nil
}

// linkIPs are the addresses for links. A world on one host, or one that meets
// at a loopback address, needs no network.
func (r rendezvous) linkIPs(preferred string) ([]string, error) {
	if r.iface == "" {
		if ip := loopback(r.host); ip != "" {
			return []string{ip}, nil
		}
		if r.oneHost {
			return []string{localhost()}, nil
		}
	}
	return hostIPs(r.iface, preferred)
}

// openAnywhere makes rank 0 listen on a free port of the addresses for links,
// and returns where that is.
func (r rendezvous) openAnywhere(ctx context.Context) (*Process, *leadingClient, []string, error) {
	ips, err := r.linkIPs("")
	if err != nil {
		return nil, nil, nil, err
	}
	host, ips := listenFor(ips)
	r.listen = []string{net.JoinHostPort(host, "0")}
	p, leader, err := r.lead(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	port := strconv.Itoa(leader.listener.Port())
	var meet []string
	for _, ip := range ips {
		meet = append(meet, net.JoinHostPort(ip, port))
	}
	return p, leader, meet, nil
}

// lead runs the coordinator inside rank 0.
func (r rendezvous) lead(ctx context.Context) (*Process, *leadingClient, error) {
	preferred := ""
	if r.host != "" {
		preferred = ownAddress(ctx, r.host)
	}
	p, broken := r.process(preferred)
	spare, err := newSpare()
	if err != nil {
		return nil, nil, Limited(fault.Launch, "rank 0 cannot listen: %w", err)
	}
	c := watch.NewCoordinator(r.size, nil)
	lead := &leadingClient{seal: r.seal, size: r.size, spare: spare, ready: make(chan struct{})}
	lead.LeadingClient = &watch.LeadingClient{Coordinator: c, Shut: lead.shut}
	c.Announce, c.Log, c.Complete = r.watch.Failed, r.watch.log().With("part", "coordinator"), lead.shut
	c.Absence = func() string {
		missing, _ := r.siblings.look() // ranks that have given up wait for the verdict
		return cmp.Or(lead.stuck(), lead.refusals(), describe(missing), r.hints.missing)
	}
	here, there := net.Pipe()
	c.Serve(there, 0)
	lead.Client, _, err = watch.NewClient(ctx, here, r.self(), watch.Leader{Name: "rank 0"})
	if err == nil {
		lead.listener, err = r.openListener(ctx, lead)
	}
	if err != nil {
		c.Close()
		spare.release()
		return nil, nil, err
	}
	if r.agents != nil && preferred == "" && broken == nil {
		publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
		lead.unpublish = stop
		go r.agents.keepTrying(publishing, p.IPs, r.watch.log())
	}
	close(lead.ready)
	if broken != nil { // the others should hear of it
		f := lead.Abort(watch.FailureOf(r.asFailure(broken)))
		lead.AwaitLate(ctx)
		lead.Leave(ctx)
		return nil, nil, f
	}
	p.Store, p.Monitor, p.Waiting = lead, lead, lead.waiting
	return p, lead, nil
}

// openListener listens on the first address that is free.
func (r rendezvous) openListener(ctx context.Context, lead *leadingClient) (*wire.Listener, error) {
	c := lead.Coordinator
	cfg := wire.ListenerConfig{
		Log: c.Log,
		Enter: func(conn net.Conn, from int) {
			<-lead.ready
			c.Serve(conn, from)
		},
		Stuck: func(err error, duration time.Duration) {
			if c.Dismiss(); duration >= stuckLimit && errors.Is(err, syscall.EMFILE) {
				c.Fail(r.crowded(c.Missing(), err))
			}
		},
	}
	if r.seal != nil {
		var err error
		if cfg.Challenge, err = r.seal.seal(ctx, r.secret); err != nil {
			return nil, err
		}
	}
	var last error
	var ports []string
	for _, address := range r.listen {
		cfg.Address, cfg.Secret = address, r.meetingSecret(r.secret, address)
		listener, err := wire.Listen(cfg)
		if err == nil {
			return listener, nil
		}
		cfg.Log.Debug("cannot listen", "address", address, "reason", err)
		_, port, _ := net.SplitHostPort(address)
		last, ports = err, append(ports, port)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	failure := Limited(fault.Launch, "rank 0 cannot listen on port %s: %w", strings.Join(ports, ", "), last)
	if errors.Is(last, syscall.EADDRNOTAVAIL) {
		return nil, failure.WithHint("no interface of %s that is up has this address: give another one", host.Name())
	}
	return nil, failure.WithHint("%s", cmp.Or(failure.Hint, r.hints.occupied))
}

// stuckLimit is how long rank 0 may be out of descriptors while ranks are missing. Those that it has given to ranks it
// will not get back.
const stuckLimit = 2 * time.Second

// crowded is the failure of a rank 0 that has no descriptors for those that are missing.
func (r rendezvous) crowded(missing []int, err error) watch.Failure {
	return watch.Failure{
		Rank: 0, Host: cmp.Or(r.node, host.Name()), Phase: "start", Kind: fault.Resource,
		Cause: fmt.Sprintf("it has no descriptors for %d of %d ranks: %v", len(missing), r.size, err),
		Hint:  "raise the limit on open files (ulimit -n): rank 0 needs one for each rank at the start",
	}
}

// probePause is the longest pause between two attempts to find rank 0. A rank that is
// refused goes on for refusedFor where rank 0 may still appear at another address: the
// one that refused may be another program. At a single address it tries once more: a byte
// may have been altered on the way. A rank that cannot take part looks for rank 0 for hopelessFor, to report why. One
// without a local port goes on for portlessFor: connections that have ended give theirs back.
const (
	probePause  = 200 * time.Millisecond
	refusedFor  = 15 * time.Second
	hopelessFor = 3 * time.Second
	portlessFor = 10 * time.Second
)

// follow connects to rank 0, which may start later than this rank.
func (r rendezvous) follow(ctx context.Context) (*Process, error) {
	began, log := time.Now(), r.watch.log()
	log.Info("looking for rank 0", "candidates", r.meet)
	_, broken := r.process("") // rank 0 should hear of it, if it is there
	onePlace := len(r.meet) == 1 && r.agents == nil
	var last atomic.Pointer[error]
	logged, refused := "", error(nil)
	defer r.waiting(func() string {
		why := fmt.Sprintf("rank %d still looks for rank 0 at %s", r.rank, strings.Join(r.meet, ", "))
		if err := last.Load(); err != nil {
			why += ": " + (*err).Error()
		}
		return why
	})()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, probePause) {
		link, err := r.probe(ctx)
		if err == nil {
			log.Info("found rank 0", "address", link.RemoteAddr(), "from", link.LocalAddr(), "elapsed",
				time.Since(began))
			r.secret = link.secret
			p, err := r.enter(ctx, link.Conn)
			if err != nil {
				r.takeLeave(ctx)
			}
			return p, err
		}
		if errors.Is(err, wire.ErrOtherWire) {
			err = fmt.Errorf("%w; here, on %s, is perigee %s", err, cmp.Or(r.node, host.Name()), version.Get())
		}
		if !timeIsUp(ctx) || last.Load() == nil {
			last.Store(&err) // not the news that time is up, if something better is known
		}
		if logged != err.Error() {
			logged = err.Error()
			log.Debug("no rank 0 yet", "reason", err, "elapsed", time.Since(began))
		}
		turnedAway := errors.Is(err, wire.ErrProof) || errors.Is(err, wire.ErrNoChallenge) ||
			errors.Is(err, wire.ErrOtherWire)
		if refused != nil || turnedAway && !onePlace && time.Since(began) > refusedFor {
			err = cmp.Or(refused, err)
			if errors.Is(err, wire.ErrOtherWire) {
				return nil, fault.New(fault.Launch, "rank %d does not understand rank 0 at %w", r.rank, err).
					WithHint("%s", oneVersion)
			}
			return nil, fault.New(fault.Launch, "rank %d was turned away by rank 0 at %w", r.rank, err).WithHint("%s",
				r.hints.refused)
		}
		if turnedAway && onePlace {
			refused = err
		}
		if down := NoLoopback(err); down != nil {
			return nil, down
		}
		if fault.KindOf(err) == fault.Launch {
			return nil, err // it will not get better
		}
		if errors.Is(err, syscall.EMFILE) {
			broken = cmp.Or(broken, error(Limited(fault.Launch, "rank %d cannot dial rank 0: %w", r.rank, err)))
		}
		if broken != nil && time.Since(began) > hopelessFor {
			return nil, broken
		}
		if wire.LacksPorts(err) && time.Since(began) > portlessFor {
			return nil, Limited(fault.Launch, "rank %d cannot dial rank 0: %w", r.rank, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			r.takeLeave(ctx)
			hint := r.hints.silent
			dialling, _ := errors.AsType[*net.OpError](*last.Load())
			if connected := dialling == nil || dialling.Op != "dial"; connected && onePlace && r.hints.occupied != "" {
				hint = "who listens there does not answer as rank 0 does: is rank 0 stopped? Otherwise " + r.hints.occupied
			}
			return nil, watch.GaveUp(ctx, "rank %d cannot reach rank 0 at %s: %v", r.rank, strings.Join(r.meet, ", "),
				*last.Load()).
				WithHint("%s", hint)
		}
	}
}

// lastTry is how long a rank that is interrupted before it has met the others looks for rank 0, which may be on its way
// and would wait for it. Tests are more patient.
var lastTry = time.Second

// takeLeave reports to rank 0 that this rank does not come, if the end of ctx is an interrupt.
func (r rendezvous) takeLeave(ctx context.Context) {
	if fault.KindOf(context.Cause(ctx)) != fault.Interrupt {
		return
	}
	why := watch.GaveUp(ctx, "rank %d had not met the others", r.rank)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	for ctx.Err() == nil {
		if link, err := r.probe(ctx); err == nil {
			c, _, err := watch.NewClient(ctx, link.Conn, r.self(), watch.Leader{Name: "rank 0"})
			if err == nil {
				c.Abort(watch.FailureOf(r.asFailure(why)))
				c.Leave(ctx)
			}
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// timeIsUp reports whether ctx has ended, or is about to: a dialer that looks at its
// deadline may be faster.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// probeLimit bounds a try of all addresses: one that swallows everything must
// not keep a rank from trying the others again.
const probeLimit = 10 * time.Second

// entrance is a link to rank 0, and the secret with which it was opened.
type entrance struct {
	net.Conn
	secret []byte
}

// probe tries all addresses, and takes the first at which rank 0 lets it in.
func (r rendezvous) probe(ctx context.Context) (entrance, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return wire.Race(ctx, slices.Concat(r.meet, r.agents.addresses(ctx)), r.dial)
}

func (r rendezvous) dial(ctx context.Context, address string) (entrance, error) {
	if r.seal == nil {
		conn, err := wire.Dial(ctx, address, r.meetingSecret(r.secret, address), r.rank, 0)
		return entrance{conn, r.secret}, err
	}
	var secret []byte
	conn, _, err := wire.DialChallenged(ctx, address, func(letter []byte) ([]byte, error) {
		var err error
		secret, err = r.seal.open(ctx, letter)
		return r.meetingSecret(secret, address), err
	}, r.rank, 0)
	return entrance{conn, secret}, err
}

// meetingSecret is the MeetingSecret at an address. Where rank 0 may listen on one port of several, the port belongs to
// the proof: a stranger who has an earlier one could pass on to it what the ranks say, and end that when it likes.
func (r rendezvous) meetingSecret(secret []byte, address string) []byte {
	job := r.job
	if len(r.listen) > 1 {
		_, port, _ := net.SplitHostPort(address)
		job += " " + port
	}
	return MeetingSecret(secret, job)
}

// MeetingSecret returns the secret that a rank proves to the coordinator instead of the job's secret itself: a
// connection that was led to the port where rank 0 waits for links instead, or the other way round, gets nowhere. Nor
// does one that was led to another job, whose secret this rank may be able to read: it names the job.
func MeetingSecret(secret []byte, job string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("coordinator " + job))
	return h.Sum(nil)
}

// gracePeriods is how long a rank waits before it reports the death of rank 0, by launcher. hydra kills
// all ranks as soon as one has died, some of them a little later than others: a rank
// that reports the death of rank 0 at once would often name another victim.
var gracePeriods = map[string]time.Duration{"pmi1": 100 * time.Millisecond}

func (r rendezvous) enter(ctx context.Context, conn net.Conn) (*Process, error) {
	local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
	c, _, err := watch.NewClient(ctx, conn, r.self(), watch.Leader{
		Name:        "rank 0, the coordinator of the job, at " + conn.RemoteAddr().String(),
		Reports:     true,
		GracePeriod: gracePeriods[r.launcher],
	})
	if err != nil {
		return nil, err
	}
	p, err := r.process(local)
	if err != nil {
		c.Abort(watch.FailureOf(err)) // so that no other rank waits for this one
		c.Leave(ctx)
		return nil, err
	}
	p.Store, p.Monitor = c, c
	return p, nil
}

// leadingClient is rank 0's client, with the listener at which the others find it.
type leadingClient struct {
	*watch.LeadingClient
	ready    chan struct{} // closed when the rest of this is complete
	listener *wire.Listener
	seal     sealer
	size     int
	spare    *spare
	// unpublish ends the attempts to say where rank 0 is; nil if there are none.
	unpublish context.CancelFunc
}

// spare is a descriptor that rank 0 holds until all ranks have come. Where it fails for want of descriptors it lets the
// others in with this one, one after the other, so that they hear why.
type spare struct{ fd atomic.Int64 } // -1 when it has been released

func newSpare() (*spare, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	s := new(spare)
	s.fd.Store(int64(fd))
	return s, nil
}

func (s *spare) release() {
	if fd := s.fd.Swap(-1); fd >= 0 {
		unix.Close(int(fd))
	}
}

// AwaitLate is that of the embedded client.
func (l *leadingClient) AwaitLate(ctx context.Context) {
	l.spare.release()
	l.LeadingClient.AwaitLate(ctx)
}

// stuck says why ranks cannot be let in, "" if they can.
func (l *leadingClient) stuck() string {
	if err := l.listener.Stuck(); err != nil {
		return fmt.Sprintf("rank 0 cannot let ranks in: %v; raise the limit on open files (ulimit -n)", err)
	}
	return ""
}

func (l *leadingClient) waiting() string {
	// This rank is here, even if its coordinator has not got round to it.
	missing := slices.DeleteFunc(l.Coordinator.Missing(), func(rank int) bool { return rank == 0 })
	if len(missing) == 0 || l.Coordinator.Failure() != nil {
		return ""
	}
	text := fmt.Sprintf("waiting for %d of %d ranks: %s", len(missing), l.size, watch.ListRanks(missing))
	if why := cmp.Or(l.stuck(), l.refusals()); why != "" {
		text += "; " + why
	}
	return text
}

// refusals describes the connections that were rejected.
func (l *leadingClient) refusals() string {
	if hosts := l.listener.Strangers(); len(hosts) > 0 {
		return fmt.Sprintf("on %s another version of perigee knocks, or one without the same %s: here, on %s, is perigee %s; %s",
			strings.Join(hosts, ", "), EnvSecret, host.Name(), version.Get(), oneVersion)
	}
	n, last := l.listener.Refused()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d connections were turned away because they did not know this job's secret, or were altered on the way, the last from %s; set the same %s for all ranks", n, last, EnvSecret)
}

// oneVersion is the remedy for hosts whose perigees do not understand each other.
const oneVersion = "install one version of perigee on all hosts"

// shut admits no connections any more. The addresses are known to more than the ranks,
// and when all have joined no other connection is expected.
func (l *leadingClient) shut() {
	if l.unpublish != nil {
		l.unpublish()
	}
	l.listener.Close()
	l.spare.release()
	if c, ok := l.seal.(io.Closer); ok {
		c.Close() // the secret is in the ranks' memory by now
	}
}

// ownAddress returns that address of a host name that an interface of this host
// has, or "".
func ownAddress(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", name)
	if err != nil {
		return ""
	}
	own, err := hostIPs("", "")
	if err != nil {
		return ""
	}
	for _, ip := range ips {
		if slices.Contains(own, ip.String()) {
			return ip.String()
		}
	}
	return ""
}
