package spmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// Ranks that are lost are in no group any more, and the others meet without them.
func TestLose(t *testing.T) {
	worlds, _ := NewInMemory(5)
	must.Do(t, everywhere(worlds, func(w *World) error {
		if err := w.All().Barrier(); err != nil || slices.Contains([]int{1, 3}, w.Rank()) {
			return err
		}
		for _, r := range []int{3, 1} {
			if err := w.Lose([]int{r}); err != nil {
				return err
			}
		}
		all, err := AllGatherValue(w.All(), w.Rank())
		if err != nil || !slices.Equal(all, []int{0, 2, 4}) || !slices.Equal(w.Lost(), []int{1, 3}) || w.Size() != 5 {
			return fmt.Errorf("gathered %v of %d, lost %v: %v", all, w.Size(), w.Lost(), err)
		}
		for _, ranks := range [][]int{{0, 2, 3, 4}, {0, 1, 2, 3, 4}} {
			if _, err := w.Group(ranks); err == nil || !strings.Contains(err.Error(), "has ended") {
				return fmt.Errorf("group %v: %v", ranks, err)
			}
		}
		if err := w.Lose([]int{w.Rank()}); err == nil {
			return fmt.Errorf("rank %d lost itself", w.Rank())
		}
		return w.All().End()
	})...)
}
