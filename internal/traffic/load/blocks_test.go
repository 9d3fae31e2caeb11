package load

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"perigee/nixl"
)

// A random order is at the remote end only, the same for both ranks, and one of the same places.
func TestShuffledBlocks(t *testing.T) {
	for _, op := range []nixl.Op{nixl.Write, nixl.Read} {
		b := Blocks{Peers: [][]int{{1}, nil}, Threads: 1, Op: op, Block: 64, Batch: 50}
		plain := b.Transfers(0, 0)[0]
		b.Shuffle = new(uint64(7))
		shuffled := b.Transfers(0, 0)[0]
		if diff := gocmp.Diff(plain.LocalAt, shuffled.LocalAt); diff != "" {
			t.Errorf("%v: the local end (-plain +shuffled):\n%s", op, diff)
		}
		if slices.Equal(plain.RemoteAt, shuffled.RemoteAt) {
			t.Errorf("%v: the blocks are in order", op)
		}
		sent, received := b.Messages(1, 0)
		if m := slices.Concat(sent, received); len(m) != 1 || !slices.Equal(m[0].Pieces, shuffled.RemoteAt) {
			t.Errorf("%v: rank 1 checks other places than rank 0 uses", op)
		}
		slices.SortFunc(shuffled.RemoteAt, func(x, y nixl.Desc) int { return cmp.Compare(x.Off, y.Off) })
		if !slices.Equal(plain.RemoteAt, shuffled.RemoteAt) {
			t.Errorf("%v: other places", op)
		}
		other := b
		other.Shuffle = new(uint64(7))
		if string(b.Digest(nil)) != string(other.Digest(nil)) {
			t.Error("the digest depends on an address")
		}
		other.Shuffle = new(uint64(8))
		if string(b.Digest(nil)) == string(other.Digest(nil)) {
			t.Error("the digest does not depend on the seed")
		}
	}
}
