package traffic

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/traffictest"
	"perigee/nixl"
	"perigee/spmd"
)

const testSeed = 11

// sessions calls body at n ranks, each with a session, and returns their errors.
// No session closes before all ranks are through.
func sessions(t testing.TB, n int, body func(w *spmd.World, s *Session) error) []error {
	t.Helper()
	open := make([]*Session, n)
	errs := traffictest.Worlds(t, n, func(w *spmd.World) error {
		s, err := Open(w, new(traffictest.Engine), nixl.AgentConfig{}, testSeed)
		if err != nil {
			return err
		}
		open[w.Rank()] = s
		return body(w, s)
	})
	for r, s := range open {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("rank %d: close: %v", r, err)
		}
	}
	return errs
}

// play is sessions for what must not fail.
func play(t testing.TB, n int, body func(w *spmd.World, s *Session) error) {
	t.Helper()
	for r, err := range sessions(t, n, body) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func fromRows(t testing.TB, rows ...[]int64) *matrix.Matrix {
	t.Helper()
	m, err := matrix.FromRows(rows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wanted computes the bytes of a message anew, word by word, from what the
// stream is documented to be.
func wanted(pattern, sender, receiver int, off int64) byte {
	mix := func(x uint64) uint64 {
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	const golden = 0x9e3779b97f4a7c15
	k := mix(testSeed + golden)
	k = mix(k ^ mix(uint64(pattern)+golden))
	k = mix(k ^ mix(uint64(sender)+golden))
	k = mix(k ^ mix(uint64(receiver)+golden))
	w := mix(k + uint64(off/8)*golden)
	return byte(w >> (8 * (off % 8)))
}

// checkReceived compares a rank's receive buffer with what all senders sent.
func checkReceived(p *Plan, me int) error {
	var off int64
	all := p.arena.recv.Bytes()
	for i := range p.Matrix.Size() {
		for k := range p.Matrix.At(i, me) {
			if got, want := all[off], wanted(p.number, i, me, k); got != want {
				return fmt.Errorf("pattern %d, %d -> %d, byte %d: got %d, want %d", p.number, i, me, k, got, want)
			}
			off++
		}
	}
	return nil
}

func drawMatrix(t *rapid.T, n int, label string) *matrix.Matrix {
	m := matrix.New(n)
	for i := range n {
		for j := range n {
			bytes := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 20), rapid.Int64Range(0, 5000)).Draw(t, fmt.Sprintf("%s[%d][%d]", label, i, j))
			if err := m.Set(i, j, bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// Whatever the matrices, shards and directions, and however often the buffers
// have to grow, every byte arrives where it belongs.
func TestEveryByteArrives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "ranks")
		calls := make([][]Pattern, rapid.IntRange(1, 3).Draw(rt, "calls"))
		for c := range calls {
			for p := range rapid.IntRange(1, 3).Draw(rt, "patterns") {
				calls[c] = append(calls[c], Pattern{
					Name: fmt.Sprintf("%d.%d", c, p), Matrix: drawMatrix(rt, n, "cells"),
					Op:     rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op"),
					Shards: rapid.IntRange(1, 9).Draw(rt, "shards"),
				})
			}
		}
		play(t, n, func(w *spmd.World, s *Session) error {
			var plans []*Plan
			for _, patterns := range calls {
				more, err := s.Prepare(patterns)
				if err != nil {
					return err
				}
				plans = append(plans, more...)
			}
			for _, p := range plans {
				if err := p.Verify(); err != nil {
					return err
				}
				if err := checkReceived(p, w.Rank()); err != nil {
					return err
				}
				if err := w.All().Barrier(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// layout finds a cell's place as the package documents it, in the plainest way.
func layout(m *matrix.Matrix, i, j int) (send, recv int64) {
	for k := range j {
		send += m.At(i, k)
	}
	for k := range i {
		recv += m.At(k, j)
	}
	return send, recv
}

// The transfers of all ranks together cover every cell exactly once, and both
// ends of a descriptor are where the layout says.
func TestTransfersCoverTheMatrix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "ranks")
		p := Pattern{
			Matrix: drawMatrix(rt, n, "cells"), Shards: rapid.IntRange(1, 9).Draw(rt, "shards"),
			Op: rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op"),
		}
		seen := matrix.New(n)
		for rank := range n {
			for k, tr := range p.transfers(rank, 4, 5) {
				i, j := rank, tr.Peer
				send, recv := tr.Local, tr.Remote
				if p.Op == nixl.Read {
					i, j, send, recv = tr.Peer, rank, tr.Remote, tr.Local
				}
				if err := tr.Check(p.Matrix.Total(), p.Matrix.Total()); err != nil {
					rt.Fatal(err)
				}
				sendAt, recvAt := layout(p.Matrix, i, j)
				if send[0].Off != sendAt || recv[0].Off != recvAt {
					rt.Fatalf("%d -> %d at %d and %d, want %d and %d", i, j, send[0].Off, recv[0].Off, sendAt, recvAt)
				}
				if want := map[nixl.Op][2]int{nixl.Write: {4, 5}, nixl.Read: {5, 4}}[p.Op]; [2]int{tr.LocalBuffer, tr.RemoteBuffer} != want {
					rt.Fatalf("buffers %d and %d, want %v", tr.LocalBuffer, tr.RemoteBuffer, want)
				}
				if seen.At(i, j) != 0 {
					rt.Fatalf("%d -> %d twice", i, j)
				}
				if err := seen.Set(i, j, tr.Bytes()); err != nil {
					rt.Fatal(err)
				}
				if k > 0 {
					continue
				}
				if next := slices.IndexFunc(p.initiated(rank), func(c matrix.Cell) bool { return c.Peer > rank }); next >= 0 && tr.Peer <= rank {
					rt.Fatalf("rank %d begins with %d, although there are later peers", rank, tr.Peer)
				}
			}
		}
		if !seen.Equal(p.Matrix) {
			rt.Fatal("the transfers do not add up to the matrix")
		}
	})
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		off := rapid.Int64Range(0, 1<<40).Draw(rt, "off")
		bytes := rapid.Int64Range(1, 1<<40).Draw(rt, "bytes")
		shards := rapid.IntRange(1, 1000).Draw(rt, "shards")
		descs := split(off, bytes, shards)
		if len(descs) != int(min(int64(shards), bytes)) {
			rt.Fatalf("%d descriptors of %d bytes in %d shards", len(descs), bytes, shards)
		}
		least, most := bytes, int64(0)
		for _, d := range descs {
			if d.Off != off {
				rt.Fatalf("a gap or an overlap at %d: %v", off, d)
			}
			off += d.Len
			least, most = min(least, d.Len), max(most, d.Len)
			bytes -= d.Len
		}
		if bytes != 0 || least < 1 || most-least > 1 {
			rt.Fatalf("%d bytes left, sizes from %d to %d", bytes, least, most)
		}
	})
}

func TestPostOrderBeginsAfterTheRankItself(t *testing.T) {
	same := func(v int) int { return v }
	for _, c := range []struct {
		rank       int
		list, want []int
	}{
		{2, []int{0, 1, 2, 3, 4}, []int{3, 4, 0, 1, 2}},
		{4, []int{0, 1, 2}, []int{0, 1, 2}},
		{0, []int{1, 2}, []int{1, 2}},
		{1, nil, nil},
	} {
		if got := postOrder(c.list, c.rank, same); !slices.Equal(got, c.want) {
			t.Errorf("rank %d posts %v in the order %v, want %v", c.rank, c.list, got, c.want)
		}
	}
}
