package spmd

import (
	"context"
	"encoding/binary"
	"math"

	"perigee/internal/clock"
	"perigee/internal/fault"
)

// Offset ties a host's clock to rank 0's: time there + NS = time at rank 0, to
// within UncertaintyNS. Both are nanoseconds.
type Offset struct {
	NS            int64 `json:"offset_ns"`
	UncertaintyNS int64 `json:"uncertainty_ns"`
}

// Offsets returns the offset of each host, in the order of Hosts.
func (w *World) Offsets() []Offset { return w.clocks }

// ToCommon turns a clock.Now stamp of a rank into the time line of rank 0.
func (w *World) ToCommon(rank int, ns int64) int64 {
	return ns + w.clocks[w.hostOf[rank]].NS
}

// Uncertainty is how far, in nanoseconds, two stamps of different ranks of
// these may be off each other. Within one host it is 0.
func (w *World) Uncertainty(ranks []int) int64 {
	var most, second int64
	seen := map[int]bool{}
	for _, r := range ranks {
		h := w.hostOf[r]
		if seen[h] {
			continue
		}
		seen[h] = true
		u := w.clocks[h].UncertaintyNS
		if u > most {
			most, second = u, most
		} else {
			second = max(second, u)
		}
	}
	if len(seen) < 2 {
		return 0
	}
	return most + second
}

const pingRounds = 32

// syncClocks measures the offset of each host: its lowest rank asks rank 0 for
// the time over and over, and believes the answer that came back fastest. The
// offset is exact if both ways took equally long, and cannot be further off
// than half the round trip.
func (w *World) syncClocks() error {
	w.clocks = make([]Offset, len(w.hosts))
	for h := 1; h < len(w.hosts); h++ {
		leader := w.leader(h)
		if w.rank != 0 && w.rank != leader {
			continue
		}
		g, err := w.Group([]int{0, leader})
		if err != nil {
			return err
		}
		o, err := g.pingPong()
		if err != nil {
			return fault.New(fault.Launch, "compare clocks with %s: %w", w.hosts[h].Name, err)
		}
		w.clocks[h] = o
	}
	if len(w.hosts) == 1 {
		return nil
	}
	offsets, err := BroadcastValue(w.All(), 0, w.clocks)
	w.clocks = offsets
	return err
}

// pingPong returns at both members the offset of the second's clock.
func (g *Group) pingPong() (Offset, error) {
	return collective(g, opPing, func(ctx context.Context, seq uint32) (Offset, error) {
		best := Offset{UncertaintyNS: math.MaxInt64}
		buf := make([]byte, 8)
		for range pingRounds {
			if g.me == 0 {
				if _, err := g.recv(ctx, 1, opPing, seq); err != nil {
					return best, err
				}
				binary.LittleEndian.PutUint64(buf, uint64(clock.Now()))
				if err := g.send(ctx, 1, opPing, seq, buf); err != nil {
					return best, err
				}
				continue
			}
			before := clock.Now()
			if err := g.send(ctx, 0, opPing, seq, nil); err != nil {
				return best, err
			}
			answer, err := g.recv(ctx, 0, opPing, seq)
			if err != nil {
				return best, err
			}
			if len(answer) != 8 {
				return best, errTorn
			}
			after := clock.Now()
			if half := (after - before + 1) / 2; half < best.UncertaintyNS {
				there := int64(binary.LittleEndian.Uint64(answer))
				best = Offset{NS: there - (before+after)/2, UncertaintyNS: half}
			}
		}
		if g.me == 1 {
			binary.LittleEndian.PutUint64(buf, uint64(best.NS))
			return best, g.send(ctx, 0, opPing, seq, binary.LittleEndian.AppendUint64(buf, uint64(best.UncertaintyNS)))
		}
		answer, err := g.recv(ctx, 1, opPing, seq)
		if err != nil {
			return best, err
		}
		if len(answer) != 16 {
			return best, errTorn
		}
		return Offset{
			NS:            int64(binary.LittleEndian.Uint64(answer)),
			UncertaintyNS: int64(binary.LittleEndian.Uint64(answer[8:])),
		}, nil
	})
}
