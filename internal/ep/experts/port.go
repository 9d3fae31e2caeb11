package experts

import (
	"errors"

	"perigee/internal/ep/moe"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/nixl"
	"perigee/spmd"
)

// port is this rank's session with its two halves of memory and the prepared exchanges between them.
type port struct {
	space
	session *session.Session
	lane    *session.Bound
	agent   nixl.Agent

	batch func(list []load.Transfer) (requests, error)
}

// openPort reserves what the exchanges of all kinds and parities need, and prepares the batches of this rank.
func openPort(w *spmd.World, engine nixl.Engine, cfg nixl.AgentConfig, seed uint64, exchanges []load.Exchange) (*port,
	error) {
	s, err := session.Open(w, engine, cfg, seed)
	if err != nil {
		return nil, err
	}
	p := &port{session: s}
	if err := p.reserve(exchanges); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return p, nil
}

// reserve asks the session for memory and connections that hold all exchanges, and looks up where the two halves lie.
// The guards around the receive half stay outside of it.
func (p *port) reserve(exchanges []load.Exchange) error {
	loads := make([]load.Load, len(exchanges))
	for i, x := range exchanges {
		prepared, err := load.NewExchange(x, p.session.World().Size())
		if err != nil {
			return err
		}
		exchanges[i], loads[i] = prepared, prepared
	}
	reserved, err := p.session.Reserve(loads)
	if err != nil {
		return err
	}
	p.lane = reserved[0].Lanes[0]
	p.agent, p.batch = p.lane.Agent(), func(list []load.Transfer) (requests, error) { return p.lane.Batch(list) }
	send, _ := p.lane.Buffer(load.Place{Mem: exchanges[0].Mem, Side: load.Send})
	recv, guard := p.lane.Buffer(load.Place{Mem: exchanges[0].Mem, Side: load.Recv})
	p.space = newSpace(send, recv, guard)
	return nil
}

func (p *port) close() error { return p.session.Close() }

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

// checkRoom lets the lowest rank of each host add up what all ranks of the host need, since each alone would find
// room. Its error ends the barrier at all others.
func checkRoom(w *spmd.World, need func(rank int) int64) error {
	host := w.Hosts()[w.HostOf(w.Rank())]
	if w.LeadsHost() {
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
