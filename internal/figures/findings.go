package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is something to know, in words.
type Finding struct {
	Level string `json:"level"` // good, note, bad, or detail, which says how the one before it was worked out
	Text  string `json:"text"`
	why   string // the end of Text that an answer shows apart; empty without one
}

// strong is the cost from which a finding is bad news.
const strong = 1.5

// findings says what is shown, and nothing else.
func findings(f *Figures) []Finding {
	list := []Finding{}
	say := func(level, format string, args ...any) {
		list = append(list, Finding{Level: level, Text: fmt.Sprintf(format, args...)})
	}
	sayReplay(f, &list)
	sayBlocks(f.Blocks, say)
	sayExperts(f, say)
	sayScript(f, say)
	if f.Runs == 0 {
		switch {
		case len(list) > 0:
		case f.Document != nil && len(f.Document.Tables)+len(f.Document.Values) > 0:
			say("note", "The scenario's own figures stand in its tables and values: it measured no pattern, and kept no metric.")
		default:
			say("note", "Nothing was measured.")
		}
		return list
	}
	if f.Slowdown.Known() {
		a := sayTraffic(f)
		list = append(list, Finding{a.Level, strings.TrimSpace(a.Sentence + " " + a.Why), a.Why})
		sayJudged(f, say)
	} else {
		saySizes(f, say)
		sayNotAlone(f.Contention, say)
		sayStarts(f, say)
	}
	sayClocks(f, say)
	return list
}

type sayer func(level, format string, args ...any)

// severity is the level of a finding that something takes so many times as long.
func severity(slowdown Num) string {
	if slowdown >= strong {
		return "bad"
	}
	return "note"
}

// worstNamed is how many pairs are named.
const worstNamed = 3

// Worst returns the pairs with a slowdown: first those with contention, the largest first, then the others by slowdown.
func (f *Figures) Worst() []Pair {
	list := slices.DeleteFunc(slices.Clone(f.Pairs), func(p Pair) bool { return !p.Slowdown.Known() })
	slices.SortStableFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Contention, a.Contention), cmp.Compare(b.Slowdown, a.Slowdown)) // NaN is least
	})
	return list
}

func times(n Num) string {
	if n >= 10 {
		return fmt.Sprintf("%.0f times", float64(n))
	}
	return fmt.Sprintf("%.2f times", float64(n))
}

// Duration is a time in nanoseconds with three digits and its unit.
func Duration(n Num) string {
	if !n.Known() {
		return "-"
	}
	units := []struct {
		ns   float64
		name string
	}{{float64(time.Second), "s"}, {float64(time.Millisecond), "ms"}, {float64(time.Microsecond), "\u00b5s"}, {1, "ns"}}
	for _, u := range units {
		if v := float64(n) / u.ns; v >= 0.9995 {
			return digits(v) + " " + u.name
		}
	}
	return digits(float64(n)) + " ns"
}

// digits shows three digits, and more only before the point.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// HostNames returns the names of the hosts, with a host's number where several
// have the same.
func (f *Figures) HostNames() []string {
	hosts := f.Document.World.Hosts
	bearers := map[string]int{}
	for _, h := range hosts {
		bearers[h.Name]++
	}
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
		if bearers[h.Name] > 1 {
			names[i] = fmt.Sprintf("%s (host %d)", h.Name, i)
		}
	}
	return names
}
