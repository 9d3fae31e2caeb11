package spmd

import (
	"fmt"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
)

// TestListsInAnotherOrder lets one rank list the members of a group in another order: every collective refuses, on
// one host and on several, whether or not the group has all ranks of the world.
func TestListsInAnotherOrder(t *testing.T) {
	for name, host := range map[string]func(int) string{"one host": nil, "hosts": func(r int) string { return fmt.Sprint(r) }} {
		for _, collective := range []string{"broadcast", "gather", "all-gather", "reduce"} {
			for _, size := range []int{3, 4} { // of the world
				t.Run(fmt.Sprint(name, "/", collective, "/", size), func(t *testing.T) {
					t.Parallel()
					errs := ranks(t, size, host, func(w *World) error {
						list := []int{0, 1, 2}
						if w.Rank() == 1 {
							list = []int{2, 1, 0}
						}
						if w.Rank() < 3 {
							g, err := w.Group(list)
							if err != nil {
								return err
							}
							if err := (step{collective, 0}).call(g); err != nil {
								return err
							}
						}
						return w.All().End()
					})
					for r, err := range errs {
						if err == nil {
							t.Fatalf("rank %d noticed nothing", r)
						}
						// A rank that only sends may have gone on to the end.
						named := strings.Contains(err.Error(), "in another order") && fault.HintOf(err) == orderHint
						if fault.KindOf(err) != fault.Script || !named && !strings.Contains(err.Error(), opNames[opEnd]) {
							t.Errorf("rank %d: %v (%s)", r, err, fault.HintOf(err))
						}
					}
				})
			}
		}
	}
}

// TestGroupsOfTheSameRanks uses two orders of the same ranks in turns, at all ranks alike.
func TestGroupsOfTheSameRanks(t *testing.T) {
	errs := ranks(t, 3, func(r int) string { return fmt.Sprint(r / 2) }, func(w *World) error {
		for i := range 20 {
			for _, list := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 0, 2}} {
				g, err := w.Group(list)
				if err != nil {
					return err
				}
				got, err := g.Broadcast(0, fmt.Append(nil, w.Rank()))
				if err != nil || string(got) != fmt.Sprint(list[0]) {
					return fmt.Errorf("round %d of %v: got %q, %v", i, list, got, err)
				}
				if err := g.Barrier(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
