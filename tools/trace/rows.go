package trace

import (
	"fmt"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/trace/figures"
)

type all = figures.Figures

func minutes(f *all) *figures.Minutes { return f.Arrivals.Minutes }
func gridOf(f *all) *figures.Grid     { return f.Arrivals.Grid }
func input(f *all) *figures.Lengths   { return &f.Input }
func output(f *all) *figures.Lengths  { return f.Output }
func blocksOf(f *all) *figures.Blocks { return f.Blocks }
func hitsOf(f *all) *figures.Hits     { return f.Hits }
func loadOf(f *all) *figures.Load     { return f.Load }

var arrivals = section{"Arrivals", []row{
	{"requests", func(f *all) string { return whole(f.Requests) }},
	{"outside of --from and --to, not counted", func(f *all) string {
		if f.Outside == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d", f.Outside, f.Outside+f.Requests)
	}},
	{"format", func(f *all) string { return f.Format }},
	{"timestamps in", func(f *all) string { return f.Unit }},
	{"span (s)", func(f *all) string { return number(f.SpanS) }},
	{"requests per second", func(f *all) string { return optional(f.Arrivals.RatePerS, four) }},
	{"distinct timestamps", func(f *all) string { return whole(f.Arrivals.Distinct) }},
	{"equal neighbours", func(f *all) string { return whole(f.Arrivals.Equal) }},
	{"gaps: standard deviation / mean (population)", func(f *all) string { return optional(f.Arrivals.GapCV, four) }},
	of("full minutes", minutes, func(m *figures.Minutes) string { return whole(m.Full) }),
	of("requests in each: mean", minutes, func(m *figures.Minutes) string { return fmt.Sprintf("%.2f", m.Mean) }),
	of("  min, max, p50, p99", minutes, func(m *figures.Minutes) string {
		return fmt.Sprint(m.Min, " ", m.Max, " ", m.P50, " ", m.P99)
	}),
	of("  after the last full minute", minutes, func(m *figures.Minutes) string { return whole(m.Rest) }),
	{"grid of timestamps", func(f *all) string {
		if g := f.Arrivals.Grid; g != nil {
			return gridText(g)
		}
		return "none"
	}},
	of("  the farthest off its tick (ms)", gridOf, func(g *figures.Grid) string { return number(g.OffMS) }),
	of("  requests of a tick: mean", gridOf, func(g *figures.Grid) string { return four(g.Mean) }),
	of("  variance / mean (1: as Poisson's)", gridOf, func(g *figures.Grid) string { return four(g.Dispersion) }),
	of("  prompt tokens of a tick: mean", gridOf, func(g *figures.Grid) string { return four(g.MeanTokens) }),
	of("  p99, max", gridOf, func(g *figures.Grid) string { return fmt.Sprint(g.P99Tokens, " ", g.MaxTokens) }),
}}

var lengths = section{"Lengths (tokens, nearest rank)",
	append(lengthRows("prompts", input), lengthRows("answers", output)...)}

func lengthRows(what string, part func(*all) *figures.Lengths) []row {
	return []row{
		of(what+": sum", part, func(l *figures.Lengths) string { return whole(l.Sum) }),
		of("  mean", part, func(l *figures.Lengths) string { return four(l.Mean) }),
		of("  p50, p90, p99, max", part, func(l *figures.Lengths) string {
			return fmt.Sprint(l.P50, " ", l.P90, " ", l.P99, " ", l.Max)
		}),
	}
}

var blocks = section{"Blocks of prompts (hash ids)", append([]row{
	of("tokens of a block", blocksOf, func(b *figures.Blocks) string { return whole(b.Tokens) }),
	of("references", blocksOf, func(b *figures.Blocks) string { return whole(b.References) }),
	of("distinct", blocksOf, func(b *figures.Blocks) string { return whole(b.Distinct) }),
	of("used once", blocksOf, func(b *figures.Blocks) string { return whole(b.UsedOnce) }),
	of("  of the distinct ones", blocksOf, func(b *figures.Blocks) string { return ratio(b.UsedOnceShare) }),
	of("hottest: id", blocksOf, func(b *figures.Blocks) string { return whole(b.Hottest) }),
	of("  requests that have it", blocksOf, func(b *figures.Blocks) string { return whole(b.HottestRequests) }),
}, checkRows()...)}

func checkRows() (rows []row) {
	for i, rule := range figures.Rules {
		rows = append(rows, of(rule, blocksOf, func(b *figures.Blocks) string {
			c := b.Checks[i]
			if c.Broken == 0 {
				return "holds"
			}
			return fmt.Sprintf("broken by %s, first in line %d", cli.Count(c.Broken, "request"), c.Line)
		}))
	}
	return rows
}

var hits = section{"Hit ratio of a prefix cache", append([]row{
	of("infinite: hit tokens, partial last blocks included", hitsOf,
		func(h *figures.Hits) string { return whole(h.HitTokens) }),
	of("  token-weighted: hit tokens / prompt tokens", hitsOf,
		func(h *figures.Hits) string { return ratio(h.Token) }),
	of("  full blocks only: their hit tokens / prompt tokens", hitsOf,
		func(h *figures.Hits) string { return ratio(h.FullBlocks) }),
	of("  block-weighted: hit blocks / references", hitsOf, func(h *figures.Hits) string { return ratio(h.Block) }),
	of("  blocks seen before at any position / references", hitsOf,
		func(h *figures.Hits) string { return ratio(h.AnyPosition) }),
	of("  request-weighted: mean of each request's token ratio", hitsOf,
		func(h *figures.Hits) string { return ratio(h.Request) }),
	of("  requests with a hit", hitsOf, func(h *figures.Hits) string { return whole(h.RequestsWithHit) }),
	of("  requests fully hit", hitsOf, func(h *figures.Hits) string { return whole(h.RequestsFully) }),
}, lruRows()...)}

func lruRows() (rows []row) {
	for i, blocks := range figures.LRUBlocks {
		at := func(h *figures.Hits) figures.LRU { return h.LRU[i] }
		rows = append(rows,
			of(fmt.Sprintf("LRU of %d blocks: token-weighted, a prompt's tail used last", blocks), hitsOf,
				func(h *figures.Hits) string { return ratio(at(h).TailLast) }),
			of("  token-weighted, its head used last", hitsOf,
				func(h *figures.Hits) string { return ratio(at(h).HeadLast) }),
			of("  request-weighted, its tail used last", hitsOf,
				func(h *figures.Hits) string { return ratio(at(h).Request) }))
	}
	return rows
}

var load = section{"Load of the prompts, each at its arrival", []row{
	{"busiest " + scales(len(figures.WindowLengths)) + " s from the start: prompt tokens", each(windows,
		func(w figures.Window) string { return whole(w.Tokens) })},
	{"  peak / mean over the span", each(windows, func(w figures.Window) string { return three(w.PeakToMean) })},
	{"  begin at (s)", each(windows, func(w figures.Window) string { return number(w.StartS) })},
	of("KV caches: model, precision", loadOf, func(l *figures.Load) string { return l.Model + ", " + l.CacheDType }),
	of("  all prompts: bytes", loadOf, func(l *figures.Load) string { return whole(l.Prompt.Bytes) }),
	of("    GB/s (10^9 B) over the span", loadOf,
		func(l *figures.Load) string { return optional(l.Prompt.GBPerS, ratio) }),
	of("  missing in an infinite prefix cache: bytes", missOf,
		func(o *figures.Offered) string { return whole(o.Bytes) }),
	of("    GB/s (10^9 B) over the span", missOf,
		func(o *figures.Offered) string { return optional(o.GBPerS, ratio) }),
	{"  busiest " + scales(len(figures.WindowLengths)) + " s, all prompts: bytes", each(byteWindows,
		func(w figures.ByteWindow) string { return whole(w.Bytes) })},
	{"    GB/s", each(byteWindows, func(w figures.ByteWindow) string { return three(w.GBPerS) })},
	{"    peak / mean over the span", each(byteWindows,
		func(w figures.ByteWindow) string { return three(w.PeakToMean) })},
	of("  busiest tick, all prompts: bytes", loadOf, func(l *figures.Load) string {
		if l.MaxTick == 0 {
			return ""
		}
		return whole(l.MaxTick)
	}),
}}

func missOf(f *all) *figures.Offered {
	if f.Load == nil {
		return nil
	}
	return f.Load.Miss
}

func windows(f *all) []figures.Window { return f.Windows }

func byteWindows(f *all) []figures.ByteWindow {
	if f.Load == nil {
		return nil
	}
	return f.Load.Windows
}

// scales are the lengths of the first n windows in seconds.
func scales(n int) string {
	texts := make([]string, n)
	for i, length := range figures.WindowLengths[:n] {
		texts[i] = number(length.Seconds())
	}
	return strings.Join(texts, " / ")
}

// each is the text of a list, of which a short trace has fewer elements.
func each[T any](list func(*all) []T, text func(T) string) func(*all) string {
	return func(f *all) string {
		var texts []string
		for _, element := range list(f) {
			texts = append(texts, text(element))
		}
		return strings.Join(texts, " / ")
	}
}
