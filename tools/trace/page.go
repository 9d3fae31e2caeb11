package trace

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"perigee/internal/page"
	"perigee/internal/size"
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

type fact struct{ Name, Value, More string }

// definition is one of the hit ratio, with its values: of an infinite cache, then of each size of LRU cache.
type definition struct {
	Name   string
	Values []string
	Words  string
}

// writePage writes one page for all traces, which stand below each other, under its name.
func writePage(w io.Writer, all []*figures.Figures) error {
	p := page.Page{
		Title: fmt.Sprintf("%d traces - perigee", len(all)), Generator: "perigee " + version.Get().Version,
		Styles: []string{pageCSS}, Scripts: []string{pageJS},
		Footer: template.HTML("Times count from the first request; 1 GB is 10^9 bytes. --format json has all figures."),
	}
	var list []drawn
	for i, f := range all {
		d := newDrawn(fmt.Sprintf("t%d", i), short(f.Name, all), f)
		list = append(list, d)
		p.Data = append(p.Data, page.Data{ID: d.ID, Value: f})
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
	d.Facts = []fact{{"Rate", rate, "over the span"}, {"Instants", counted(f.Arrivals.Distinct), "distinct timestamps"}}
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

// definitions are hit ratios, each of which people call the hit ratio.
func definitions(h *figures.Hits) []definition {
	if h == nil {
		return nil
	}
	row := func(name string, infinite float64, of func(figures.LRU) float64, words string) definition {
		r := definition{Name: name, Words: words, Values: []string{ratio(infinite)}}
		for _, l := range h.LRU {
			if of == nil {
				r.Values = append(r.Values, "–")
			} else {
				r.Values = append(r.Values, ratio(of(l)))
			}
		}
		return r
	}
	tailLast := func(l figures.LRU) float64 { return l.TailLast }
	return []definition{
		row("Token-weighted", h.Token, tailLast, "Tokens of hit blocks / tokens of all prompts; a last block that is not "+
			"full counts with the tokens it has. LRU: tail last, so a prompt's head goes first."),
		row("Full blocks only", h.FullBlocks, nil, "The same, but blocks that are not full never hit, as in engines that share "+
			"whole blocks."),
		row("Block-weighted", h.Block, nil, "Hit blocks / all references to blocks; a short last block weighs as much as a full "+
			"one."),
		row("Any position", h.AnyPosition, nil, "Blocks seen before / all references, whether or not the blocks before them were "+
			"seen: what a store of pages finds, not a prefix cache."),
		row("Request-weighted", h.Request, func(l figures.LRU) float64 { return l.Request }, "The mean over requests of hit "+
			"tokens / tokens; short prompts weigh as much as long ones. LRU: tail last."),
		row("Token-weighted, head last", h.Token, func(l figures.LRU) float64 { return l.HeadLast }, "As the first, but in an "+
			"LRU cache a prompt uses its blocks from the tail, so its tail goes first."),
	}
}

// offeredText is a load: "5.365800 GB/s (18,978,415,968,256 B)".
func offeredText(o figures.Offered) string {
	if o.GBPerS == nil {
		return counted(o.Bytes) + " B"
	}
	return fmt.Sprintf("%.6f GB/s (%s B)", *o.GBPerS, counted(o.Bytes))
}

// counted writes all digits of a whole number, in groups of three.
func counted(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
