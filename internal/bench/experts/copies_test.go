package experts

import "testing"

// Each message has a place of its own at its receiver, and every pass takes time.
func TestCopies(t *testing.T) {
	for _, c := range []struct{ ranks, tokens int }{{1, 1}, {2, 128}, {4, 3}, {8, 5}} {
		if took := Copies(c.ranks, c.tokens, 128, 8, 3); took <= 0 {
			t.Errorf("%d ranks, %d tokens: a pass took %v", c.ranks, c.tokens, took)
		}
	}
}
