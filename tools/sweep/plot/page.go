package plot

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
	shared "perigee/internal/kit/page"
	"perigee/internal/serving/runs"
)

var (
	//go:embed body.html
	bodyHTML string
	//go:embed sweep.css
	styles string
	//go:embed model.js
	modelJS string
	//go:embed chart.js
	chartJS string
	//go:embed sweep.js
	sweepJS string
)

var body = template.Must(template.New("body").Parse(bodyHTML))

// PageOptions say what is on the page and what it shows first.
type PageOptions struct {
	Generator string
	Title     string
	Scenario  int // index of the one that is shown first; below 0: that with the most runs
	X, Y      *runs.Column
	SLOs      []runs.SLO
	SplitBy   []*runs.Column // make a configuration beside the engines
	Best      string         // which configuration is best, in a sentence; "" where nothing is said
	Skipped   []string       // why files were skipped
	Notes     []string
}

// column is a column as the scripts have it: its cells in the order of the runs.
type column struct {
	Name   string `json:"name"`
	Label  string `json:"label"`
	Unit   string `json:"unit"`
	Help   string `json:"help"`
	Better int    `json:"better"` // 1 high, -1 low, 0 neither
	Text   bool   `json:"text"`   // cells are text
	Cells  []any  `json:"cells"`  // numbers, text or null; "4+8" where engines differ
}

// scenario is a scenario as the scripts have it.
type scenario struct {
	Title string `json:"title"`
	Runs  []int  `json:"runs"` // in the order of their configurations
}

// bound is an SLO as the scripts have it.
type bound struct {
	Column string  `json:"column"`
	Op     string  `json:"op"`
	Limit  float64 `json:"limit"`
}

// pageData is the input of the page's scripts.
type pageData struct {
	Columns        []column   `json:"columns"`
	Scenarios      []scenario `json:"scenarios"`
	Configurations []string   `json:"configurations"`
	Directories    []string   `json:"directories"`
	Configuration  []int      `json:"configuration"` // by run
	Directory      []int      `json:"directory"`     // by run
	PD             []bool     `json:"pd"`            // by run
	File           []string   `json:"file"`          // by run
	Off            []string   `json:"off"`           // by run: why it is kept off the front, or ""
	Scenario       int        `json:"scenario"`      // shown first
	X              string     `json:"x"`
	Y              string     `json:"y"`
	SLOs           []bound    `json:"slos"`
}

// WritePage writes the page for some runs, of which the scenarios hold all but the
// results of perigee.
func WritePage(w io.Writer, all []*runs.Record, scenarios []runs.Scenario, o PageOptions) error {
	d := collect(all, scenarios, o)
	sections := []shared.Section{{ID: "trade-off", Title: "Trade-off"}, {ID: "runs", Title: "Runs"}}
	if len(transfers(all)) > 0 {
		sections = append(sections, shared.Section{ID: "transfers", Title: "Transfers"})
	}
	if len(o.Skipped)+len(o.Notes) > 0 {
		sections = append(sections, shared.Section{ID: "remarks", Title: "Remarks"})
	}
	return shared.Page{
		Title: o.Title, Generator: o.Generator, Sections: sections, Data: []shared.Data{{ID: "sweep", Value: d}},
		Styles: []string{styles}, Scripts: []string{modelJS, chartJS, sweepJS},
	}.WriteWith(w, body, struct {
		PageOptions
		Runs, Scenarios, Configurations, Directories int
		Transfers                                    []transfer
	}{o, len(d.PD), len(d.Scenarios), len(d.Configurations), len(d.Directories), transfers(all)})
}

// collect turns runs into what the scripts need.
func collect(all []*runs.Record, scenarios []runs.Scenario, o PageOptions) pageData {
	d := pageData{X: o.X.Name, Y: o.Y.Name, SLOs: []bound{}, Configurations: []string{}}
	for _, s := range o.SLOs {
		d.SLOs = append(d.SLOs, bound{s.Column.Name, s.Op, s.Limit})
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(r *runs.Record) bool { return r.Transfer })
	index := make(map[*runs.Record]int, len(kept))
	for i, r := range kept {
		index[r] = i
	}
	short := runs.ShortNames(runs.Directories(kept))
	d.rows(kept, o.SplitBy, short)
	for _, sc := range scenarios {
		s := scenario{Title: withoutPath(sc.Key.String(), sc.Runs[0], short), Runs: []int{}}
		for _, c := range runs.Configurations(sc.Runs, true, o.SplitBy...) {
			for _, r := range c.Runs {
				if i, ok := index[r]; ok {
					s.Runs = append(s.Runs, i)
				}
			}
		}
		if len(s.Runs) == 0 {
			continue
		}
		most := len(d.Scenarios) == 0 || len(s.Runs) > len(d.Scenarios[d.Scenario].Runs)
		if sc.Index == o.Scenario || o.Scenario < 0 && most {
			d.Scenario = len(d.Scenarios)
		}
		d.Scenarios = append(d.Scenarios, s)
	}
	for _, c := range runs.Columns() {
		if col, some := columnOf(c, kept); some || d.asksFor(c) {
			d.Columns = append(d.Columns, col)
		}
	}
	return d
}

// asksFor reports whether the page begins with this column, which may be empty.
func (d *pageData) asksFor(c *runs.Column) bool {
	return c.Name == d.X || c.Name == d.Y || slices.ContainsFunc(d.SLOs,
		func(b bound) bool { return b.Column == c.Name })
}

// withoutPath shortens the path of a run's sweep in a title.
func withoutPath(title string, r *runs.Record, short map[string]string) string {
	if r.Directory == "" {
		return title
	}
	return strings.ReplaceAll(title, r.Directory, short[r.Directory])
}

// rows fills in what is not in columns.
func (d *pageData) rows(kept []*runs.Record, split []*runs.Column, short map[string]string) {
	number := func(list *[]string, seen map[string]int, name string) int {
		if _, ok := seen[name]; !ok {
			seen[name] = len(*list)
			*list = append(*list, name)
		}
		return seen[name]
	}
	configurations, directories := map[string]int{}, map[string]int{}
	for _, r := range kept {
		title := withoutPath(r.Setup(split...), r, short)
		d.Configuration = append(d.Configuration, number(&d.Configurations, configurations, title))
		d.Directory = append(d.Directory, number(&d.Directories, directories, short[r.Directory]))
		d.PD = append(d.PD, r.IsPD())
		d.Off = append(d.Off, strings.Join(r.OffFront, "; "))
		d.File = append(d.File, r.Folder+"/"+filepath.Base(r.File))
	}
}

// onlyHere are columns that are told otherwise: they hold paths of this machine,
// or stand in the choice of the scenario.
var onlyHere = []string{"Name", "Directory", "Directory_Base", "File", "Run", "Is_PD"}

// columnOf returns a column's cells and whether there are any.
func columnOf(c *runs.Column, kept []*runs.Record) (column, bool) {
	if slices.Contains(onlyHere, c.Name) {
		return column{}, false
	}
	col := column{Name: c.Name, Label: c.Label(), Unit: c.Unit, Help: c.Help, Text: c.Kind != expr.Number,
		Cells: make([]any, len(kept))}
	switch c.Better {
	case expr.Higher:
		col.Better = 1
	case expr.Lower:
		col.Better = -1
	}
	some := false
	for i, r := range kept {
		col.Cells[i] = c.Of(r).Plain()
		some = some || col.Cells[i] != nil
	}
	return col, some
}

// transfer is a result of perigee.
type transfer struct {
	Name, File, Backend, Start string
	MS, GBps                   string
}

func transfers(all []*runs.Record) []transfer {
	var list []transfer
	for _, r := range all {
		if !r.Transfer {
			continue
		}
		start := ""
		if !r.Start.IsZero() {
			start = r.Start.UTC().Format("2006-01-02 15:04:05")
		}
		list = append(list, transfer{r.Label, r.Folder + "/" + filepath.Base(r.File), r.Backend, start,
			figure(r.TransferMS), figure(r.TransferBytes / 1e9)})
	}
	return list
}

// figure writes a number with three decimals, a dash for none.
func figure(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return expr.Num(math.Round(x*1000) / 1000).String()
}
