package shm

import (
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/nixl"
)

// The pieces of all runs that went well are counted, by operation; batches that never ran are not.
func TestPath(t *testing.T) {
	a := newAgent(t)
	if _, err := a.Alloc(nixl.DRAM, 100); err != nil {
		t.Fatal(err)
	}
	text, err := a.Card()
	if err == nil {
		err = a.AddPeer(0, text)
	}
	must.Do(t, err)
	local, remote := []nixl.Desc{{Len: 5}, {Off: 10, Len: 5}}, []nixl.Desc{{Off: 50, Len: 5}, {Off: 60, Len: 5}}
	write := nixl.Transfer{Op: nixl.Write, Local: local, Remote: remote}
	read := nixl.Transfer{Op: nixl.Read, Local: local[:1], Remote: remote[:1]}
	for i, transfers := range [][]nixl.Transfer{{write, read}, {read}, {write}} {
		b, err := a.NewBatch(transfers)
		must.Do(t, err)
		switch i {
		case 0:
			err = b.Run(nixl.Control{}, 3, nil)
		case 1:
			if err = b.Post(); err == nil {
				err = b.Wait(nixl.Control{}, nil)
			}
		}
		must.Do(t, err)
	}
	must.Do(t, a.Close())
	use := func(op string, n int64) nixl.PathUse {
		return nixl.PathUse{Op: op, Local: "dram", Remote: "dram", Reach: "self", Transport: "memfd", Device: "memory",
			How: "copy by the initiator", Count: n}
	}
	got := a.engine.Path(t.Name())
	slices.SortFunc(got.Uses, func(x, y nixl.PathUse) int { return strings.Compare(x.Op, y.Op) })
	want := nixl.Path{Source: "perigee", Uses: []nixl.PathUse{use("READ", 3+1), use("WRITE", 3*2)}}
	must.Equal(t, want, got)
}
