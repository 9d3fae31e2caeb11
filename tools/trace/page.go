package trace

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/page"
	"perigee/internal/size"
	"perigee/internal/trace"
	"perigee/internal/trace/figures"
	"perigee/internal/version"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var pageBody = template.Must(template.New("page").Funcs(template.FuncMap{
	"count": counted, "offered": offeredText,
	"percent": func(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) },
}).Parse(pageHTML))

// drawn is a trace on the page.
type drawn struct {
	ID       string // of its data, and the beginning of its parts'
	Name     string // without its folders, where that is enough
	F        *figures.Figures
	About    string // how the file was understood
	Sentence string
	Notes    []note
	Facts    []fact
	Peaks    [][]string // of the load, a row for each length of window
	Ratios   []definition
}

// note is what readers must know before they use the figures. Level is "warn", or "" where nothing is at stake.
type note struct{ Level, Text string }

type fact struct{ Name, Value, More string }

// definition is one of the hit ratio, with its values: of an infinite cache, then of each size of LRU cache.
type definition struct {
	Name   string
	Values []string
	Words  string
}

// closeUp holds the requests of a short window, at each instant that has any.
type closeUp struct {
	StartS   float64   `json:"start_s"`
	LengthS  float64   `json:"length_s"`
	AtS      []float64 `json:"at_s"`
	Requests []int64   `json:"requests"`
	Tokens   []int64   `json:"input_tokens"`
}

// writePage writes one page for all traces, which stand below each other, each with its close-up.
func writePage(w io.Writer, all []*figures.Figures, closeUps []*closeUp) error {
	p := page.Page{
		Title: fmt.Sprintf("%d traces - perigee", len(all)), Generator: "perigee " + version.Get().Version,
		Styles: []string{pageCSS}, Scripts: []string{pageJS},
		Footer: template.HTML("Times count from the first request; 1 GB is 10^9 bytes. --format json has all figures."),
	}
	var list []drawn
	for i, f := range all {
		d := newDrawn(fmt.Sprintf("t%d", i), short(f.Name, all), f)
		list = append(list, d)
		p.Data = append(p.Data, page.Data{ID: d.ID, Value: struct {
			*figures.Figures
			Close *closeUp `json:"close"`
		}{f, closeUps[i]}})
		if len(all) > 1 {
			p.Sections = append(p.Sections, page.Section{ID: d.ID + "-answer", Title: d.Name})
		}
	}
	if len(all) == 1 {
		p.Title = list[0].Name + " - perigee"
		p.Sections = []page.Section{{ID: "t0-answer", Title: "Summary"}, {ID: "t0-load", Title: "Load"},
			{ID: "t0-lengths", Title: "Lengths"}, {ID: "t0-hits", Title: "Hit ratios"}}
		if len(list[0].Peaks) == 0 {
			p.Sections = append(p.Sections[:1], p.Sections[2:]...)
		}
	}
	var body strings.Builder
	if err := pageBody.ExecuteTemplate(&body, "page", list); err != nil {
		return err
	}
	p.Body = template.HTML(body.String())
	return p.Write(w)
}

// newCloseUp takes the busiest minute, or the longest window that the trace has, from the requests of its file. It is
// nil if there is no window, and ends early where it has too many instants for a picture.
func newCloseUp(f *figures.Figures, requests []trace.Request) *closeUp {
	if len(f.Windows) == 0 {
		return nil
	}
	const most = 4000
	longest := f.Windows[len(f.Windows)-1]
	c := &closeUp{StartS: longest.StartS, LengthS: longest.LengthS}
	from, first := time.Duration(0), time.Duration(-1)
	if f.FromS != nil {
		from = duration(*f.FromS)
	}
	for _, r := range requests {
		if r.At < from {
			continue
		}
		if first < 0 {
			first = r.At
		}
		at := (r.At - first).Seconds()
		if f.ToS != nil && r.At > duration(*f.ToS) || at >= c.StartS+c.LengthS {
			break
		}
		if at < c.StartS {
			continue
		}
		n := len(c.AtS)
		if n == 0 || c.AtS[n-1] != at {
			if n == most {
				c.LengthS = at - c.StartS
				break
			}
			c.AtS, c.Requests, c.Tokens, n = append(c.AtS, at), append(c.Requests, 0), append(c.Tokens, 0), n+1
		}
		c.Requests[n-1]++
		c.Tokens[n-1] += r.Input
	}
	return c
}

func duration(seconds float64) time.Duration { return time.Duration(seconds*1e9 + 0.5) }

func newDrawn(id, name string, f *figures.Figures) drawn {
	d := drawn{ID: id, Name: name, F: f, About: f.Format, Sentence: sentence(f), Notes: notes(f),
		Ratios: definitions(f.Hits)}
	if f.Unit != "date" {
		d.About += ", timestamps in " + f.Unit
	}
	rate := "all at once"
	if r := f.Arrivals.RatePerS; r != nil {
		rate = fmt.Sprintf("%.4g per second", *r)
	}
	d.Facts = []fact{
		{"Requests", counted(f.Requests), rate},
		{"Span", number(f.SpanS) + " s", "from the first request to the last"},
		{"Instants", counted(f.Arrivals.Distinct), "distinct timestamps"},
		{"Input tokens", counted(f.Input.Sum), fmt.Sprintf("mean %.2f, p50 %s", f.Input.Mean, counted(f.Input.P50))},
	}
	if f.Output != nil {
		d.Facts = append(d.Facts, fact{"Output tokens", counted(f.Output.Sum),
			fmt.Sprintf("mean %.2f, p50 %s", f.Output.Mean, counted(f.Output.P50))})
	}
	if cv := f.Arrivals.GapCV; cv != nil {
		d.Facts = append(d.Facts, fact{"Gap CV", four(*cv), "deviation / mean of gaps; Poisson: 1"})
	}
	if m := f.Arrivals.Minutes; m != nil {
		d.Facts = append(d.Facts, fact{"Requests a minute", fmt.Sprintf("%d to %d", m.Min, m.Max),
			fmt.Sprintf("mean %.2f of %d full minutes", m.Mean, m.Full)})
	}
	for i, w := range f.Windows {
		row := []string{number(w.LengthS) + " s", number(w.StartS) + " s", counted(w.Tokens)}
		if l := f.Load; l != nil { // its windows have the same lengths, and begin where most bytes are
			b := l.Windows[i]
			row[1] = number(b.StartS) + " s"
			row = append(row, size.Decimal(b.Bytes), ratio(b.GBPerS), three(b.PeakToMean))
		} else {
			row = append(row, counted(int64(float64(w.Tokens)/w.LengthS+0.5)), three(w.PeakToMean))
		}
		d.Peaks = append(d.Peaks, row)
	}
	return d
}

// LoadWords says what the load is of.
func (d drawn) LoadWords() string {
	text := "Whatever a network carries on average, its queues grow in the busiest windows: how full it is depends on the " +
		"time scale. Windows follow each other from the first request on. "
	if l := d.F.Load; l != nil {
		return text + fmt.Sprintf("Bytes are those of the KV caches of whole prompts, %s in %s, each offered when its request "+
			"comes.", l.Model, l.CacheDType)
	}
	return text + "--model NAME counts in bytes of its KV cache."
}

// BlockWords says how large a block is.
func (d drawn) BlockWords() string {
	text := fmt.Sprintf("A block has %d tokens", d.F.Blocks.Tokens)
	if l := d.F.Load; l != nil && d.F.Input.Sum > 0 {
		perToken := float64(l.Prompt.Bytes) / float64(d.F.Input.Sum)
		text += fmt.Sprintf(", which are %s of %s (%s a token, the mean of all prompts)",
			size.Decimal(perToken*float64(d.F.Blocks.Tokens)), l.Model, fmt.Sprintf("%.0f B", perToken))
	}
	return text + "."
}

// sentence is the trace in a few words.
func sentence(f *figures.Figures) string {
	requests := strings.Replace(cli.Count(f.Requests, "request"), fmt.Sprint(f.Requests), counted(f.Requests), 1)
	text := fmt.Sprintf("%s in %s, %s input tokens", requests, spanText(f.SpanS), rounded(f.Input.Sum))
	if f.Hits != nil {
		text += fmt.Sprintf(", of which an infinite prefix cache finds %.1f %%", 100*f.Hits.Token)
	}
	l := f.Load
	if l != nil && l.Prompt.GBPerS != nil {
		text += fmt.Sprintf("; as KV caches of %s they are %.4g GB/s on average", l.Model, *l.Prompt.GBPerS)
	}
	switch {
	case len(f.Windows) < 2:
		return text + "."
	case l == nil:
		return text + fmt.Sprintf("; the busiest second has %.3g times the mean.", f.Windows[1].PeakToMean)
	}
	second := l.Windows[1]
	return text + fmt.Sprintf(", and %.4g GB/s in the busiest second, %.3g times as much.", second.GBPerS, second.PeakToMean)
}

// notes are what a reader of the figures must know of the file.
func notes(f *figures.Figures) (list []note) {
	if g := f.Arrivals.Grid; g != nil {
		n := note{"", fmt.Sprintf("Timestamps stand on a %s.", gridText(g))}
		if bunched(g) {
			n.Level = "warn"
			n.Text += fmt.Sprintf(" A replay of them as they are sends all requests of a tick at once, up to %s input tokens; "+
				"when they came within it was not recorded. perigee replay --spread draws times within the ticks.", counted(g.MaxTokens))
		}
		list = append(list, n)
	}
	if f.UnitAssumed {
		list = append(list, note{"warn", fmt.Sprintf("The unit of the timestamps, %s, is an assumption from their rate; "+
			"--trace-unit sets it.", f.Unit)})
	}
	for _, text := range f.Notes {
		list = append(list, note{"", text + "."})
	}
	if f.Outside > 0 {
		list = append(list, note{"", fmt.Sprintf("%s requests outside of --from and --to count for nothing on this page.",
			counted(f.Outside))})
	}
	return list
}

// definitions are seven hit ratios, each of which people call the hit ratio.
func definitions(h *figures.Hits) []definition {
	if h == nil {
		return nil
	}
	row := func(name string, infinite float64, of func(figures.LRU) float64, words string) definition {
		r := definition{Name: name, Words: words, Values: []string{"–"}}
		if infinite >= 0 {
			r.Values[0] = ratio(infinite)
		}
		for _, l := range h.LRU {
			if of == nil {
				r.Values = append(r.Values, "–")
			} else {
				r.Values = append(r.Values, ratio(of(l)))
			}
		}
		return r
	}
	return []definition{
		row("Token-weighted", h.Token, nil, "Tokens of hit blocks / tokens of all prompts; a last block that is not full "+
			"counts with the tokens it has."),
		row("Full blocks only", h.FullBlocks, nil, "The same, but blocks that are not full never hit, as in engines that share "+
			"whole blocks."),
		row("Block-weighted", h.Block, nil, "Hit blocks / all references to blocks; a short last block weighs as much as a full "+
			"one."),
		row("Any position", h.AnyPosition, nil, "Blocks seen before / all references, whether or not the blocks before them were "+
			"seen: what a store of pages finds, not a prefix cache."),
		row("Request-weighted", h.Request, func(l figures.LRU) float64 { return l.Request }, "The mean over requests of hit "+
			"tokens / tokens; short prompts weigh as much as long ones. LRU: tail last."),
		row("LRU, tail last", -1, func(l figures.LRU) float64 { return l.TailLast }, "Token-weighted, of a cache of so many "+
			"blocks; a prompt uses its blocks from the head, so its head goes first."),
		row("LRU, head last", -1, func(l figures.LRU) float64 { return l.HeadLast }, "The same, but a prompt uses its blocks "+
			"from the tail, so its tail goes first."),
	}
}

// offeredText is a load: "5.365800 GB/s (18,978,415,968,256 B)".
func offeredText(o figures.Offered) string {
	if o.GBPerS == nil {
		return counted(o.Bytes) + " B"
	}
	return fmt.Sprintf("%.6f GB/s (%s B)", *o.GBPerS, counted(o.Bytes))
}

// spanText is a time as people say it.
func spanText(seconds float64) string {
	switch {
	case seconds >= 2*3600:
		return fmt.Sprintf("%.3g hours", seconds/3600)
	case seconds >= 120:
		return fmt.Sprintf("%.3g minutes", seconds/60)
	}
	return fmt.Sprintf("%.4g s", seconds)
}

// rounded is a number of tokens with three digits: "145 million".
func rounded(n int64) string {
	for _, unit := range []struct {
		factor float64
		name   string
	}{{1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}} {
		if float64(n) >= unit.factor {
			return fmt.Sprintf("%.4g %s", float64(n)/unit.factor, unit.name)
		}
	}
	return counted(n)
}

// counted writes all digits of a whole number, in groups of three.
func counted(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
