package experts

import (
	"errors"
	"fmt"

	"perigee/internal/fault"
	"perigee/internal/memory"
	"perigee/internal/moe"
	"perigee/internal/traffic/link"
	"perigee/nixl"
	"perigee/spmd"
)

// port is an agent with two halves of memory that all other ranks can reach.
type port struct {
	agent      nixl.Agent
	send, recv nixl.Buffer
	closed     bool
}

func openPort(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, send, recv int64) (*port, error) {
	cfg.Name, cfg.OneHost = fmt.Sprintf("perigee-experts-%d", w.Rank()), w.OneHost()
	agent, err := engine.NewAgent(cfg)
	if err != nil {
		return nil, err
	}
	p := &port{agent: agent}
	if err := p.open(w, send, recv); err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	return p, nil
}

func (p *port) open(w *spmd.World, send, recv int64) (err error) {
	if p.send, err = p.agent.Alloc(nixl.DRAM, send); err != nil {
		return err
	}
	if p.recv, err = p.agent.Alloc(nixl.DRAM, recv); err != nil {
		return err
	}
	card, err := p.agent.Card()
	if err != nil {
		return fault.New(fault.Engine, "describe the buffers: %w", err)
	}
	cards, err := w.All().AllGather(card)
	if err != nil {
		return err
	}
	var peers []int
	for peer, card := range cards {
		if peer == w.Rank() {
			continue
		}
		if err := p.agent.AddPeer(peer, card); err != nil {
			return fault.New(fault.Engine, "reach the buffers of rank %d: %w", peer, err)
		}
		peers = append(peers, peer)
	}
	return link.Connect(w, link.Way{Agent: p.agent, Peers: peers})
}

func (p *port) batch(transfers []nixl.Transfer) (nixl.Batch, error) {
	b, err := p.agent.NewBatch(transfers)
	if err != nil {
		return nil, fault.New(link.Kind(err), "prepare the exchange: %w", err)
	}
	return b, nil
}

// close releases everything; a second call does nothing.
func (p *port) close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	return p.agent.Close()
}

// Halves returns the registered memory of the rank that needs most of each half.
func Halves(s Spec) (send, recv int64) {
	l := moe.NewLayout(s.Selection, s.Placement)
	for rank := range s.Selection.Ranks {
		a := areasOf(s, l, rank)
		send, recv = max(send, a.send), max(recv, a.recv)
	}
	return send, recv
}

// checkMemory refuses, before anything is allocated, what the ranks of a host together have no room for.
func checkMemory(w *spmd.World, s Spec, l *moe.Layout) error {
	return checkRoom(w, func(rank int) int64 {
		registered, private := Need(s, l, rank)
		return registered + private
	})
}

// CheckRoom refuses at all ranks, before anything is allocated, so many bytes for each of the first ranks where a host
// has no room for them.
func CheckRoom(w *spmd.World, ranks int, bytes int64) error {
	return checkRoom(w, func(rank int) int64 {
		if rank < ranks {
			return bytes
		}
		return 0
	})
}

func checkRoom(w *spmd.World, need func(rank int) int64) error {
	host := w.Hosts()[w.HostOf(w.Rank())]
	if host.Ranks[0] == w.Rank() {
		var want int64
		for _, rank := range host.Ranks {
			want += need(rank)
		}
		if available, err := memory.Available("/"); err == nil && want > available {
			return fault.New(fault.Resource, "the %d ranks on %s need %.4g GB (%d bytes), and %.4g GB are available (%d bytes)",
				len(host.Ranks), host.Name, float64(want)/1e9, want, float64(available)/1e9, available).
				WithHint("fewer tokens, a smaller hidden dimension, or fewer ranks on this host")
		}
	}
	return w.All().Barrier() // no rank allocates before it is known to suffice
}
