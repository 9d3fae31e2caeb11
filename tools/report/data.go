package report

import (
	"math"
	"slices"
	"strconv"

	"perigee/internal/figures"
	"perigee/internal/result"
)

// pageData holds the figures that the scripts of a page draw: columns instead of objects, and
// no more digits than a chart can show.
type pageData struct {
	Hosts     []hostData        `json:"hosts"`
	HostOf    []int             `json:"hostOf"`
	Patterns  []patternData     `json:"patterns"`
	Pairs     pairData          `json:"pairs"`
	HostPairs pairData          `json:"hostPairs"`
	Latencies []figures.Latency `json:"latencies"`
	Spans     spanData          `json:"spans"`
	// TargetsSleep says that those who only receive, or are read, sleep too before a pattern.
	TargetsSleep bool `json:"targets_sleep"`
}

type hostData struct {
	Name  string `json:"name"`
	Ranks []int  `json:"ranks"`
}

type patternData struct {
	Name     string      `json:"name"`
	Bytes    int64       `json:"bytes"`
	Isolated figures.Num `json:"isolated"`
	Latency  figures.Num `json:"latency"`
	Fastest  figures.Num `json:"fastest"`
	Slowest  figures.Num `json:"slowest"`
	Before   figures.Num `json:"before"`
	After    figures.Num `json:"after"`
	Op       string      `json:"op"`
}

type pairData struct {
	From      []int         `json:"from"`
	To        []int         `json:"to"`
	Bytes     []int64       `json:"bytes"`
	Messages  []int         `json:"messages"`
	Latency   []figures.Num `json:"latency"`
	Isolated  []figures.Num `json:"isolated"`
	Bandwidth []figures.Num `json:"bandwidth"`
	Slowdown  []figures.Num `json:"slowdown"`
	// Contention is null where none is shown.
	Contention []figures.Num `json:"contention"`
}

// spanData holds spans by column. Start is the difference to the span before.
type spanData struct {
	Rank      []int   `json:"rank"`
	Pattern   []int   `json:"pattern"`
	Iteration []int   `json:"iteration"`
	Target    []int   `json:"target"`
	Start     []int64 `json:"start"`
	Took      []int64 `json:"took"`
	Bytes     []int64 `json:"bytes"`
}

// short keeps four digits.
func short(n figures.Num) figures.Num {
	if !n.Known() || n == 0 {
		return n
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(float64(n)))))
	if math.IsInf(scale, 0) || scale == 0 {
		return n
	}
	return figures.Num(math.Round(float64(n)*scale) / scale)
}

// hundredths rounds a ratio as all of the page shows it. To round it to other digits first would show 1.9149 as 1.92
// in a chart and as 1.91 in a table.
func hundredths(n figures.Num) figures.Num {
	if !n.Known() {
		return n
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'f', 2, 64), 64)
	if err != nil {
		return n
	}
	return figures.Num(rounded)
}

// dataOf makes the columns of the page's charts. Starts of spans are differences, which take fewer digits.
func dataOf(f *figures.Figures) pageData {
	d := pageData{HostOf: make([]int, len(f.Ranks)), Latencies: f.Latencies,
		Patterns: []patternData{}}
	d.TargetsSleep = slices.ContainsFunc(f.Document.Patterns, func(p result.Pattern) bool { return p.Meet == "all" })
	names := f.HostNames()
	for i, h := range f.Document.World.Hosts {
		d.Hosts = append(d.Hosts, hostData{names[i], h.Ranks})
	}
	for i, r := range f.Ranks {
		d.HostOf[i] = r.Host
	}
	for _, p := range f.Patterns {
		name := p.Name
		if p.Request != "" {
			name = p.Label()
		}
		d.Patterns = append(d.Patterns, patternData{
			name, p.Bytes, short(p.IsolatedNS), short(p.LatencyNS), short(p.FastestNS),
			short(p.SlowestNS),
			p.SleepBeforeNS, p.SleepAfterNS, p.Op,
		})
	}
	for _, p := range f.Pairs {
		d.Pairs.add(p.From, p.To, p.Bytes, p.Messages, p.LatencyNS, p.IsolatedNS, p.Bandwidth, p.Slowdown)
		d.Pairs.Contention = append(d.Pairs.Contention, hundredths(p.Contention))
	}
	for _, p := range f.HostPairs {
		d.HostPairs.add(p.From, p.To, p.Bytes, p.Messages, p.LatencyNS, figures.None, p.Bandwidth, p.Slowdown)
		d.HostPairs.Contention = append(d.HostPairs.Contention, figures.None)
	}
	var before int64
	for _, s := range f.Timeline.Spans {
		d.Spans.add(s, before)
		before = s.StartNS
	}
	return d
}

func (d *pairData) add(from, to int, bytes int64, messages int, latency, isolated, bandwidth, slowdown figures.Num) {
	d.From, d.To, d.Bytes, d.Messages = append(d.From, from), append(d.To, to), append(d.Bytes, bytes),
		append(d.Messages, messages)
	d.Latency, d.Isolated = append(d.Latency, short(latency)), append(d.Isolated, short(isolated))
	d.Bandwidth, d.Slowdown = append(d.Bandwidth, short(bandwidth)), append(d.Slowdown, hundredths(slowdown))
}

func (d *spanData) add(s figures.Span, before int64) {
	target := 0
	if s.Target {
		target = 1
	}
	d.Rank, d.Pattern, d.Iteration, d.Target = append(d.Rank, s.Rank), append(d.Pattern, s.Pattern),
		append(d.Iteration, s.Iteration), append(d.Target, target)
	d.Start, d.Took, d.Bytes = append(d.Start, s.StartNS-before), append(d.Took, s.EndNS-s.StartNS),
		append(d.Bytes, s.Bytes)
}
