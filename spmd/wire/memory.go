package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Memory is a network inside one process, for tests and simulations.
type Memory struct {
	boxes []*mailbox
	cut   []atomic.Bool
}

// NewMemory makes a network of n ranks.
func NewMemory(n int) *Memory {
	m := &Memory{boxes: make([]*mailbox, n), cut: make([]atomic.Bool, n)}
	for i := range m.boxes {
		m.boxes[i] = newMailbox()
	}
	return m
}

// Endpoint returns the endpoint of a rank.
func (m *Memory) Endpoint(rank int) Endpoint { return &memoryEndpoint{net: m, rank: rank} }

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
	e.net.boxes[to].put(e.rank, h, slices.Clone(data))
	return nil
}

func (e *memoryEndpoint) Recv(ctx context.Context, from int, channel uint64) (Header, []byte, error) {
	return e.net.boxes[e.rank].take(ctx, from, channel)
}

func (e *memoryEndpoint) Addresses() []string { return nil }

func (e *memoryEndpoint) Close() error {
	e.net.Cut(e.rank)
	return nil
}
