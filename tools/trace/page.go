package trace

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"perigee/internal/kit/page"
	"perigee/internal/kit/version"
	"perigee/internal/trace/figures"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

var pageBody = template.Must(template.New("page").Parse(pageHTML))

// drawn is a trace on the page.
type drawn struct {
	ID, Name, Sentence string // the name without its folders, where that is enough
	Notes              []note
	Sections           []section
}

// section is a table of figures, and what is drawn of them, if anything is.
type section struct {
	ID, Title, Chart string
	Rows             [][2]string
}

// writePage writes one page for all traces, which stand below each other.
func writePage(w io.Writer, all []*figures.TraceFigures) error {
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
		p.Sections = append(p.Sections, page.Section{ID: d.ID + "-answer", Title: d.Name})
	}
	if len(all) == 1 {
		p.Title = list[0].Name + " - perigee"
		for _, s := range list[0].Sections {
			title, _, _ := strings.Cut(s.Title, " (")
			p.Sections = append(p.Sections, page.Section{ID: s.ID, Title: title})
		}
	}
	return p.WriteWith(w, pageBody.Lookup("page"), list)
}

func newDrawn(id, name string, f *figures.TraceFigures) drawn {
	d := drawn{ID: id, Name: name, Sentence: sentence(f), Notes: notes(f)}
	charts := map[string]string{arrivalsTitle: "arrivals", lengthsTitle: "lengths", hitsTitle: "hits"}
	if len(f.Windows) > 0 {
		charts[loadTitle] = "offered"
	}
	for _, r := range rowsOf(f) {
		if n := len(d.Sections); n == 0 || d.Sections[n-1].Title != r.section {
			s := section{ID: fmt.Sprintf("%s-%d", id, n), Title: r.section, Chart: charts[r.section]}
			d.Sections = append(d.Sections, s)
		}
		last := &d.Sections[len(d.Sections)-1]
		last.Rows = append(last.Rows, [2]string{r.name, r.text})
	}
	return d
}
