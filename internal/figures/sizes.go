package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

const (
	// mostWays is how many ways of traffic have a series each, mostBars how many things have a bar each.
	mostWays = 6
	mostBars = 40
	// enoughRuns is from how many runs on 8 of 10 of them are more than most of them.
	enoughRuns = 10
)

// sized is a pattern as a chart over bytes has it.
type sized struct {
	*PatternFigures
	x     int64  // bytes of each message, or of all where messages of some pattern differ
	way   string // sender and receiver, or how many; op and memory where they differ
	ns    Num    // median over the runs
	equal bool   // messages
}

// rate is the bytes of all messages over the median time.
func (s sized) rate(ns Num) Num { return ratio(float64(s.Bytes)*1e9, float64(ns)) }

// sizes are the patterns of a result none of which ran both alone and in a workload, and their different ways. Where
// all messages of each are equal, byMessage is true and they stand at the bytes of a message.
func (f *Figures) sizes() (list []sized, ways []string, byMessage bool) {
	if f.Slowdown.Known() {
		return nil, nil, false
	}
	d := f.Document
	differ := func(of func(p result.Pattern) any) bool {
		return slices.ContainsFunc(d.Patterns, func(p result.Pattern) bool { return of(p) != of(d.Patterns[0]) })
	}
	ops := differ(func(p result.Pattern) any { return p.Op })
	memories := differ(func(p result.Pattern) any { return p.Mem })
	counts := differ(func(p result.Pattern) any { return len(d.Matrices[p.Matrix].Cells) })
	equal := make([]bool, len(d.Matrices)) // messages of each; many patterns may share one
	for i, m := range d.Matrices {
		equal[i] = !slices.ContainsFunc(m.Cells, func(c [3]int64) bool { return c[2] != m.Cells[0][2] })
	}
	for i := range f.Patterns {
		p, cells := &f.Patterns[i], d.Matrices[d.Patterns[i].Matrix].Cells
		s := sized{PatternFigures: p, x: p.Bytes, ns: p.LatencyNS}
		s.way = cli.Count(p.Senders, "sender") + ", " + cli.Count(p.Receivers, "receiver")
		if !s.ns.Known() {
			s.ns = p.IsolatedNS
		}
		if len(cells) == 0 || !s.ns.Known() {
			continue
		}
		if len(cells) == 1 {
			s.way = fmt.Sprintf("%d \u2192 %d", cells[0][0], cells[0][1])
		} else if counts {
			s.way += ", " + cli.Count(len(cells), "message")
		}
		if ops {
			s.way += ", " + p.Op
		}
		if memories {
			s.way += ", " + p.Mem
		}
		s.equal = equal[d.Patterns[i].Matrix]
		if list = append(list, s); !slices.Contains(ways, s.way) && len(ways) <= mostWays {
			ways = append(ways, s.way)
		}
	}
	byMessage = !slices.ContainsFunc(list, func(s sized) bool { return !s.equal })
	for i := range list {
		if byMessage {
			list[i].x /= int64(list[i].Messages)
		}
	}
	slices.SortStableFunc(list, func(a, b sized) int { return cmp.Compare(a.x, b.x) })
	return list, ways, byMessage
}

// sizesCharts draws patterns that never ran alone: bandwidth and latency over bytes. Patterns of one size have bars.
func sizesCharts(f *Figures) []Chart {
	list, ways, byMessage := f.sizes()
	if len(list) == 0 {
		return nil
	}
	first, last := list[0].x, list[len(list)-1].x
	bars := first == last && len(list) <= mostBars
	axis := Axis{Label: "Bytes of a pattern", Unit: "bytes", Log: true}
	switch {
	case bars && byMessage:
		axis = Axis{Label: "messages of " + bytesText(first)}
	case bars:
		axis = Axis{Label: bytesText(first) + " in all"}
	case byMessage:
		axis.Label = "Bytes of a message"
	}
	rate := Chart{Title: "Bandwidth", Y: Axis{Label: "bytes / time", Unit: "bytes/s"}}
	time := Chart{Title: "Latency", Y: Axis{Label: "first start to last end", Unit: "ns", Log: !bars}}
	if slices.ContainsFunc(list, func(s sized) bool { return s.Drifts }) {
		time.Y.Label = "first start to last end, or total / iterations"
	}
	for i, s := range list {
		series, x, name := s.way, Num(s.x), ""
		switch {
		case bars:
			series, x, axis.Words = "patterns", Num(i), append(axis.Words, s.title())
		case len(ways) > mostWays:
			series, name = "patterns", s.title()
		}
		rate.add(series, Point{x, s.rate(s.ns), s.rate(s.P90NS), s.rate(s.P10NS), name})
		time.add(series, Point{x, s.ns, s.P10NS, s.P90NS, name})
	}
	rate.X, time.X = axis, axis
	if byMessage && !slices.ContainsFunc(list, func(s sized) bool { return s.Mem != "dram" }) {
		rate.Limits = copyLimits(f.Document, first, last)
	}
	if !slices.ContainsFunc(list, func(s sized) bool { return s.Senders > 1 && s.Receivers > 1 }) {
		rate.Limits = append(rate.Limits, lineLimits(f.Document)...)
	}
	return []Chart{rate, time}
}

// copyLimits is how fast one thread copies so many bytes inside the host's memory, where all ranks are on one host and
// that was measured. Sizes between those measured lie on a line over the logarithm of bytes; beyond them is nothing.
func copyLimits(d *result.Document, first, last int64) []Limit {
	l := Limit{Name: "memcpy of one thread"}
	add := func(bytes int64, rate float64) {
		l.Points = append(l.Points, Point{X: Num(bytes), Y: Num(rate), Low: None, High: None})
	}
	copies := d.World.Hosts[0].Memcpy
	for i, c := range copies {
		for _, end := range slices.Compact([]int64{first, last}) {
			if i > 0 && copies[i-1].Bytes < end && end < c.Bytes {
				b := copies[i-1]
				part := math.Log(float64(end)/float64(b.Bytes)) / math.Log(float64(c.Bytes)/float64(b.Bytes))
				add(end, b.Rate+part*(c.Rate-b.Rate))
			}
		}
		if first <= c.Bytes && c.Bytes <= last {
			add(c.Bytes, c.Rate)
		}
	}
	if len(l.Points) == 0 || len(d.World.Hosts) > 1 {
		return nil
	}
	return []Limit{l}
}

// saySizes sums up patterns that never ran alone. It names no best size: between sizes that are nearly equal chance
// decides.
func saySizes(f *Figures, say sayer) {
	list, ways, byMessage := f.sizes()
	if len(list) == 0 {
		say("note", "No pattern was measured both alone and in a workload, so nothing can be said of contention.")
		return
	}
	var parts []string
	for _, way := range ways {
		of := slices.DeleteFunc(slices.Clone(list), func(s sized) bool { return s.way != way })
		switch a, b := of[0], of[len(of)-1]; {
		case len(of) == 1:
			parts = append(parts, a.told())
		case a.x < b.x && byMessage:
			parts = append(parts, fmt.Sprintf("%s: %s for %s, %s for %s, up to %s", way,
				Duration(a.ns), bytesText(a.x), Duration(b.ns), bytesText(b.x), fastest(of)))
		}
	}
	if len(ways) > 2 || len(parts) < len(ways) {
		of := func(a, b sized) int { return cmp.Compare(a.ns, b.ns) }
		quick, slow := slices.MinFunc(list, of), slices.MaxFunc(list, of)
		parts = []string{fmt.Sprintf("%s: %s (%s) to %s (%s), up to %s", cli.Count(len(list), "pattern"),
			Duration(quick.ns), quick.title(), Duration(slow.ns), slow.title(), fastest(list))}
	}
	say("note", "%s.", strings.Join(parts, "; "))
	if c := f.Contention; c.Overlapped > 0 {
		say("note", "%d of %d messages overlapped with other patterns. None ran alone, so nothing can be said of contention.",
			c.Overlapped, c.Messages)
	}
}

// fastest is the largest bandwidth of patterns.
func fastest(list []sized) string {
	most := slices.MaxFunc(list, func(a, b sized) int { return cmp.Compare(a.rate(a.ns), b.rate(b.ns)) })
	return size.Rate(most.rate(most.ns))
}

// told is a sentence on one pattern, without its full stop.
func (s sized) told() string {
	what, spread := bytesText(s.x), ""
	if s.Messages > 1 {
		what = size.Decimal(s.Bytes)
	}
	if runs := s.Runs + s.IsolatedRuns; s.Drifts {
		spread = fmt.Sprintf(" per iteration, over %s", cli.Count(s.Runs, "iteration"))
	} else if runs >= enoughRuns { // it has only runs of one kind
		spread = fmt.Sprintf(", 8 of 10 of its %d runs within %s to %s", runs, Duration(s.P10NS), Duration(s.P90NS))
	}
	return fmt.Sprintf("%s: %s for %s%s (%s)", s.way, Duration(s.ns), what, spread, fastest([]sized{s}))
}

// bytesText writes sizes that were chosen as multiples of powers of 1024, and others with three digits.
func bytesText(n int64) string {
	if n < 1<<10 || n%(1<<10) == 0 && n < 1<<20 || n%(1<<20) == 0 {
		return size.Binary(n)
	}
	return size.Decimal(n)
}

// sizesWhy says what the figures of patterns that never ran alone are.
func sizesWhy(f *Figures) string {
	d := f.Document
	why := "Time is from the first initiator's start until the last saw its bytes complete, the median over the runs; " +
		"bandwidth is the bytes of all messages over it."
	if !slices.ContainsFunc(d.Matrices, func(m result.Matrix) bool { return len(m.Cells) > 1 }) {
		why = "Time is from the post of a message until its initiator saw it complete, the median over the runs: one way, " +
			"not half of a round trip. Bandwidth is bytes over it."
	}
	const drifts = "initiators do not meet between runs, so they drift apart, and a single run has the drift in its time."
	switch met := func(p PatternFigures) bool { return !p.Drifts }; {
	case !slices.ContainsFunc(f.Patterns, met):
		why = "Time is the total time / iterations, and bandwidth is bytes over it: " + drifts
	case slices.ContainsFunc(f.Patterns, func(p PatternFigures) bool { return p.Drifts }):
		why += " For some patterns time is the total time / iterations: " + drifts
	}
	return strings.TrimSpace(waitsOf(d) + " " + why)
}

// waitsOf says which host has more ranks than CPUs; nothing without one.
func waitsOf(d *result.Document) string {
	if short := d.World.Crowded(); short != "" {
		return short + ": waits for a CPU are in these figures."
	}
	return ""
}
