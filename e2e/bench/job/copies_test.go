package job

import "testing"

// No two messages have the same place at their receiver, as the race detector would show, and every pass takes time.
func TestCopies(t *testing.T) {
	for _, c := range []struct{ ranks, tokens int }{{1, 1}, {2, 128}, {4, 3}, {8, 5}} {
		if took := Copies(c.ranks, c.tokens, 128, 8, 3); took <= 0 {
			t.Errorf("%d ranks, %d tokens: a pass took %v", c.ranks, c.tokens, took)
		}
	}
}
