package play

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/load"
	"perigee/internal/traffic/session"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

// routed is an exchange as expert parallelism has it: rank i sends some of its tokens to each rank, the same token to
// several of them, and each arrives in its own slot.
func routed(t testing.TB, seed uint64, ranks int, op nixl.Op) load.Exchange {
	t.Helper()
	const tokens, width = 7, 33
	x, err := load.NewExchange(load.Exchange{Name: "dispatch", Op: op, Pieces: func(from, to int) (list []load.Piece) {
		rng := rand.New(rand.NewPCG(seed, uint64(from)<<32|uint64(to)))
		for k, n := 0, rng.IntN(tokens+1); k < n; k++ {
			list = append(list, load.Piece{SendOff: int64(rng.IntN(tokens)) * width, RecvOff: int64(from*tokens+k) * width, Len: width})
		}
		return list
	}}, ranks)
	must.Do(t, err)
	return x
}

// Every piece of an exchange arrives in its place, in both directions, and one that does not is found.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, seed := rapid.IntRange(1, 5).Draw(rt, "ranks"), rapid.Uint64().Draw(rt, "seed")
		op := rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op")
		x := routed(t, seed, n, op)
		body := func(w *spmd.World, s *session.Session) error {
			plans, err := Prepare(s, []load.Load{routed(t, seed+1, n, op), x})
			if err != nil {
				return err
			}
			for _, p := range plans {
				if err := Verify(p); err != nil {
					return err
				}
			}
			return plans[1].Run(50, true)
		}
		mustRanks(t, n, body)
		if x.Matrix().Cells() == 0 {
			return
		}
		to := rapid.SampledFrom(x.Matrix().Receivers()).Draw(rt, "receiver")
		from := rapid.SampledFrom(x.Matrix().Column(to)).Draw(rt, "sender").Peer
		piece := rapid.SampledFrom(x.Pieces(from, to)).Draw(rt, "piece")
		d := &traffictest.Damaged{Lost: -9, Rank: to, Buffer: recvBuffer, Flips: map[int64]byte{session.Guard + piece.RecvOff + 5: 1}}
		errs := try(t, n, d, func(w *spmd.World, s *session.Session) error {
			p, err := New(s, x)
			if err != nil {
				return err
			}
			return Verify(p)
		})
		c, ok := errors.AsType[*Corruption](errs[to])
		if !ok || c.Sender != from || c.Receiver != to || c.WrongBytes != 1 || c.Want != wantedByte(piece.SendOff+5, 0, from) {
			rt.Fatalf("byte 5 of %+v from %d to %d: got %v", piece, from, to, errs[to])
		}
	})
}

func TestExchangeRefuses(t *testing.T) {
	for _, c := range []struct {
		pieces func(from, to int) []load.Piece
		want   string
	}{
		{func(from, to int) []load.Piece { return []load.Piece{{SendOff: 0, RecvOff: 0, Len: 0}} }, "lies in no buffer"},
		{func(from, to int) []load.Piece { return []load.Piece{{SendOff: -1, RecvOff: 0, Len: 4}} }, "lies in no buffer"},
		{func(from, to int) []load.Piece {
			return []load.Piece{{SendOff: 1 << 62, RecvOff: 1 << 62, Len: 1 << 62}}
		}, "lies in no buffer"},
		{func(from, to int) []load.Piece { return []load.Piece{{SendOff: 0, RecvOff: int64(3 * from), Len: 4}} }, "exchange: two pieces arrive at byte 3 of rank 0"},
		{func(from, to int) []load.Piece { return make([]load.Piece, load.MaxPieces+1) }, "1048577 pieces from rank 0 to rank 0"},
	} {
		_, err := load.NewExchange(load.Exchange{Pieces: c.pieces}, 2)
		must.Fail(t, err, fault.Input, c.want)
	}
}

// Plans on different lanes have their own buffers, and all bytes arrive when they are posted together.
func TestLanesAreApart(t *testing.T) {
	m := fromRows(t, []int64{0, 100_000, 5}, []int64{70, 0, 0}, []int64{0, 9, 0})
	mustRanks(t, 3, func(w *spmd.World, s *session.Session) error {
		plans, err := Prepare(s, []load.Load{
			load.Pattern{Matrix: m, Shards: 1}, load.Pattern{Matrix: m, Shards: 3, Lane: 2}, routed(t, 4, 3, nixl.Write),
		})
		if err != nil {
			return err
		}
		for _, p := range plans {
			if err := Verify(p); err != nil {
				return err
			}
		}
		for round := range 20 {
			for _, p := range plans {
				if err := p.Post(); err != nil {
					return err
				}
			}
			for _, p := range plans {
				if err := p.Wait(true); err != nil {
					return err
				}
			}
			for i, p := range plans {
				posts := len(p.Posts(nil, w.Rank(), p.Reserved.Lanes[0].Number))
				if times, _, ok := p.Last(); ok != (posts > 0) || len(times.Done) != posts {
					return fmt.Errorf("round %d: plan %d has %d stamps, want %d", round, i, len(times.Done), posts)
				}
			}
		}
		return nil
	})
}
