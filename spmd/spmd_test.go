package spmd

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/spmd/wire"
)

// everywhere runs body at all ranks of an in-memory world and returns the
// ranks' errors.
func everywhere(worlds []*World, body func(w *World) error) []error {
	errs := make([]error, len(worlds))
	var wg sync.WaitGroup
	for i, w := range worlds {
		wg.Go(func() { errs[i] = body(w) })
	}
	wg.Wait()
	return errs
}

// TestCollectives compares every collective with its definition, for any
// group of any world and any root.
func TestCollectives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 17).Draw(t, "ranks")
		members := rapid.Permutation(seq(n)).Draw(t, "order")[:rapid.IntRange(1, n).Draw(t, "members")]
		root := rapid.IntRange(0, len(members)-1).Draw(t, "root")
		worlds, _ := NewInMemory(n)
		piece := func(from, to int) []byte { return []byte(fmt.Sprintf("%d->%d", from, to)) }
		must.Do(t, everywhere(worlds, func(w *World) error {
			if !slices.Contains(members, w.Rank()) {
				return nil
			}
			g, err := w.Group(members)
			if err != nil {
				return err
			}
			if err := g.Barrier(); err != nil {
				return err
			}
			b, err := g.Broadcast(root, piece(w.Rank(), -1))
			if err != nil || string(b) != string(piece(members[root], -1)) {
				return fmt.Errorf("broadcast gave %q: %v", b, err)
			}
			var out [][]byte
			for _, to := range members {
				out = append(out, piece(w.Rank(), to))
			}
			in, err := g.AllToAll(out)
			if err != nil {
				return err
			}
			all, err := g.AllGather(piece(w.Rank(), 0))
			if err != nil {
				return err
			}
			some, err := g.Gather(root, piece(w.Rank(), 1))
			if err != nil {
				return err
			}
			if (some != nil) != (g.Me() == root) {
				return fmt.Errorf("gather gave %v at place %d, root is %d", some, g.Me(), root)
			}
			for i, from := range members {
				if string(in[i]) != string(piece(from, w.Rank())) {
					return fmt.Errorf("all-to-all: from %d got %q", from, in[i])
				}
				if string(all[i]) != string(piece(from, 0)) {
					return fmt.Errorf("all-gather: from %d got %q", from, all[i])
				}
				if some != nil && string(some[i]) != string(piece(from, 1)) {
					return fmt.Errorf("gather: from %d got %q", from, some[i])
				}
			}
			sums, err := AllReduce(g, []int64{int64(w.Rank()), 1}, Sum)
			if err != nil {
				return err
			}
			if want := int64(sum(members)); sums[0] != want || sums[1] != int64(len(members)) {
				return fmt.Errorf("reduce gave %v, want [%d %d]", sums, want, len(members))
			}
			return nil
		})...)
	})
}

func TestBarrierCostsLogNMessages(t *testing.T) {
	const n = 33
	worlds, _ := NewInMemory(n)
	must.Do(t, everywhere(worlds, func(w *World) error { return w.All().Barrier() })...)
	for _, w := range worlds {
		if m, _ := w.Sent(); m != 6 {
			t.Errorf("rank %d sent %d messages, want ceil(log2 33) = 6", w.Rank(), m)
		}
	}
}

// TestCollectivesCostLittle checks that in a collective of any size no rank sends
// more than a few messages, nor more bytes than the pieces of all, a few times.
func TestCollectivesCostLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(1, 70).Draw(t, "ranks"), rapid.IntRange(0, 300).Draw(t, "bytes")
		root := rapid.IntRange(0, n-1).Draw(t, "root")
		worlds, _ := NewInMemory(n)
		for _, w := range worlds {
			w.detector.after = 0 // a slow machine is no reason for more messages
		}
		cost := func(name string, messages, bytes int64, body func(g *Group) error) {
			before := make([]wire.Counts, n)
			for r, w := range worlds {
				before[r] = w.Wire()
			}
			must.Do(t, everywhere(worlds, func(w *World) error { return body(w.All()) })...)
			var total int64
			for r, w := range worlds {
				sent := w.Wire().Minus(before[r])
				total += sent.Messages
				if sent.Messages > messages || sent.Bytes > bytes {
					t.Fatalf("%s: rank %d of %d sent %d messages and %d bytes, want at most %d and %d", name, r, n, sent.Messages, sent.Bytes, messages, bytes)
				}
				if sent.Frames != sent.Messages || sent.Bytes < emptyFrame*sent.Frames {
					t.Fatalf("%s: rank %d counts %+v", name, r, sent)
				}
			}
			if name != "barrier" && total > 2*int64(n) {
				t.Fatalf("%s of %d ranks took %d messages", name, n, total)
			}
		}
		piece, frame, all := make([]byte, size), frameOf(1)-1, int64(n)*int64(size+2)
		cost("barrier", int64(bits.Len(uint(n-1))), emptyFrame*int64(bits.Len(uint(n-1))), (*Group).Barrier)
		cost("broadcast", 2, 2*(frame+int64(size)), func(g *Group) error { _, err := g.Broadcast(root, piece); return err })
		cost("gather", 1, frame+all, func(g *Group) error { _, err := g.Gather(root, piece); return err })
		cost("all-gather", 3, 3*frame+3*all, func(g *Group) error { _, err := g.AllGather(piece); return err })
		cost("end", 3, 3*frame, (*Group).End)
	})
}

var emptyFrame = frameOf(0)

// frameOf returns how long the frame of a payload of n bytes is.
func frameOf(n int) int64 {
	bytes, _ := wire.FrameBytes(n)
	return int64(bytes)
}

// TestTree checks the shape of the tree along which data goes: every member has
// a parent before it, subtrees are rows of members, and none is deep.
func TestTree(t *testing.T) {
	for n := 1; n <= 300; n++ {
		depth, children := make([]int, n), make([]int, n)
		for me := range n {
			b := branchOf(n, me)
			if (b.parent < 0) != (me == 0) || b.parent >= me {
				t.Fatalf("member %d of %d has parent %d", me, n, b.parent)
			}
			if me > 0 {
				depth[me] = depth[b.parent] + 1
				children[b.parent]++
			}
			for _, c := range b.children {
				if branchOf(n, c).parent != me {
					t.Fatalf("member %d of %d takes %d for a child, whose parent is %d", me, n, c, branchOf(n, c).parent)
				}
			}
		}
		if deepest := slices.Max(depth); deepest > bits.Len(uint(n))-1 {
			t.Errorf("of %d members one is %d steps from the root", n, deepest)
		}
		if most := slices.Max(children); most > 2 {
			t.Errorf("of %d members one has %d children", n, most)
		}
	}
}

func TestDisagreementIsNamed(t *testing.T) {
	worlds, _ := NewInMemory(2)
	errs := everywhere(worlds, func(w *World) error {
		if w.Rank() == 0 {
			_, err := w.All().AllGather(nil)
			return err
		}
		return w.All().Barrier()
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "all-gather") || !strings.Contains(err.Error(), "barrier") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Of five ranks 1 and 3 are the neighbours of rank 2 in the first round; the others
// hear of its end through the monitor, which has its own tests.
func TestLostRankEndsItsNeighboursWaits(t *testing.T) {
	worlds, net := NewInMemory(5)
	net.Cut(2)
	for _, r := range []int{1, 3} {
		err := worlds[r].All().Barrier()
		must.Fail(t, err, fault.RankLost, "rank 2")
	}
}

func TestGroupRefusesNonsense(t *testing.T) {
	worlds, _ := NewInMemory(3)
	for _, ranks := range [][]int{nil, {0, 3}, {-1, 0}, {0, 0}, {1, 2}} {
		if g, err := worlds[0].Group(ranks); err == nil {
			t.Errorf("group of %v: got %v, want an error", ranks, g.Ranks())
		}
	}
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func sum(s []int) (n int) {
	for _, v := range s {
		n += v
	}
	return n
}
