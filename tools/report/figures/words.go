package figures

import (
	"cmp"
	"fmt"
	"slices"

	"perigee/internal/result"
)

// pathLine is the path in a line.
func pathLine(p *result.Paths) string {
	if p == nil || len(p.Uses) == 0 {
		return ""
	}
	u := p.Uses[0]
	var all int64
	for _, o := range p.Uses {
		all += o.Count
	}
	return fmt.Sprintf("path: %s %s-%s %s/%s %s %.0f %%", u.Op, u.Local, u.Remote, u.Transport, u.Device, u.How,
		100*float64(u.Count)/float64(max(all, 1)))
}

// byWeight orders counters: what says most of congestion first.
func byWeight(names []string) []string {
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return names
}

// rise says what a counter counted.
func rise(name string, n int64) string { return fmt.Sprintf("%s rose by %s", name, Grouped(n)) }
