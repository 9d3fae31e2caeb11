package play

import (
	"testing"

	"pgregory.net/rapid"
)

// Each byte that a poisoned buffer or a different message would hold differs
// from the right one, or is noticed with overwhelming probability.
func TestStreams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStream(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(0, 1000).Draw(rt, "pattern"), rapid.IntRange(0, 99).Draw(rt, "i"), rapid.IntRange(0, 99).Draw(rt, "j"))
		off := rapid.Int64Range(0, 1<<50).Draw(rt, "off")
		b := make([]byte, rapid.IntRange(1, 100).Draw(rt, "len"))
		s.Fill(b, off, false)
		right := make([]byte, len(b))
		for k := range b {
			s.Fill(right[k:k+1], off+int64(k), false) // one by one, and all at once
		}
		if wrong, _ := differ(right, b); wrong != 0 {
			rt.Fatalf("%d bytes depend on where the filling begins", wrong)
		}
		poison := make([]byte, len(b))
		s.Fill(poison, off, true)
		if wrong, first := differ(right, poison); wrong != int64(len(b)) || first != 0 {
			rt.Fatalf("%d of %d poisoned bytes are wrong, the first is %d", wrong, len(b), first)
		}
		at := rapid.IntRange(0, len(b)-1).Draw(rt, "flipped")
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		if wrong, first := differ(right, b); wrong != 1 || first != at {
			rt.Fatalf("%d wrong bytes, the first at %d, want 1 at %d", wrong, first, at)
		}
	})
	seen := map[uint64]bool{}
	for pattern := range 4 {
		for i := range 8 {
			for j := range 8 {
				seen[newStream(7, pattern, i, j).key] = true
			}
		}
	}
	if len(seen) != 4*8*8 {
		t.Errorf("%d different streams, want %d", len(seen), 4*8*8)
	}
}
