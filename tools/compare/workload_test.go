package compare

import (
	"slices"
	"testing"

	"perigee/internal/result"
)

func TestWhatIsCompared(t *testing.T) {
	doc := func(title, workload string) *result.Document {
		return &result.Document{Title: title, Workload: workload}
	}
	for _, c := range []struct {
		old, fresh *result.Document
		want       []string
	}{
		{doc("", ""), doc("", ""), nil},
		{doc("t", "w"), doc("t", "w"), []string{"t", "w"}},
		{doc("a", "w"), doc("b", "w"), []string{"OLD: a", "NEW: b", "w"}},
		{doc("", "v"), doc("", ""), []string{"OLD: v", "NEW: -"}},
	} {
		if got := whatOf(c.old, c.fresh); !slices.Equal(got, c.want) {
			t.Errorf("%q: want %q", got, c.want)
		}
	}
}
