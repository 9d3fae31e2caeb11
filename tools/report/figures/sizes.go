package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"perigee/internal/cli"
	"perigee/internal/result"
	"perigee/internal/size"
)

const (
	// mostWays is how many ways of traffic have a series each, mostBars how many patterns of one size have a bar each.
	mostWays = 6
	mostBars = 40
	// enoughRuns is from how many runs on 8 of 10 of them are more than most of them.
	enoughRuns = 10
)

// sized is a pattern as a chart over bytes has it.
type sized struct {
	*Pattern
	x   int64  // bytes of each message, or of all where messages of some pattern differ
	way string // who sends to whom, and how where that differs
	ns  Num    // median over the runs
}

// rate is the bytes of all messages over the median time.
func (s sized) rate(ns Num) Num { return ratio(float64(s.Bytes)*1e9, float64(ns)) }

// sizes are the patterns of a result none of which ran both alone and in a workload. Where all messages of each are
// equal, byMessage is true and they stand at the bytes of a message.
func (f *Figures) sizes() (list []sized, byMessage bool) {
	if f.Slowdown.Known() {
		return nil, false
	}
	d := f.Document
	differ := func(of func(p result.Pattern) string) bool {
		return slices.ContainsFunc(d.Patterns, func(p result.Pattern) bool { return of(p) != of(d.Patterns[0]) })
	}
	ops := differ(func(p result.Pattern) string { return p.Op })
	memories := differ(func(p result.Pattern) string { return p.Mem })
	byMessage = true
	for i := range f.Patterns {
		p, cells := &f.Patterns[i], d.Matrices[d.Patterns[i].Matrix].Cells
		s := sized{Pattern: p, x: p.Bytes, ns: p.LatencyNS, way: fmt.Sprintf("%d senders, %d receivers", p.Senders, p.Receivers)}
		if !s.ns.Known() {
			s.ns = p.IsolatedNS
		}
		if len(cells) == 0 || !s.ns.Known() {
			continue
		}
		if len(cells) == 1 {
			s.way = fmt.Sprintf("%d \u2192 %d", cells[0][0], cells[0][1])
		}
		if ops {
			s.way += ", " + p.Op
		}
		if memories {
			s.way += ", " + p.Mem
		}
		equal := !slices.ContainsFunc(cells, func(c [3]int64) bool { return c[2] != cells[0][2] })
		byMessage = byMessage && equal
		list = append(list, s)
	}
	for i := range list {
		if byMessage {
			list[i].x = list[i].Bytes / int64(list[i].Messages)
		}
	}
	slices.SortStableFunc(list, func(a, b sized) int { return cmp.Compare(a.x, b.x) })
	return list, byMessage
}

// ways are the different ways of traffic, in the order of their patterns.
func ways(list []sized) (names []string) {
	for _, s := range list {
		if !slices.Contains(names, s.way) {
			names = append(names, s.way)
		}
	}
	return names
}

// sizesCharts draws patterns that never ran alone: bandwidth and latency over bytes. Patterns of one size have bars.
func sizesCharts(f *Figures) []Chart {
	list, byMessage := f.sizes()
	if len(list) == 0 {
		return nil
	}
	axis := Axis{Label: "Bytes of a pattern", Unit: "bytes", Log: true}
	if byMessage {
		axis.Label = "Bytes of a message"
	}
	first, last := list[0].x, list[len(list)-1].x
	bars := first == last && len(list) <= mostBars
	names := ways(list)
	joined := len(names) > mostWays
	if bars || joined {
		names = []string{"patterns"}
	}
	if bars {
		axis = Axis{Label: list[0].moved()}
	}
	rates, times := make([]Series, len(names)), make([]Series, len(names))
	for i, name := range names {
		rates[i].Name, times[i].Name = name, name
	}
	for i, s := range list {
		k := max(slices.Index(names, s.way), 0)
		x, name := Num(s.x), ""
		if bars {
			x, axis.Words = Num(i), append(axis.Words, s.named())
		}
		if joined {
			name = s.named()
		}
		rates[k].Points = append(rates[k].Points, Point{x, s.rate(s.ns), s.rate(s.P90NS), s.rate(s.P10NS), name})
		times[k].Points = append(times[k].Points, Point{x, s.ns, s.P10NS, s.P90NS, name})
	}
	rate := Chart{Title: "Bandwidth", X: axis, Y: Axis{Label: "bytes / time", Unit: "bytes/s"}, Series: rates}
	host := !slices.ContainsFunc(list, func(s sized) bool { return s.Mem != "dram" })
	if byMessage && host {
		rate.Limits = copyLimits(f.Document, first, last)
	}
	time := Chart{Title: "Latency", X: axis, Y: Axis{Label: "first start to last end", Unit: "ns", Log: !bars},
		Series: times}
	return []Chart{rate, time}
}

// named is the pattern's name, or its number where it has none.
func (s sized) named() string {
	return cmp.Or(s.Name, fmt.Sprintf("pattern %d", s.Index))
}

// copyLimits is how fast one thread copies so many bytes inside the host's memory, where all ranks are on one host and
// that was measured. Sizes between those measured lie on a line over the logarithm of bytes; beyond them is nothing.
func copyLimits(d *result.Document, first, last int64) []Limit {
	if len(d.World.Hosts) != 1 {
		return nil
	}
	copies := d.World.Hosts[0].Memcpy
	l := Limit{Name: "memcpy of one thread"}
	for i, c := range copies {
		if i > 0 {
			b := copies[i-1]
			for _, end := range slices.Compact([]int64{first, last}) {
				if part := math.Log(float64(end)/float64(b.Bytes)) / math.Log(float64(c.Bytes)/float64(b.Bytes)); part > 0 && part < 1 {
					l.Points = append(l.Points, Point{X: Num(end), Y: Num(b.Rate + part*(c.Rate-b.Rate)), Low: None, High: None})
				}
			}
		}
		if first <= c.Bytes && c.Bytes <= last {
			l.Points = append(l.Points, Point{X: Num(c.Bytes), Y: Num(c.Rate), Low: None, High: None})
		}
	}
	if len(l.Points) == 0 {
		return nil
	}
	return []Limit{l}
}

// saySizes sums up patterns that never ran alone. It names no best size: between sizes that are nearly equal chance
// decides.
func saySizes(f *Figures, say sayer) {
	list, byMessage := f.sizes()
	if len(list) == 0 {
		say("note", "No pattern was measured both alone and in a workload, so nothing can be said of contention.")
		return
	}
	first, last, names := list[0], list[len(list)-1], ways(list)
	switch {
	case first.x == last.x && len(list) <= 2:
		text := ""
		for i, s := range list {
			text += []string{"", "; "}[i] + s.told()
		}
		say("note", "%s.", text)
	case len(names) <= 2 && byMessage:
		text := ""
		for i, name := range names {
			of := slices.DeleteFunc(slices.Clone(list), func(s sized) bool { return s.way != name })
			a, b := of[0], of[len(of)-1]
			text += fmt.Sprintf("%s%s: %s for %s, %s for %s, up to %s/s", []string{"", "; "}[i], name, Duration(a.ns),
				bytesText(a.x), Duration(b.ns), bytesText(b.x), size.Decimal(float64(fastest(of))))
		}
		say("note", "%s.", text)
	default:
		of := func(a, b sized) int { return cmp.Compare(a.ns, b.ns) }
		quick, slow := slices.MinFunc(list, of), slices.MaxFunc(list, of)
		say("note", "%s: %s (%s) to %s (%s), up to %s/s.", cli.Count(len(list), "pattern"), Duration(quick.ns),
			quick.named(), Duration(slow.ns), slow.named(), size.Decimal(float64(fastest(list))))
	}
	if c := f.Contention; c.Overlapped > 0 {
		say("note", "%d of %d messages overlapped with other patterns. None ran alone, so nothing can be said of contention.",
			c.Overlapped, c.Messages)
	}
}

// fastest is the largest bandwidth of patterns.
func fastest(list []sized) (most Num) {
	for _, s := range list {
		most = max(most, s.rate(s.ns))
	}
	return most
}

// told is a sentence on one pattern, without its full stop.
func (s sized) told() string {
	spread := ""
	if runs := max(s.Runs, s.IsolatedRuns); runs >= enoughRuns {
		spread = fmt.Sprintf(", 8 of 10 runs within %s to %s", Duration(s.P10NS), Duration(s.P90NS))
	}
	return fmt.Sprintf("%s: %s for %s%s (%s/s)", s.way, Duration(s.ns), s.moved(), spread,
		size.Decimal(float64(s.rate(s.ns))))
}

// moved says how much a run of the pattern moves.
func (s sized) moved() string {
	switch {
	case s.Messages == 1:
		return bytesText(s.x)
	case s.x*int64(s.Messages) == s.Bytes:
		return cli.Count(s.Messages, "message") + " of " + bytesText(s.x)
	}
	return cli.Count(s.Messages, "message") + ", " + bytesText(s.x)
}

// bytesText writes sizes that were chosen as powers of 1024 or multiples of them, and others with three digits.
func bytesText(n int64) string {
	if n < 1024 || n%1024 == 0 && n/1024 < 1024 || n%(1<<20) == 0 {
		return size.Binary(n)
	}
	return size.Decimal(n)
}

// sizesWhy says what the figures of patterns that never ran alone are.
func sizesWhy(d *result.Document) string {
	why := "Time is from the first initiator's start until the last saw its bytes complete, the median over the runs; " +
		"bandwidth is the bytes of all messages over it."
	if crowded := crowdedHosts(d); crowded != "" {
		return crowded + " waits for a CPU are in these times. " + why
	}
	return why
}

// crowdedHosts names the first host with more ranks than CPUs, up to a colon; nothing without one.
func crowdedHosts(d *result.Document) string {
	for _, h := range d.World.Hosts {
		if h.CPUs > 0 && len(h.Ranks) > h.CPUs {
			return fmt.Sprintf("%s has %s for %d ranks:", h.Name, cli.Count(h.CPUs, "CPU"), len(h.Ranks))
		} else if h.CPUQuota > 0 && h.CPUQuota < float64(len(h.Ranks)) {
			return fmt.Sprintf("%s has a CPU quota of %g for %d ranks:", h.Name, h.CPUQuota, len(h.Ranks))
		}
	}
	return ""
}
