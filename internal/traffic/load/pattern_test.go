package load

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/must"
	"perigee/internal/traffic/matrix"
	"perigee/nixl"
)

// layout works out the place of a cell's descriptors as the package documents it, in the plainest way: one after the
// other, what is a page and more at the next page.
func layout(cells []matrix.Cell, peer, shards int) (at []int64) {
	var free int64
	for _, c := range cells {
		at = nil
		n := min(int64(shards), c.Bytes)
		if c.Bytes >= Guard {
			free = (free + Guard - 1) / Guard * Guard
		}
		step := c.Bytes/n + (c.Bytes%n+n-1)/n
		for k := range n {
			at = append(at, free)
			free += c.Bytes / n
			if k < c.Bytes%n {
				free++
			}
			if c.Bytes/n >= Guard && k < n-1 {
				free = at[k] + (step+Guard-1)/Guard*Guard
			}
		}
		if c.Peer == peer {
			return at
		}
	}
	return nil
}

func starts(list []nixl.Desc) (at []int64) {
	for _, d := range list {
		at = append(at, d.Off)
	}
	return at
}

// Messages of a rank lie within what it needs, share no byte, and a piece of a page and more begins at a page.
func TestMessagesBeginAtPages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "ranks")
		m := matrix.New(n)
		size := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(4000, 20000), rapid.Just(int64(3*Guard)))
		for i := range n {
			for j := range n {
				must.Do(rt, m.Set(i, j, size.Draw(rt, "bytes")))
			}
		}
		list := []Pattern{{Matrix: m, Shards: rapid.IntRange(1, 5).Draw(rt, "shards")}, {Matrix: m, Shards: 1}}
		if rapid.Bool().Draw(rt, "apart") {
			list = Apart(list)
		}
		for _, p := range list {
			for rank, needs := range p.Needs(n, 0) {
				sent, received := p.Messages(rank, 0)
				for side, messages := range [][]Message{sent, received} {
					free, room := p.base(rank, Side(side)), [2]int64{needs.Send[0], needs.Recv[0]}[side]
					for _, msg := range messages {
						for _, d := range msg.Pieces {
							if d.Off < free || d.Off-free >= Guard || d.Off+d.Len > room {
								rt.Fatalf("%v begins at %d of %d bytes, and the last one ended at %d", msg, d.Off, room, free)
							}
							if d.Len >= Guard && d.Off%Guard != 0 {
								rt.Fatalf("%v begins at %d", msg, d.Off)
							}
							free = d.Off + d.Len
						}
					}
					if len(messages) > 0 && free != room {
						rt.Fatalf("rank %d needs %d bytes, but has room for %d", rank, free, room)
					}
				}
			}
		}
	})
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
				needs := p.Needs(n, 0)
				must.Do(rt, (nixl.Transfer{Local: send, Remote: recv}).Check(needs[i].Send[p.Mem], needs[j].Recv[p.Mem]))
				sendAt, recvAt := layout(p.Matrix.Row(i), j, p.Shards), layout(p.Matrix.Column(j), i, p.Shards)
				if !slices.Equal(starts(send), sendAt) || !slices.Equal(starts(recv), recvAt) {
					rt.Fatalf("%d -> %d at %v and %v, want %v and %v", i, j, send, recv, sendAt, recvAt)
				}
				if want := map[nixl.Op][2]Side{nixl.Write: {Send, Recv}, nixl.Read: {Recv, Send}}[p.Op]; [2]Side{tr.Local.Side, tr.Remote.Side} != want {
					rt.Fatalf("sides %d and %d, want %v", tr.Local.Side, tr.Remote.Side, want)
				}
				if seen.At(i, j) != 0 {
					rt.Fatalf("%d -> %d twice", i, j)
				}
				must.Do(rt, seen.Set(i, j, bytesOf(tr.LocalAt)))
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
			if d.Off < off || d.Off-off > Guard {
				rt.Fatalf("a gap or an overlap at %d: %v", off, d)
			}
			off = d.Off + d.Len
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
			must.Do(t, m.Set(c.rank, peer, 1))
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
		must.Do(t, err)
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
			must.Do(t, m.Set(i, j, bytes))
		}
	}
	return m
}
