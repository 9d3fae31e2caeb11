package trace

import (
	"fmt"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/trace/figures"
)

// The headings of sections that have a picture on the page.
const (
	arrivalsTitle = "Arrivals"
	lengthsTitle  = "Lengths (tokens, nearest rank)"
	hitsTitle     = "Hit ratio of a prefix cache"
	loadTitle     = "Load of the prompts, each at its arrival"
)

// rows are the figures of a trace as text. A trace has no rows of what it has not got.
type rows struct {
	list []row
	last place
}

// row is a figure at its place.
type row struct {
	place
	text string
}

// place is where a figure stands: the heading of its section, the name above it that is not indented, and its name.
type place struct{ section, above, name string }

func (r *rows) section(name string) { r.last = place{section: name} }

// add adds a figure below the last one.
func (r *rows) add(name, text string) {
	if r.last.name = name; !strings.HasPrefix(name, " ") {
		r.last.above = name
	}
	r.list = append(r.list, row{r.last, text})
}

// rowsOf writes all figures of a trace.
func rowsOf(f *figures.Figures) []row {
	var r rows
	r.addArrivals(f)
	r.section(lengthsTitle)
	r.addLengths("prompts", f.Input)
	if f.Output != nil {
		r.addLengths("answers", *f.Output)
	}
	if f.Blocks != nil {
		r.addBlocks(f.Blocks)
		r.addHits(f.Hits)
	}
	r.addLoad(f)
	return r.list
}

func (r *rows) addArrivals(f *figures.Figures) {
	r.section(arrivalsTitle)
	r.add("requests", whole(f.Requests))
	if f.Outside > 0 {
		r.add("outside of --from and --to, not counted", fmt.Sprintf("%d of %d", f.Outside, f.Outside+f.Requests))
	}
	r.add("format", f.Format)
	r.add("timestamps in", f.Unit)
	r.add("span (s)", number(f.SpanS))
	a := f.Arrivals
	if a.RatePerS != nil {
		r.add("requests per second", four(*a.RatePerS))
	}
	r.add("distinct timestamps", whole(a.Distinct))
	r.add("equal neighbours", whole(a.Equal))
	if a.GapCV != nil {
		r.add("gaps: standard deviation / mean (population)", four(*a.GapCV))
	}
	if m := a.Minutes; m != nil {
		r.add("full minutes", whole(m.Full))
		r.add("  requests in each: mean", fmt.Sprintf("%.2f", m.Mean))
		r.add("  min / max / p50 / p99", fmt.Sprintf("%d / %d / %d / %d", m.Min, m.Max, m.P50, m.P99))
		r.add("  requests after the last one", whole(m.Rest))
	}
	g := a.Grid
	if g == nil {
		r.add("grid of timestamps", "none")
		return
	}
	r.add("grid of timestamps", gridText(g))
	r.add("  the farthest off its tick (ms)", number(g.OffMS))
	r.add("  requests of a tick: mean", four(g.Mean))
	r.add("  their variance / mean (1: as Poisson's)", four(g.Dispersion))
	r.add("  prompt tokens of a tick: mean", four(g.MeanTokens))
	r.add("  p99 / max", fmt.Sprintf("%d / %d", g.P99Tokens, g.MaxTokens))
}

func (r *rows) addLengths(what string, l figures.Lengths) {
	r.add(what+": sum", whole(l.Sum))
	r.add("  mean", four(l.Mean))
	r.add("  p50 / p90 / p99 / max", fmt.Sprintf("%d / %d / %d / %d", l.P50, l.P90, l.P99, l.Max))
}

func (r *rows) addBlocks(b *figures.Blocks) {
	r.section("Blocks of prompts (hash ids)")
	r.add("tokens of a block", whole(b.Tokens))
	r.add("references", whole(b.References))
	r.add("distinct", whole(b.Distinct))
	r.add("used once", whole(b.UsedOnce))
	r.add("  of the distinct ones", ratio(b.UsedOnceShare))
	r.add("hottest: id", whole(b.Hottest))
	r.add("  requests that have it", whole(b.HottestRequests))
	for _, c := range b.Checks {
		if c.Broken == 0 {
			r.add(c.Rule, "holds")
		} else {
			r.add(c.Rule, fmt.Sprintf("broken by %s, first in line %d", cli.Count(c.Broken, "request"), c.Line))
		}
	}
}

func (r *rows) addHits(h *figures.Hits) {
	r.section(hitsTitle)
	r.add("infinite: hit tokens, partial last blocks included", whole(h.HitTokens))
	r.add("  token-weighted: hit tokens / prompt tokens", ratio(h.Token))
	r.add("  full blocks only: their hit tokens / prompt tokens", ratio(h.FullBlocks))
	r.add("  block-weighted: hit blocks / references", ratio(h.Block))
	r.add("  blocks seen before at any position / references", ratio(h.AnyPosition))
	r.add("  request-weighted: mean of each request's token ratio", ratio(h.Request))
	r.add("  requests with a hit", whole(h.RequestsWithHit))
	r.add("  requests fully hit", whole(h.RequestsFully))
	for _, l := range h.LRU {
		r.add(fmt.Sprintf("LRU of %d blocks: token-weighted, a prompt's tail used last", l.Blocks), ratio(l.TailLast))
		r.add("  token-weighted, its head used last", ratio(l.HeadLast))
		r.add("  request-weighted, its tail used last", ratio(l.Request))
	}
}

func (r *rows) addLoad(f *figures.Figures) {
	r.section(loadTitle)
	for _, w := range f.Windows {
		r.add(fmt.Sprintf("busiest %s s from the start: prompt tokens", number(w.LengthS)), whole(w.Tokens))
		r.add("  peak / mean over the span", three(w.PeakToMean))
		r.add("  begins at (s)", number(w.StartS))
	}
	l := f.Load
	if l == nil {
		return
	}
	r.add("KV caches: model, precision", l.Model+", "+precision(l))
	if text := served(l); text != "" {
		r.add("  they move", text)
	}
	r.addOffered("  all prompts", l.Prompt)
	if l.Miss != nil {
		r.addOffered("  missing in an infinite prefix cache", *l.Miss)
	}
	for _, w := range l.Windows {
		name := fmt.Sprintf("  all prompts, busiest %s s", number(w.LengthS))
		r.add(name+": bytes", whole(w.Bytes))
		r.add(name+": GB/s", three(w.GBPerS))
		r.add(name+": peak / mean over the span", three(w.PeakToMean))
	}
	if l.MaxTick > 0 {
		r.add("  all prompts, busiest tick: bytes", whole(l.MaxTick))
	}
	if l.Fit != nil {
		r.addFit(l.Fit)
	}
}

func (r *rows) addOffered(name string, o figures.Offered) {
	r.add(name+": bytes", whole(o.Bytes))
	if o.GBPerS != nil {
		r.add(name+": GB/s (10^9 B) over the span", ratio(*o.GBPerS))
	}
}
