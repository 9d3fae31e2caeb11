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
	Level string `json:"level"` // good, note or bad
	Text  string `json:"text"`
}

// Where words begin. A slowdown below slight is what runs differ by anyway.
const (
	slight = 1.15
	strong = 1.5
	// apart is how far the worst of several must be above their median to be named.
	apart = 1.25
)

// findings says who suffers from congestion.
func findings(f *Figures) []Finding {
	list := []Finding{}
	say := func(level, format string, args ...any) {
		list = append(list, Finding{level, fmt.Sprintf(format, args...)})
	}
	sayBlocks(f.Blocks, say)
	if f.Document != nil {
		sayExperts(f.Document.Values, say)
	}
	if f.Runs == 0 {
		if len(list) == 0 {
			say("note", "Nothing was measured.")
		}
		return list
	}
	if !f.Slowdown.Known() {
		say("note", "No pattern was measured both alone and in a workload, so nothing can be said of congestion.")
		return list
	}
	switch {
	case f.Slowdown < slight:
		say("good", "In the workload messages take %s as long as alone: congestion costs next to nothing.", times(f.Slowdown))
	case f.Slowdown < strong:
		say("note", "In the workload messages take %s as long as alone: some congestion.", times(f.Slowdown))
	default:
		say("bad", "In the workload messages take %s as long as alone: congestion costs a lot.", times(f.Slowdown))
	}
	sayPatterns(f, say)
	sayPairs(f, say)
	sayRanks(f, say, "senders", func(r Rank) Num { return r.SendSlowdown })
	sayRanks(f, say, "receivers", func(r Rank) Num { return r.RecvSlowdown })
	sayHosts(f, say)
	return list
}

type sayer func(level, format string, args ...any)

func level(slowdown Num) string {
	if slowdown >= strong {
		return "bad"
	}
	return "note"
}

func sayPatterns(f *Figures, say sayer) {
	list := slices.DeleteFunc(slices.Clone(f.Patterns), func(p Pattern) bool { return !p.Slowdown.Known() })
	if len(list) < 2 {
		return
	}
	worst := slices.MaxFunc(list, func(a, b Pattern) int { return cmp.Compare(a.Slowdown, b.Slowdown) })
	if worst.Slowdown >= slight {
		skew := ""
		if worst.StartSkewNS > 0.2*(worst.LatencyNS-worst.IsolatedNS) {
			skew = fmt.Sprintf("; for %s of that its initiators had not all started", Duration(worst.StartSkewNS))
		}
		say(level(worst.Slowdown), "Pattern %d takes longest against its isolated run: %s, %s instead of %s%s.",
			worst.Index, times(worst.Slowdown), Duration(worst.LatencyNS), Duration(worst.IsolatedNS), skew)
	}
}

// worstNamed is how many pairs are named.
const worstNamed = 3

// Worst returns the pairs with a slowdown, the largest first.
func (f *Figures) Worst() []Pair {
	list := slices.DeleteFunc(slices.Clone(f.Pairs), func(p Pair) bool { return !p.Slowdown.Known() })
	slices.SortStableFunc(list, func(a, b Pair) int { return cmp.Compare(b.Slowdown, a.Slowdown) })
	return list
}

func sayPairs(f *Figures, say sayer) {
	list := f.Worst()
	if len(list) < 2 || list[0].Slowdown < slight {
		return
	}
	if worst, least := list[0].Slowdown, list[len(list)-1].Slowdown; worst < apart*least {
		say(level(worst), "All %d pairs suffer alike, by %s to %s.", len(list), times(least), times(worst))
		return
	}
	var names []string
	for i, p := range list[:min(worstNamed, len(list))] {
		if i > 0 && p.Slowdown <= list[len(list)/2].Slowdown {
			break
		}
		names = append(names, fmt.Sprintf("%d \u2192 %d (%s, %s instead of %s)", p.From, p.To, times(p.Slowdown), Duration(p.LatencyNS), Duration(p.IsolatedNS)))
	}
	say(level(list[0].Slowdown), "The pairs that suffer most are %s; half of the %d pairs stay below %s.",
		strings.Join(names, ", "), len(list), times(list[len(list)/2].Slowdown))
}

func sayRanks(f *Figures, say sayer, role string, slowdown func(Rank) Num) {
	list := slices.DeleteFunc(slices.Clone(f.Ranks), func(r Rank) bool { return !slowdown(r).Known() })
	if len(list) < 3 {
		return
	}
	slices.SortStableFunc(list, func(a, b Rank) int { return cmp.Compare(slowdown(b), slowdown(a)) })
	middle := slowdown(list[len(list)/2])
	hosts := f.HostNames()
	var bad []string
	for _, r := range list {
		if slowdown(r) < slight || slowdown(r) < apart*middle || len(bad) == worstNamed {
			break
		}
		bad = append(bad, fmt.Sprintf("rank %d on %s (%s)", r.Rank, hosts[r.Host], times(slowdown(r))))
	}
	if len(bad) == 0 {
		return
	}
	verb := "stands out"
	if len(bad) > 1 {
		verb = "stand out"
	}
	say(level(slowdown(list[0])), "Among the %s, %s %s; the median is %s.", role, strings.Join(bad, ", "), verb, times(middle))
}

func sayHosts(f *Figures, say sayer) {
	list := slices.DeleteFunc(slices.Clone(f.HostPairs), func(h HostPair) bool { return !h.Slowdown.Known() })
	if len(list) < 2 {
		return
	}
	worst := slices.MaxFunc(list, func(a, b HostPair) int { return cmp.Compare(a.Slowdown, b.Slowdown) })
	least := slices.MinFunc(list, func(a, b HostPair) int { return cmp.Compare(a.Slowdown, b.Slowdown) })
	if worst.Slowdown < slight || worst.Slowdown < apart*least.Slowdown {
		return
	}
	say(level(worst.Slowdown), "Among the hosts, %s suffers most (%s), %s least (%s).", f.way(worst), times(worst.Slowdown), f.way(least), times(least.Slowdown))
}

// way names the way of traffic between hosts.
func (f *Figures) way(h HostPair) string {
	hosts := f.HostNames()
	if h.From == h.To {
		return "traffic inside " + hosts[h.From]
	}
	return fmt.Sprintf("traffic from %s to %s", hosts[h.From], hosts[h.To])
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

// Ranges writes ascending ranks shortly: 0-3, 7.
func Ranges(ranks []int) string {
	var parts []string
	for i := 0; i < len(ranks); {
		k := i
		for k+1 < len(ranks) && ranks[k+1] == ranks[k]+1 {
			k++
		}
		part := fmt.Sprint(ranks[i])
		if k > i {
			part += fmt.Sprintf("-%d", ranks[k])
		}
		parts, i = append(parts, part), k+1
	}
	return strings.Join(parts, ", ")
}
