package sheet

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"perigee/internal/kit/page"
)

//go:embed table.html
var tableHTML string

// onPage is parsed when a page is made: the ranks of a job, which are this program too, make none.
var onPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Parse(tableHTML))
})

// tall is from how many rows on a table scrolls on its own.
const tall = 12

// pageCell is a cell as a page has it; Value is what the page sorts by, where that is not the text.
type pageCell struct {
	Text, Value string
	Help        string // of a header
	Number      bool
}

// HTML is the table as a part of a page, without its title and its sentences.
func (t *Sheet) HTML() (template.HTML, error) {
	if t.err != nil {
		return "", t.err
	}
	heads := make([]pageCell, len(t.columns))
	for i, c := range t.columns {
		heads[i] = pageCell{Text: c.header, Number: c.align == Right, Help: strings.ReplaceAll(c.help, "`", "")}
	}
	lines := make([][]pageCell, len(t.rows))
	for r, row := range t.rows {
		for i, cell := range row {
			x := pageCell{Text: t.columns[i].text(cell), Number: heads[i].Number}
			if cell == nil {
				x.Text = "\u2013"
			} else if v := valueOf(cell); x.Number && !isString(v) {
				x.Value = fmt.Sprint(v)
			}
			lines[r] = append(lines[r], x)
		}
	}
	var b strings.Builder
	err := onPage().Execute(&b, struct {
		*Sheet
		Tall  bool
		Heads []pageCell
		Lines [][]pageCell
	}{t, len(lines) > tall, heads, lines})
	return template.HTML(b.String()), err
}

// WritePage writes a page with this table alone, made by a program of that name and version.
func (t *Sheet) WritePage(w io.Writer, generator string) error {
	s := *t
	s.Class = "sortable"
	table, err := s.HTML()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<section class="card long"><h1>%s</h1>`, template.HTMLEscapeString(t.Title))
	for _, text := range t.Say {
		fmt.Fprintf(&b, "<p>%s</p>", template.HTMLEscapeString(text))
	}
	return page.Page{Title: t.Title, Generator: generator, Body: template.HTML(b.String()) + table + "</section>",
		Footer: page.MadeBy(generator)}.Write(w)
}
