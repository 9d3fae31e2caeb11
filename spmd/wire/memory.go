package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Memory is a network inside one process, for tests and simulations. What is sent
// is framed, and counted, as it would be on a link.
type Memory struct {
	boxes []*mailbox
	sent  []tally
	cut   []atomic.Bool
	crowd bool
}

// NewMemory makes a network of n ranks.
func NewMemory(n int) *Memory {
	m := &Memory{boxes: make([]*mailbox, n), sent: make([]tally, n), cut: make([]atomic.Bool, n)}
	for i := range m.boxes {
		m.boxes[i] = newMailbox()
	}
	return m
}

// NewCrowd makes a network of so many ranks that their messages must not be
// copied: what has been sent must not be changed. The end of one rank is no news
// to the others.
func NewCrowd(n int) *Memory {
	m := NewMemory(n)
	m.crowd = true
	return m
}

// Endpoint returns the endpoint of a rank.
func (m *Memory) Endpoint(rank int) Endpoint {
	return &memoryEndpoint{net: m, rank: rank, links: map[int]struct{}{}}
}

var errCut = errors.New("the rank is gone")

// Cut removes a rank from the network, as if its process had been killed.
func (m *Memory) Cut(rank int) {
	m.cut[rank].Store(true)
	for _, b := range m.boxes {
		b.fail(rank, errCut)
	}
}

type memoryEndpoint struct {
	net  *Memory
	rank int

	mu    sync.Mutex
	links map[int]struct{} // the ranks to which something was sent
}

func (e *memoryEndpoint) Send(ctx context.Context, to int, h Header, data []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if to < 0 || to >= len(e.net.boxes) {
		return fmt.Errorf("rank %d does not exist in a world of %d", to, len(e.net.boxes))
	}
	if e.net.cut[to].Load() || e.net.cut[e.rank].Load() {
		return fmt.Errorf("link to rank %d: %w", to, errCut)
	}
	if to != e.rank {
		e.count(to, h, len(data))
	}
	if !e.net.crowd {
		data = slices.Clone(data)
	}
	e.net.boxes[to].put(e.rank, h, data)
	return nil
}

// count counts a message as it would be written to a link.
func (e *memoryEndpoint) count(to int, h Header, payload int) {
	sent := &e.net.sent[e.rank]
	sent.message(h, payload)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, open := e.links[to]; !open {
		e.links[to] = struct{}{}
		sent.links.Add(1)
	}
}

func (e *memoryEndpoint) Recv(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	return e.net.boxes[e.rank].take(ctx, mailKey{from, channel})
}

func (e *memoryEndpoint) HandleControl(handle func(from int, h Header, data []byte)) {
	e.net.boxes[e.rank].handleControl(handle)
}

func (e *memoryEndpoint) Sent() Counts { return e.net.sent[e.rank].counts() }

func (e *memoryEndpoint) Close() error {
	if !e.net.crowd {
		e.net.Cut(e.rank)
	}
	return nil
}
