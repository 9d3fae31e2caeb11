package compare

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/page"
	"perigee/internal/kit/version"
	"perigee/internal/result"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
)

var body = template.Must(template.New("compare").Parse(pageHTML))

// What the page holds at most.
const (
	mostPageRows = 500 // of a table
	mostGrid     = 128 // ranks of the grid of pairs
)

// view is a comparison as the page shows it.
type view struct {
	R                *Report
	Old, New, Counts string
	Facts            []fact
	Groups           []group
}

type fact struct{ Name, Value, Note string }

// group is a table of rows of one kind.
type group struct {
	ID, Title, Note, Axis, Hidden string
	Columns                       []pageColumn
	Rows                          []pageRow
	Grid                          *grid
	Remarks                       bool // a row has one
}

type pageColumn struct {
	Name   string
	Number bool
}

type pageCell struct {
	Text, Value string
	Number      bool
}

type pageRow struct {
	Class, Verdict, Warning string
	Cells                   []pageCell
	Plot                    *forest
}

// forest is a row of a forest plot: the change as a dot, its interval as a line, on a logarithmic axis of ratios.
type forest struct {
	Zero, At, Low, High float64
	Range               bool
	Label               string
}

// Tone is the style of the verdict of the whole.
func (v *view) Tone() string {
	if main := v.R.Main(); main != nil {
		return v.Chip(main.Verdict)
	}
	return ""
}

// Chip is the style of a verdict.
func (*view) Chip(verdict string) string {
	switch verdict {
	case Worse:
		return "bad"
	case Better:
		return "good"
	}
	return ""
}

// WriteHTML writes the comparison as one page.
func (r *Report) WriteHTML(w io.Writer) error {
	v := &view{R: r, Old: r.Sides[0], New: r.Sides[1], Counts: r.counts()}
	if main := r.Main(); main != nil {
		v.Facts = []fact{
			{"Old", main.amount(main.Old), "median of " + cli.Count(main.OldN, "run")},
			{"New", main.amount(main.New), "median of " + cli.Count(main.NewN, "run")},
			{"Difference", fmt.Sprint(main.gained()), main.Label()},
		}
		change := fact{"Change", "-", fmt.Sprintf("alpha %g for the whole comparison", r.Options.Alpha)}
		if !math.IsNaN(main.Change) {
			change.Value = main.moved()
		}
		if !math.IsNaN(main.Low) {
			change.Note = r.interval(main)
		}
		v.Facts = append(v.Facts, change)
	}
	p := page.Page{Title: "Comparison - perigee", Generator: "perigee " + version.Get().Version,
		Styles: []string{pageCSS}}
	p.Sections = []page.Section{{ID: "summary", Title: "Summary"}}
	for i, k := range kinds {
		g, ok := r.group(fmt.Sprint("rows-", i), k.title, k.has)
		if !ok {
			continue
		}
		v.Groups = append(v.Groups, g)
		p.Sections = append(p.Sections, page.Section{ID: g.ID, Title: g.Title})
	}
	return p.WriteWith(w, body, v)
}

// described names a set of results.
func described(docs []*result.Document) string {
	d := docs[0]
	return fmt.Sprintf("%s, %s, from %s", d.Scenario.Name, cli.Count(d.World.Size, "rank"),
		d.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// group makes the table of one kind of rows. Of many pairs it has those that changed, then those that moved most.
func (r *Report) group(id, title string, has func(Row) bool) (group, bool) {
	g := group{ID: id, Title: title, Axis: "Change and its interval",
		Note: "Medians of the runs; the line is the interval of the change, on a logarithmic axis; q is corrected for all rows of the comparison."}
	var all []*Row
	for i := range r.Rows {
		if has(r.Rows[i]) {
			all = append(all, &r.Rows[i])
		}
	}
	if len(all) == 0 {
		return g, false
	}
	if all[0].Sender >= 0 && all[0].Pattern >= 0 {
		g.Grid = gridOf(all)
	}
	// A browser draws a few thousand rows; who wants all has CSV.
	if more := len(all) - mostPageRows; more > 0 {
		slices.SortStableFunc(all, compareRows)
		all = all[:mostPageRows]
		g.Hidden = fmt.Sprintf("%d further rows, which changed less, are not shown; perigee compare --format csv has them all.", more)
	}
	rows := make([]Row, len(all))
	for i, row := range all {
		rows[i] = *row
	}
	cols, err := chosen(nil, rows, true)
	if err != nil {
		return g, false
	}
	if rows[0].Pattern < 0 && rows[0].Of == 0 {
		cols = slices.Insert(cols, 0, columns[0])
	}
	cols = slices.DeleteFunc(cols, func(c column) bool {
		return slices.Contains([]string{"old_n", "new_n", "low", "high", "p", "rank_p", "verdict", "warning"}, c.key)
	})
	for _, c := range cols {
		g.Columns = append(g.Columns, pageColumn{c.header, c.align == 0})
	}
	most := widest(rows)
	for _, row := range rows {
		g.Rows = append(g.Rows, pageRowOf(row, cols, most))
		g.Remarks = g.Remarks || row.Warning != ""
	}
	return g, true
}

// compareRows puts what changed first, and then what moved most.
func compareRows(a, b *Row) int {
	if a.changed() != b.changed() {
		return b2i(b.changed()) - b2i(a.changed())
	}
	return cmp.Compare(math.Abs(math.Log1p(b.Change)), math.Abs(math.Log1p(a.Change))) // NaN last
}

// pageRowOf makes the cells of a row, with the exact value beside the text, by which the page sorts.
func pageRowOf(row Row, columns []column, most float64) pageRow {
	p := pageRow{Class: row.Verdict, Verdict: row.Verdict, Warning: row.Warning, Plot: forestOf(row, most)}
	if row.Of > 0 {
		p.Class = "mean"
	}
	for _, c := range columns {
		cell := pageCell{Number: c.align == 0, Text: "–"}
		value := c.value(row)
		shown := value
		if c.text != nil {
			shown = c.text(row)
		}
		if shown != nil && shown != "" {
			cell.Text = fmt.Sprintf(c.format, shown)
			cell.Value = fmt.Sprint(value)
		}
		p.Cells = append(p.Cells, cell)
	}
	return p
}

// widest is the largest distance from no change, as a logarithm, that the axis of a table has to show.
func widest(rows []Row) float64 {
	most := math.Log(1.1)
	for _, r := range rows {
		for _, v := range []float64{r.Change, r.Low, r.High} {
			if l := math.Abs(math.Log1p(v)); !math.IsNaN(l) && !math.IsInf(l, 0) {
				most = max(most, l)
			}
		}
	}
	return min(most, math.Log(1000))
}

// forestOf places the change of a row on the axis.
func forestOf(r Row, most float64) *forest {
	const middle, half = 110, 104
	if math.IsNaN(r.Change) || r.Change <= -1 {
		return nil
	}
	at := func(v float64) float64 {
		x := middle + half*math.Log1p(v)/most
		return math.Round(10*min(max(x, middle-half), middle+half)) / 10
	}
	f := &forest{Zero: middle, At: at(r.Change), Label: r.moved()}
	if !math.IsNaN(r.Low) && !math.IsNaN(r.High) && r.Low > -1 {
		f.Range, f.Low, f.High = true, at(r.Low), at(r.High)
		f.Label += fmt.Sprintf(", interval %+.1f%% to %+.1f%%", 100*r.Low, 100*r.High)
	}
	return f
}

// grid is the change of each pair of ranks, senders by receivers.
type grid struct {
	Size   float64
	Labels []gridText
	Cells  []gridCell
	Legend []gridCell
}

type gridText struct {
	X, Y         float64
	Text, Anchor string
}

type gridCell struct {
	X, Y, W     float64
	Class, Text string
}

// steps are the changes at which a cell takes the next shade.
var steps = []float64{0.05, 0.2, 0.5}

// gridOf brings together all patterns and phases: the geometric mean of the ratios of a pair. It is nil if there are
// too many ranks.
func gridOf(rows []*Row) *grid {
	ranks := 0
	for _, r := range rows {
		ranks = max(ranks, r.Sender+1, r.Receiver+1)
	}
	if ranks > mostGrid {
		return nil
	}
	type sum struct {
		log     float64
		n       int
		changed bool // one of its rows has a verdict
	}
	sums := map[[2]int]sum{}
	for _, r := range rows {
		if l := math.Log1p(r.Change); !math.IsNaN(l) && !math.IsInf(l, 0) {
			k := [2]int{r.Sender, r.Receiver}
			s := sums[k]
			sums[k] = sum{s.log + l, s.n + 1, s.changed || r.changed()}
		}
	}
	if len(sums) < 2 {
		return nil
	}
	const margin = 28
	w := max(6, min(28, 640/float64(ranks)))
	g := &grid{Size: margin + w*float64(ranks) + 2}
	// Labels need 16 pixels, and cells can be smaller.
	every := max(1, int(math.Ceil(16/w)))
	for i := range ranks {
		if i%every == 0 {
			middle := margin + (float64(i)+0.5)*w
			g.Labels = append(g.Labels, gridText{margin - 6, middle, strconv.Itoa(i), "end"},
				gridText{middle, margin - 10, strconv.Itoa(i), "middle"})
		}
		for k := range ranks {
			s, ok := sums[[2]int{i, k}]
			if !ok {
				continue
			}
			change := math.Expm1(s.log / float64(s.n))
			class, text := "none", "no change shown"
			if s.changed {
				class, text = shade(change), "changed"
			}
			g.Cells = append(g.Cells, gridCell{margin + float64(k)*w, margin + float64(i)*w, w, class,
				fmt.Sprintf("%d → %d: %+.1f%%, %s", i, k, 100*change, text)})
		}
	}
	for _, l := range []struct {
		class string
		text  string
	}{
		{"better3", "faster by half and more"}, {"better2", "by 20 to 50 %"}, {"better1", "by 5 to 20 %"},
		{"same", "within 5 %"}, {"none", "no change shown"},
		{"worse1", "slower by 5 to 20 %"}, {"worse2", "by 20 to 50 %"}, {"worse3", "by half and more"},
	} {
		g.Legend = append(g.Legend, gridCell{Class: l.class, Text: l.text})
	}
	return g
}

// shade is the class of a change of a latency.
func shade(change float64) string {
	level := 0
	for _, s := range steps {
		if math.Abs(change) >= s {
			level++
		}
	}
	switch {
	case level == 0:
		return "same"
	case change > 0:
		return fmt.Sprint("worse", level)
	}
	return fmt.Sprint("better", level)
}
