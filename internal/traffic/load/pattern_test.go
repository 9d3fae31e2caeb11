package load

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

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
			Matrix: drawMatrix(rt, n), Shards: rapid.IntRange(1, 9).Draw(rt, "shards"),
			Op: rapid.SampledFrom([]nixl.Op{nixl.Write, nixl.Read}).Draw(rt, "op"),
		}
		seen := matrix.New(n)
		for rank := range n {
			for k, tr := range p.Transfers(rank, 0) {
				i, j := rank, tr.Peer
				send, recv := tr.LocalAt, tr.RemoteAt
				if p.Op == nixl.Read {
					i, j, send, recv = tr.Peer, rank, tr.RemoteAt, tr.LocalAt
				}
				if err := (nixl.Transfer{Local: tr.LocalAt, Remote: tr.RemoteAt}).Check(p.Matrix.Total(), p.Matrix.Total()); err != nil {
					rt.Fatal(err)
				}
				sendAt, recvAt := layout(p.Matrix, i, j)
				if send[0].Off != sendAt || recv[0].Off != recvAt {
					rt.Fatalf("%d -> %d at %d and %d, want %d and %d", i, j, send[0].Off, recv[0].Off, sendAt, recvAt)
				}
				if want := map[nixl.Op][2]Side{nixl.Write: {Send, Recv}, nixl.Read: {Recv, Send}}[p.Op]; [2]Side{tr.Local.Side, tr.Remote.Side} != want {
					rt.Fatalf("sides %d and %d, want %v", tr.Local.Side, tr.Remote.Side, want)
				}
				if seen.At(i, j) != 0 {
					rt.Fatalf("%d -> %d twice", i, j)
				}
				if err := seen.Set(i, j, bytesOf(tr.LocalAt)); err != nil {
					rt.Fatal(err)
				}
				if k > 0 {
					continue
				}
				if next := slices.IndexFunc(p.cells(rank), func(c matrix.Cell) bool { return c.Peer > rank }); next >= 0 && tr.Peer <= rank {
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
	for _, c := range []struct {
		rank       int
		list, want []int
	}{
		{2, []int{0, 1, 2, 3, 4}, []int{3, 4, 0, 1, 2}},
		{4, []int{0, 1, 2}, []int{0, 1, 2}},
		{0, []int{1, 2}, []int{1, 2}},
		{1, nil, nil},
	} {
		m := matrix.New(5)
		for _, peer := range c.list {
			if err := m.Set(c.rank, peer, 1); err != nil {
				t.Fatal(err)
			}
		}
		var got []int
		for _, post := range (Pattern{Matrix: m}).Posts(nil, c.rank, 0) {
			got = append(got, post.Peer)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("rank %d posts %v in the order %v, want %v", c.rank, c.list, got, c.want)
		}
	}
}

// Every rank works out the roles of all ranks, so what it does for each must not allocate.
func TestRolesOfManyRanks(t *testing.T) {
	const ranks, patterns = 200, 20
	var loads []Load
	for seed := range uint64(patterns) {
		m, err := matrix.Random(ranks, 0.02, 1, 9, seed)
		if err != nil {
			t.Fatal(err)
		}
		loads = append(loads, Pattern{Matrix: m})
	}
	meetings, cells := 0, 0
	for i, r := range RolesOf(loads, ranks, func(Lane, int, int) { meetings++ }) {
		cells += loads[i].(Pattern).Matrix.Cells()
		for k, rank := range r.Actors {
			if n := len(loads[i].Posts(nil, rank, 0)); r.Shares[k] != (Share{1, n}) {
				t.Errorf("rank %d of load %d: %+v, want %d posts on one lane", rank, i, r.Shares[k], n)
			}
		}
	}
	if meetings != cells {
		t.Errorf("%d meetings, want %d", meetings, cells)
	}
	if n := testing.AllocsPerRun(3, func() { RolesOf(loads, ranks, func(Lane, int, int) {}) }); n > 10*patterns {
		t.Errorf("%.0f allocations for %d patterns, want at most 10 each", n, patterns)
	}
}

func bytesOf(list []nixl.Desc) (n int64) {
	for _, d := range list {
		n += d.Len
	}
	return n
}

func drawMatrix(t *rapid.T, n int) *matrix.Matrix {
	m := matrix.New(n)
	for i := range n {
		for j := range n {
			bytes := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 5000)).Draw(t, "cell")
			if err := m.Set(i, j, bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}
