package spmd

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/host"
	"perigee/spmd/wire"
)

// Crowd is a world of thousands of ranks in one process, for simulations: its
// ranks run what those of any world run, but their messages go through memory, and
// what is the same for all of them they keep only once.
type Crowd struct {
	perHost int
	net     *wire.Memory
	shared  sharedValues
	mu      sync.Mutex
	meets   map[crowdKey]*crowdMeeting
}

// NewCrowd makes a world of n ranks, perHost of them on each simulated host.
func NewCrowd(n, perHost int) *Crowd {
	return &Crowd{
		perHost: perHost, net: wire.NewCrowd(n), meets: map[crowdKey]*crowdMeeting{},
		shared: sharedValues{kept: map[string]any{}},
	}
}

// Join is Join for a rank of the crowd. p needs no secret and no address.
func (c *Crowd) Join(ctx context.Context, p *boot.Process) (*World, error) {
	j := &joining{w: newWorld(p, Options{}), store: p.Store, base: &crowdBase{crowd: c, p: p, host: p.Rank / c.perHost}}
	return j.run(ctx, nil)
}

// crowdBase is the base of a rank of a crowd: memory of this process.
type crowdBase struct {
	crowd *Crowd
	p     *boot.Process
	host  int
}

func (b *crowdBase) open(j *joining) (card, error) {
	w, h, rank := j.w, b.host, b.p.Rank
	w.name = cmp.Or(b.p.Host, fmt.Sprintf("host%04d", h))
	w.end, w.shared = crowdEndpoint{b.crowd.net.Endpoint(rank), w, b.p.Store}, &b.crowd.shared
	// As long as the card of a real rank would be.
	return card{
		HostID: fmt.Sprintf("%016x", h), Host: w.name, CPUs: firstCPUs(b.crowd.perHost),
		PID: 1<<16 + rank, SegmentFD: 7, IPs: []string{fmt.Sprintf("10.%d.%d.1", h>>8, h&255)},
		Port: 32768 + rank*7919%28232,
	}, nil
}

func (b *crowdBase) share(j *joining) error {
	j.w.meeting = func(key uint64, parties, _ int) (meeting, error) {
		return crowdMember{b.crowd.meeting(crowdKey{b.host, key}, parties), j.w.ctx}, nil
	}
	return nil
}

// crowdEndpoint asks for addresses as TCP does: until all know each other, the
// receiver of every message must be looked up. In that time no rank sends to another twice.
type crowdEndpoint struct {
	wire.Endpoint
	w     *World
	store watch.Store
}

// Send looks up the receiver, if need be, and sends.
func (e crowdEndpoint) Send(ctx context.Context, to int, h wire.Header, data []byte) error {
	if e.w.roster == nil {
		if _, err := e.w.addressesOf(ctx, e.store, to); err != nil {
			return err
		}
	}
	return e.Endpoint.Send(ctx, to, h, data)
}

// sharedValues holds what all ranks of a crowd derive from the same data.
type sharedValues struct {
	mu   sync.Mutex
	kept map[string]any
}

// shareValue returns what derive gives, or, in a crowd, has given the first that asked
// for it by that name.
func shareValue[T any](c *sharedValues, name string, derive func() (T, error)) (T, error) {
	if c == nil {
		return derive()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.kept[name]; ok {
		return v.(T), nil
	}
	v, err := derive()
	if err == nil {
		c.kept[name] = v
	}
	return v, err
}

// crowdKey names a group of ranks of one simulated host.
type crowdKey struct {
	host  int
	group uint64
}

// crowdMeeting stands for shared memory: it costs no message either.
type crowdMeeting struct {
	parties int

	mu      sync.Mutex
	arrived int
	over    chan struct{} // closed when all have come
}

func (c *Crowd) meeting(key crowdKey, parties int) *crowdMeeting {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.meets[key]
	if m == nil {
		m = &crowdMeeting{parties: parties, over: make(chan struct{})}
		c.meets[key] = m
	}
	return m
}

// crowdMember is the meeting of one rank.
type crowdMember struct {
	*crowdMeeting
	job context.Context // ends when the job fails
}

// Wait returns when all parties have called it, or the job has failed.
func (m crowdMember) Wait(_ uint32, limit time.Duration) error {
	m.mu.Lock()
	over := m.over
	if m.arrived++; m.arrived == m.parties {
		m.arrived, m.over = 0, make(chan struct{})
		close(over)
	}
	m.mu.Unlock()
	var late <-chan time.Time
	if limit != 0 {
		late = time.After(limit)
	}
	select {
	case <-over:
		return nil
	case <-m.job.Done():
		return host.ErrAborted
	case <-late:
		return host.ErrTimeout
	}
}

// Max is Wait, since ranks of a simulation start nothing together.
func (m crowdMember) Max(call uint32, limit time.Duration, v [2]int64) ([2]int64, error) {
	return v, m.Wait(call, limit)
}

// Called returns 0: ranks do not disagree in a simulation.
func (crowdMember) Called() uint32 { return 0 }
