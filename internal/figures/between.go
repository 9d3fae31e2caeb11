package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// planeSettings are what measurements of a data plane may differ in, beside the tokens, and what they are called.
var planeSettings = [][2]string{
	{"routing", "routing"}, {"routing_seed", "seed of the routing"}, {"placement", "placement"},
	{"payload", "precision"},
	{"ranks", "ranks"}, {"tokens", "tokens"}, {"hidden", "channels"}, {"experts_per_rank", "experts of a rank"},
	{"topk", "topk"}, {"shared_experts", "shared experts"}, {"mem", "memory"},
}

// BetweenExperts compares what results measured of dispatch and combine: which is the fastest, by how much, and what
// differs between them. It is empty where fewer than two have the same kind of iteration. labels name the results.
func BetweenExperts(list []*Figures, labels []string) string {
	var parts []string
	var compared []object // one of each result
	var names []string
	for _, mode := range []string{"dispatch", "combine", "e2e"} {
		of, by := alikePlanes(list, mode)
		if len(of) < 2 {
			continue
		}
		compared, names = of, nil
		for _, i := range by {
			names = append(names, labels[i])
		}
		parts = append(parts, fastestPlane(mode, of, names))
	}
	if parts == nil {
		return ""
	}
	text := strings.Join(append(parts, settingsOf(compared, names)), " ")
	return text + " perigee compare says what is more than chance."
}

// alikePlanes has a measurement of that mode of each result that has one, and which results these are: of the entry and
// the sizes that all of them have, with most tokens; where each has one alone, whatever its sizes.
func alikePlanes(list []*Figures, mode string) (of []object, by []int) {
	for _, entry := range []string{"steady", "fresh", "moving"} {
		var choices [][]object
		by = nil
		for i, f := range list {
			var fit []object
			for _, m := range f.planes() {
				if m.text("mode") == mode && m.text("entry") == entry && typical(m).Known() {
					fit = append(fit, m)
				}
			}
			if fit != nil {
				choices, by = append(choices, fit), append(by, i)
			}
		}
		if len(choices) < 2 {
			continue
		}
		first := slices.Clone(choices[0])
		slices.SortStableFunc(first, func(a, b object) int { return cmp.Compare(b.num("tokens"), a.num("tokens")) })
		for _, m := range first {
			if of = likePlane(m, choices); of != nil {
				return of, by
			}
		}
		if !slices.ContainsFunc(choices, func(c []object) bool { return len(c) > 1 }) {
			return slices.Concat(choices...), by
		}
	}
	return nil, nil
}

// likePlane has of each list the measurement whose sizes are those of m; nil where one lacks it.
func likePlane(m object, lists [][]object) (of []object) {
	for _, list := range lists {
		alike := func(o object) bool { return o.same(m, "tokens", "hidden", "experts_per_rank", "topk") }
		i := slices.IndexFunc(list, alike)
		if i < 0 {
			return nil
		}
		of = append(of, list[i])
	}
	return of
}

// typical is the median time of an iteration of the slowest rank, in nanoseconds.
func typical(m object) Num { return 1e3 * m.num("slowest_us", "p50") }

// fastestPlane says which result has the fastest iterations, and how many times as long those of the others are.
func fastestPlane(mode string, of []object, names []string) string {
	order := make([]int, len(of))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(typical(of[a]), typical(of[b])) })
	best := order[0]
	var others []string
	for _, i := range order[1:] {
		others = append(others, fmt.Sprintf("%s takes %s as long (%s)", names[i],
			times(typical(of[i])/typical(of[best])), Duration(typical(of[i]))))
	}
	what := map[string]string{"e2e": "dispatch and combine"}[mode]
	return fmt.Sprintf("%s is the fastest at %s of %s tokens (%s: %s an iteration, median of the slowest rank); %s.",
		names[best], cmp.Or(what, mode), of[best].text("tokens"), of[best].text("entry"), Duration(typical(of[best])),
		strings.Join(others, ", "))
}

// settingsOf says what differs between measurements. Whether a token may name an expert twice belongs to the routing.
func settingsOf(of []object, names []string) string {
	var parts []string
	for _, s := range planeSettings {
		value := func(m object) string {
			if s[0] == "routing" && m.text("replacement") != "" {
				return m.text("routing") + " " + m.text("replacement")
			}
			return cmp.Or(m.text(s[0]), "-")
		}
		if !slices.ContainsFunc(of, func(m object) bool { return value(m) != value(of[0]) }) {
			continue
		}
		var values []string
		for i, m := range of {
			values = append(values, names[i]+": "+value(m))
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", s[1], strings.Join(values, "; ")))
	}
	if parts == nil {
		return "They differ in none of routing, precision, ranks and sizes."
	}
	return "They differ in " + strings.Join(parts, ", ") + "."
}
