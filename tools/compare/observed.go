package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"perigee/internal/result"
	"perigee/internal/size"
	"perigee/internal/stats"
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
	r.Paths = pathsChanged(waysOf(old), waysOf(fresh))
	add := func(what string, of func(*result.Document) (float64, bool), show func(float64) string) {
		x, y := valuesOf(old, of), valuesOf(fresh, of)
		if len(x) > 0 && len(y) > 0 {
			r.Beside = append(r.Beside, Beside{what, show(stats.Median(x)), show(stats.Median(y))})
		}
	}
	rate := func(v float64) string { return size.Decimal(v) + "/s" }
	add("line", func(d *result.Document) (float64, bool) {
		if d.Line == nil {
			return 0, false
		}
		return d.Line.Rate, d.Line.Rate > 0
	}, rate)
	add("ceiling of one large message", func(d *result.Document) (float64, bool) {
		if d.Line == nil || d.Line.Ceiling == nil {
			return 0, false
		}
		return d.Line.Ceiling.Rate, true
	}, rate)
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

// ways counts the messages of each operation between two kinds of memory by the way that served them.
type ways map[string]map[string]int64

func waysOf(docs []*result.Document) ways {
	list := ways{}
	for _, d := range docs {
		if d.Paths == nil {
			continue
		}
		for _, u := range d.Paths.Uses {
			kind := fmt.Sprintf("%s %s-%s", u.Op, u.Local, u.Remote)
			if list[kind] == nil {
				list[kind] = map[string]int64{}
			}
			list[kind][way(u)] += u.Count
		}
	}
	return list
}

func way(u result.PathUse) string { return fmt.Sprintf("%s/%s %s", u.Transport, u.Device, u.How) }

// noteworthy is the part of the messages from which on a way that the other side lacks is a change of the path: where
// messages of several sizes are counted over a time, shares differ a little by chance.
const noteworthy = 0.05

// pathsChanged says of each operation and kinds of memory that both sides have whether a way of one is missing on the
// other.
func pathsChanged(old, fresh ways) (list []string) {
	for _, kind := range slices.Sorted(maps.Keys(old)) {
		if fresh[kind] != nil && (lacks(old[kind], fresh[kind]) || lacks(fresh[kind], old[kind])) {
			list = append(list, fmt.Sprintf("the path of %s changed: OLD %s; NEW %s", kind, served(old[kind]),
				served(fresh[kind])))
		}
	}
	return list
}

func sum(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// lacks reports whether other has not a way that serves many messages.
func lacks(counts, other map[string]int64) bool {
	all := sum(counts)
	for w, n := range counts {
		if other[w] == 0 && float64(n) >= noteworthy*float64(all) {
			return true
		}
	}
	return false
}

// served lists the ways that serve most messages.
func served(counts map[string]int64) string {
	const most = 2
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	var parts []string
	for _, w := range names[:min(len(names), most)] {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", w, 100*float64(counts[w])/float64(max(sum(counts), 1))))
	}
	if more := len(names) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
