package blockcache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestOrder fills a cache of three blocks.
func TestOrder(t *testing.T) {
	c := New(3)
	steps := []struct {
		touch, ask []uint64
		want       int
	}{
		{nil, []uint64{1}, 0},
		{[]uint64{1, 2, 3}, []uint64{1, 2, 3, 4}, 3},
		{[]uint64{1}, []uint64{1, 2}, 2},             // 2 is now the oldest
		{[]uint64{4}, []uint64{2}, 0},                // and goes
		{nil, []uint64{1, 2, 3}, 1},                  // 3 is there, but behind a block that is not
		{nil, []uint64{3, 1, 4}, 3},                  // asking changed no order
		{[]uint64{5, 6, 7, 8}, []uint64{6, 7}, 2},    // of a long prompt the tail stays
		{nil, []uint64{5}, 0},                        //
		{[]uint64{9, 6}, []uint64{6}, 1},             // 6 went when 9 came, and came again
		{nil, []uint64{8, 9, 6}, 3},                  //
		{[]uint64{8, 8, 1 << 33}, []uint64{6, 8}, 2}, // a block twice counts once
		{nil, []uint64{1 << 33, 0}, 1},               // ids have 64 bits
	}
	for i, s := range steps {
		c.Touch(s.touch)
		if got := c.Prefix(s.ask); got != s.want {
			t.Errorf("step %d: of %v there are %d, want %d", i, s.ask, got, s.want)
		}
	}
	if len(c.place) != 3 {
		t.Errorf("%d blocks, want 3", len(c.place))
	}
}

// TestAgainstList compares with a list that has the oldest first.
func TestAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 6).Draw(t, "capacity")
		c, list := New(capacity), []uint64(nil)
		prompt := rapid.SliceOfN(rapid.Uint64Range(0, 9), 0, 8)
		for range rapid.IntRange(1, 20).Draw(t, "prompts") {
			ids := prompt.Draw(t, "ids")
			want := slices.IndexFunc(ids, func(id uint64) bool { return !slices.Contains(list, id) })
			if want < 0 {
				want = len(ids)
			}
			if got := c.Prefix(ids); got != want {
				t.Fatalf("of %v %d are there, want %d of %v", ids, got, want, list)
			}
			for _, id := range ids {
				list = append(slices.DeleteFunc(list, func(other uint64) bool { return other == id }), id)
				if capacity > 0 && len(list) > capacity {
					list = list[1:]
				}
			}
			c.Touch(ids)
		}
		if len(c.place) != len(list) {
			t.Fatalf("%d blocks, want %d", len(c.place), len(list))
		}
	})
}
