package boot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/fault"
	"perigee/spmd/wire"
)

// EnvSecret is the job's secret where the launcher gives none.
const EnvSecret = "PERIGEE_SECRET"

func detectTorchrun(env Environ) (connect, error) {
	r, err := readTorchrun(env)
	if r == nil || err != nil {
		return nil, err
	}
	return r.join, nil
}

// readTorchrun reads the variables of torchrun, which many other launchers set
// too: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and LOCAL_RANK where known.
// Rank 0 listens on MASTER_PORT. It returns nil if they are not set.
func readTorchrun(env Environ) (*rendezvous, error) {
	v := readVariables(env, "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
	// A lone RANK or MASTER_PORT may mean anything. WORLD_SIZE means this, and
	// so do all the others together.
	if _, ok := v.values["WORLD_SIZE"]; !ok && len(v.lack) > 1 {
		return nil, nil
	}
	if err := v.incomplete("torchrun"); err != nil {
		return nil, err
	}
	rank, size, err := v.rankAndSize("RANK", "WORLD_SIZE")
	if err != nil {
		return nil, err
	}
	port, err := v.integer("MASTER_PORT", 1, 65535)
	if err != nil {
		return nil, err
	}
	localRank := -1
	if s, _ := env("LOCAL_RANK"); s != "" {
		if localRank, err = strconv.Atoi(s); err != nil || localRank < 0 || localRank >= size {
			return nil, fault.New(fault.Launch, "LOCAL_RANK=%s: want an integer from 0 to %d", s, size-1)
		}
	}
	r := &rendezvous{launcher: "torchrun", rank: rank, size: size, localRank: localRank,
		host: v.values["MASTER_ADDR"], port: port}
	// torchrun's agent may keep a store of its own on MASTER_PORT, and says so.
	// Then rank 0 takes another port that all ranks can work out.
	if s, _ := env("TORCHELASTIC_USE_AGENT_STORE"); strings.EqualFold(s, "true") {
		id, _ := env("TORCHELASTIC_RUN_ID")
		r.port = derivedPort(fmt.Sprint(id, "/", r.host, ":", port))
	}
	r.secret, r.notes = sharedSecret(env, fmt.Sprint("torchrun/", r.host, ":", r.port, "/", size))
	return r, nil
}

// derivedPort maps a name that all ranks know to a port below the ephemeral
// range of Linux.
func derivedPort(name string) int {
	h := sha256.Sum256([]byte(name))
	return 20000 + int(binary.LittleEndian.Uint32(h[:])%12000)
}

// sharedSecret takes the secret from the environment, or makes one out of
// what the ranks know of the job, which keeps strangers' mistakes out, but not
// an attacker.
func sharedSecret(env Environ, job string) (secret []byte, notes []string) {
	if s, _ := env(EnvSecret); s != "" {
		return []byte(s), nil
	}
	h := sha256.Sum256([]byte("perigee job " + job))
	return h[:], []string{EnvSecret + " is not set: links between ranks are not protected against an attacker on this network"}
}

// rendezvous is a world whose rank 0 listens at an address that all ranks know.
type rendezvous struct {
	launcher              string
	rank, size, localRank int
	host                  string
	port                  int
	secret                []byte
	notes                 []string
}

func (r rendezvous) join(ctx context.Context) (*Process, error) {
	p := &Process{
		Launcher: r.launcher, Rank: r.rank, Size: r.size, LocalRank: r.localRank,
		Secret: r.secret, Listen: ":0", Notes: r.notes,
	}
	// A world that meets at a loopback address is on one host, and shows
	// itself to no network.
	if ip := loopback(r.host); ip != "" {
		p.Listen, p.IPs = net.JoinHostPort(ip, "0"), []string{ip}
	}
	if r.rank == 0 {
		return r.lead(ctx, p)
	}
	return r.follow(ctx, p)
}

// lead runs the coordinator inside rank 0.
func (r rendezvous) lead(ctx context.Context, p *Process) (*Process, error) {
	c := NewCoordinator(r.size, nil, nil)
	address := net.JoinHostPort(loopback(r.host), strconv.Itoa(r.port))
	door, err := wire.OpenDoor(address, r.secret, 0, func(conn net.Conn, _ int) { c.Serve(conn) })
	if err != nil {
		return nil, fault.New(fault.Launch, "rank 0 cannot listen on port %d: %w", r.port, err).
			WithHint("choose another MASTER_PORT; the one given is in use")
	}
	here, there := net.Pipe()
	c.Serve(there)
	cl, _, err := dialCoordinator(ctx, here, 0, r.size, "rank 0")
	if err != nil {
		c.Close()
		door.Close()
		return nil, err
	}
	if p.IPs == nil {
		p.IPs = hostIPs(ownAddress(ctx, r.host))
	}
	leader := &leadingClient{client: cl, coordinator: c, door: door}
	p.Store, p.Monitor = leader, leader
	return p, nil
}

// follow connects to rank 0, which may start later than this rank.
func (r rendezvous) follow(ctx context.Context, p *Process) (*Process, error) {
	address := net.JoinHostPort(r.host, strconv.Itoa(r.port))
	var last error
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		conn, err := wire.Dial(ctx, address, r.secret, r.rank, 0)
		if err == nil {
			c, _, err := dialCoordinator(ctx, conn, r.rank, r.size, "rank 0, which coordinates the job,")
			if err != nil {
				return nil, err
			}
			if p.IPs == nil {
				local, _, _ := net.SplitHostPort(conn.LocalAddr().String())
				p.IPs = hostIPs(local)
			}
			p.Store, p.Monitor = c, c
			return p, nil
		}
		if errors.Is(err, wire.ErrProof) {
			return nil, fault.New(fault.Launch, "rank %d was turned away by rank 0 at %w", r.rank, err).
				WithHint("set the same %s for all ranks, or choose another MASTER_PORT if a different program listens there", EnvSecret)
		}
		if ctx.Err() == nil || last == nil {
			last = err // not the news that time is up, if something better is known
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, GaveUp(ctx, "rank %d cannot reach rank 0 at %s: %v", r.rank, address, last).
				WithHint("is rank 0 running, and is MASTER_ADDR its address?")
		}
	}
}

// leadingClient is rank 0's client, which stays until all others have left.
type leadingClient struct {
	*client
	coordinator *Coordinator
	door        *wire.Door
}

// Fence names the ranks that have not come when it gives up.
func (l *leadingClient) Fence(ctx context.Context) error {
	err := l.client.Fence(ctx)
	if err != nil && ctx.Err() != nil {
		if missing := l.coordinator.Missing(); len(missing) > 0 {
			return GaveUp(ctx, "%d of %d ranks have not come: %s", len(missing), l.coordinator.size, listRanks(missing)).
				WithHint("%s", l.whyMissing())
		}
	}
	return err
}

func (l *leadingClient) whyMissing() string {
	if n, last := l.door.Refused(); n > 0 {
		return fmt.Sprintf("%d connections were turned away because they did not know this job's secret, the last from %s; set the same %s for all ranks", n, last, EnvSecret)
	}
	return "start them too, or give less in WORLD_SIZE"
}

// Leave waits for the goodbyes of all ranks, or passes on the news that ends
// the job, and closes the coordinator.
func (l *leadingClient) Leave(ctx context.Context) error {
	err := l.client.Leave(ctx)
	if err == nil {
		select {
		case <-l.coordinator.Finished():
		case <-l.coordinator.Failed():
			err = *l.coordinator.Failure()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	l.coordinator.Close()
	l.door.Close()
	return err
}

// listRanks writes at most eight ranks.
func listRanks(ranks []int) string {
	const most = 8
	s := strings.Trim(fmt.Sprint(ranks[:min(len(ranks), most)]), "[]")
	if len(ranks) > most {
		s += " ..."
	}
	return s
}

// loopback returns the IP to listen on if host is a name or an address of the
// loopback interface, else "".
func loopback(host string) string {
	if strings.EqualFold(host, "localhost") {
		return "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return ip.String()
	}
	return ""
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
	own := hostIPs("")
	for _, ip := range ips {
		if slices.Contains(own, ip.String()) {
			return ip.String()
		}
	}
	return ""
}

// hostIPs returns this host's unicast addresses, first the preferred one, then
// IPv4 before IPv6. Other hosts cannot reach a loopback address, so it comes last.
func hostIPs(preferred string) []string {
	var v4, v6 []string
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			n, ok := a.(*net.IPNet)
			if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() || n.IP.String() == preferred {
				continue
			}
			if n.IP.To4() != nil {
				v4 = append(v4, n.IP.String())
			} else {
				v6 = append(v6, n.IP.String())
			}
		}
	}
	ips := slices.Concat(v4, v6)
	switch {
	case preferred == "":
	case loopback(preferred) != "":
		ips = append(ips, preferred)
	default:
		ips = append([]string{preferred}, ips...)
	}
	if len(ips) == 0 {
		ips = []string{"127.0.0.1"}
	}
	return ips
}
