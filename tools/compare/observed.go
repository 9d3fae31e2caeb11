package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Beside is something that both sides have seen beside the times.
type Beside struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// String is it in a line.
func (b Beside) String() string { return fmt.Sprintf("%s: OLD %s, NEW %s", b.What, b.Old, b.New) }

// mostBeside is how many counters are compared.
const mostBeside = 8

// observe compares what both sides have seen beside the times.
func (r *Report) observe(old, fresh []*result.Document) {
	r.Paths = pathsChanged(pathOf(old), pathOf(fresh))
	add := func(what string, of func(*result.Document) (float64, bool), show func(float64) string) {
		x, y := valuesOf(old, of), valuesOf(fresh, of)
		if len(x) > 0 && len(y) > 0 {
			r.Beside = append(r.Beside, Beside{what, show(stats.Median(x)), show(stats.Median(y))})
		}
	}
	add("line", func(d *result.Document) (float64, bool) {
		if d.Line == nil {
			return 0, false
		}
		return d.Line.Rate, d.Line.Rate > 0
	}, size.Rate[float64])
	add("ceiling of one large message", func(d *result.Document) (float64, bool) {
		if d.Line == nil || d.Line.Ceiling == nil {
			return 0, false
		}
		return d.Line.Ceiling.Rate, true
	}, size.Rate[float64])
	add("offered by the trace", func(d *result.Document) (float64, bool) {
		if d.Replay == nil {
			return 0, false
		}
		return d.Replay.Offered, true
	}, size.Rate[float64])
	totals, rose := map[*result.Document]map[string]int64{}, map[string]int{} // by the counter's place
	for _, d := range slices.Concat(old, fresh) {
		totals[d] = d.CongestionTotals()
		for name, n := range totals[d] {
			if n > 0 {
				_, rose[name], _ = result.CongestionWords(name, n)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(rose), func(a, b string) int { return cmp.Compare(rose[a], rose[b]) })
	for _, name := range names[:min(len(names), mostBeside)] {
		words, _, _ := result.CongestionWords(name, 0)
		add(strings.TrimPrefix(words, "0 "), func(d *result.Document) (float64, bool) {
			n, ok := totals[d][name]
			return float64(n), ok
		}, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	}
}

// valuesOf are those of the results that have one.
func valuesOf(docs []*result.Document, of func(*result.Document) (float64, bool)) (list []float64) {
	for _, d := range docs {
		if v, ok := of(d); ok {
			list = append(list, v)
		}
	}
	return list
}

// pathOf adds up the paths of results.
func pathOf(docs []*result.Document) (p result.Paths) {
	for _, d := range docs {
		if d.Paths != nil {
			p.Uses = append(p.Uses, d.Paths.Uses...)
		}
	}
	slices.SortStableFunc(p.Uses, func(a, b result.PathUse) int { return cmp.Compare(b.Count, a.Count) })
	return p
}

// waysOf counts the messages of each operation between two kinds of memory by the way that served them.
func waysOf(p result.Paths) map[string]map[string]int64 {
	list := map[string]map[string]int64{}
	for _, u := range p.Uses {
		kind := fmt.Sprintf("%s %s-%s", u.Op, u.Local, u.Remote)
		if list[kind] == nil {
			list[kind] = map[string]int64{}
		}
		list[kind][fmt.Sprintf("%s/%s %s", u.Transport, u.Device, u.How)] += u.Count
	}
	return list
}

// noteworthy is the part of the messages from which on a way that the other side lacks is a change of the path: where
// messages of several sizes are counted over a time, shares differ a little by chance.
const noteworthy = 0.05

// pathsChanged says of each operation and kinds of memory that both sides have whether a way of one is missing on the
// other.
func pathsChanged(old, fresh result.Paths) (list []string) {
	before, after := waysOf(old), waysOf(fresh)
	for _, kind := range slices.Sorted(maps.Keys(before)) {
		if after[kind] != nil && (lacks(before[kind], after[kind]) || lacks(after[kind], before[kind])) {
			list = append(list, fmt.Sprintf("the path of %s changed: OLD %s; NEW %s", kind, served(old, kind),
				served(fresh, kind)))
		}
	}
	return list
}

// lacks reports whether other has not a way that serves many messages.
func lacks(counts, other map[string]int64) bool {
	var all int64
	for _, n := range counts {
		all += n
	}
	for w, n := range counts {
		if other[w] == 0 && float64(n) >= noteworthy*float64(all) {
			return true
		}
	}
	return false
}

// served lists the ways of a kind.
func served(p result.Paths, kind string) string {
	var parts []string
	for _, line := range p.Lines() {
		if way, ok := strings.CutPrefix(line, kind+" "); ok {
			parts = append(parts, way)
		}
	}
	return strings.Join(parts, ", ")
}
