package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
)

// column is something that can be said of a row. Its key names it in CSV and JSON, and for
// --columns and --sort.
type column struct {
	key, header string
	align       sheet.Align
	format      string            // of the text
	value       func(row Row) any // for programs
	text        func(row Row) any // instead of value, for people
}

func number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

func rank(r int) any {
	if r < 0 {
		return nil
	}
	return r
}

func positive(n int64) any {
	if n <= 0 {
		return nil
	}
	return n
}

// percent is a share as text.
func percent(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return fmt.Sprintf("%+.2f%%", 100*v)
}

var columns = []column{
	{key: "metric", header: "Metric", align: sheet.Left, format: "%s", value: func(r Row) any { return r.Metric }},
	{key: "pattern", header: "Pattern", format: "%d", value: func(r Row) any { return rank(r.Pattern) }},
	{key: "name", header: "Name", align: sheet.Left, format: "%s", value: func(r Row) any { return r.Name }},
	{key: "phase", header: "Phase", align: sheet.Left, format: "%s", value: func(r Row) any { return r.Phase }},
	{key: "sender", header: "From", format: "%d", value: func(r Row) any { return rank(r.Sender) }},
	{key: "receiver", header: "To", format: "%d", value: func(r Row) any { return rank(r.Receiver) }},
	{key: "block", header: "Block (B)", format: "%d", value: func(r Row) any { return positive(r.Block) }},
	{key: "batch", header: "Batch", format: "%d", value: func(r Row) any { return positive(r.Batch) }},
	{key: "old_n", header: "Old N", format: "%d", value: func(r Row) any { return r.OldN }},
	{key: "new_n", header: "New N", format: "%d", value: func(r Row) any { return r.NewN }},
	{key: "unit", header: "Unit", align: sheet.Left, format: "%s", value: func(r Row) any { return r.unit() }},
	{key: "old", header: "Old", format: "%s", value: func(r Row) any { return number(r.Old) },
		text: func(r Row) any { return r.amount(r.Old) }},
	{key: "new", header: "New", format: "%s", value: func(r Row) any { return number(r.New) },
		text: func(r Row) any { return r.amount(r.New) }},
	{key: "difference", header: "Difference", format: "%s", value: func(r Row) any { return number(r.New - r.Old) },
		text: Row.gained},
	{key: "change", header: "Change", format: "%s", value: func(r Row) any { return number(r.Change) },
		text: func(r Row) any { return percent(r.Change) }},
	{key: "low", header: "Low", format: "%s", value: func(r Row) any { return number(r.Low) },
		text: func(r Row) any { return percent(r.Low) }},
	{key: "high", header: "High", format: "%s", value: func(r Row) any { return number(r.High) },
		text: func(r Row) any { return percent(r.High) }},
	{key: "p", header: "p", format: "%.3g", value: func(r Row) any { return number(r.P) }},
	{key: "q", header: "q", format: "%.3g", value: func(r Row) any { return number(r.Q) }},
	{key: "rank_p", header: "Rank p", format: "%.3g", value: func(r Row) any { return number(r.RankP) }},
	{key: "verdict", header: "Verdict", align: sheet.Left, format: "%s", value: func(r Row) any { return r.Verdict }},
	{key: "warning", header: "Warning", align: sheet.Left, format: "%s", value: func(r Row) any { return r.Warning }},
}

// Columns are the names that --columns and --sort take.
func Columns() []string { return keys(columns) }

func keys(list []column) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.key
	}
	return names
}

func find(flag, name string) (*column, error) {
	i := slices.IndexFunc(columns, func(c column) bool { return c.key == name })
	if i < 0 {
		return nil, sheet.NoColumn(flag, name, Columns())
	}
	return &columns[i], nil
}

// chosen returns the columns that are wanted: those of a list, or all that say something
// about any row.
func chosen(list []string, rows []Row, person bool) ([]column, error) {
	picked, err := sheet.Pick("--columns", list, find)
	if err != nil {
		return nil, err
	}
	var out []column
	for _, c := range picked {
		out = append(out, *c)
	}
	switch {
	case len(out) > 0:
		return out, nil
	case list != nil || !person:
		return columns, nil
	}
	for _, c := range columns {
		said := slices.ContainsFunc(rows, func(r Row) bool { v := c.value(r); return v != nil && v != "" })
		if said && c.key != "metric" && c.key != "unit" {
			out = append(out, c)
		}
	}
	return out, nil
}

// Sort orders rows by a column; with - before its name, downwards. Rows without a value come last. An unknown column
// is an error of the kind Usage.
func Sort(rows []Row, by string) error {
	name, down := strings.CutPrefix(by, "-")
	c, err := find("--sort", name)
	if err != nil {
		return err
	}
	sheet.SortBy(rows, c.value, down)
	return nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tableOf makes a table of rows.
func tableOf(rows []Row, list []column, person bool) *sheet.Sheet {
	var t sheet.Sheet
	for _, c := range list {
		if person {
			t.AddColumn(c.header, c.align, c.format)
		} else {
			t.AddColumn(c.key, c.align, "")
		}
	}
	for _, r := range rows {
		t.AddRow(cellsOf(r, list, person)...)
	}
	return &t
}

// cellsOf are the cells of a row; nil where it has no value.
func cellsOf(r Row, list []column, person bool) []any {
	cells := make([]any, len(list))
	for i, c := range list {
		cells[i] = c.value(r)
		if person && c.text != nil {
			cells[i] = c.text(r)
		}
		if cells[i] == "" {
			cells[i] = nil
		}
	}
	return cells
}

// kinds are the tables of the text, in their order.
var kinds = []struct {
	title string
	has   func(r Row) bool
}{
	{"patterns", func(r Row) bool { return r.Pattern >= 0 && r.Sender < 0 || r.of == "patterns" }},
	{"pairs of ranks", func(r Row) bool { return r.Pattern >= 0 && r.Sender >= 0 }},
	{"block transfers", func(r Row) bool { return r.Block > 0 || r.of == "sizes" }},
	{"the replay", func(r Row) bool { return r.replay }},
	{"levels", func(r Row) bool { return r.of == levelRow }},
	{"metrics of the scenario", func(r Row) bool {
		return r.Pattern < 0 && r.of != levelRow && !r.replay && r.Block == 0 &&
			(r.Of == 0 || r.of == "series") && r.Metric != contentionMetric
	}},
	{"contention that changed", func(r Row) bool { return r.Metric == contentionMetric && r.changed() }},
}

// WriteText writes the report for people. allPairs shows also the pairs without a verdict.
func (r *Report) WriteText(w io.Writer, list []string, allPairs bool) error {
	if _, err := chosen(list, nil, true); err != nil {
		return err
	}
	for _, text := range r.What {
		fmt.Fprintln(w, "#", plaintext.Escape(text))
	}
	r.head(w)
	var first Row
	for _, k := range kinds {
		all, shown := 0, 0
		show := func(row Row) bool { return k.has(row) && (allPairs || row.Sender < 0 || row.changed()) }
		for _, row := range r.Rows {
			if !k.has(row) {
				continue
			}
			if all++; all == 1 {
				first = row
			}
			if show(row) {
				shown++
			}
		}
		if all == 0 {
			continue
		}
		rows := make([]Row, 0, shown) // there may be very many
		for _, row := range r.Rows {
			if show(row) {
				rows = append(rows, row)
			}
		}
		title := fmt.Sprintf("# %s: %s", k.title, first.Metric)
		if first.Pattern < 0 {
			title = "# " + k.title
		}
		if hidden := all - len(rows); hidden > 0 {
			title += fmt.Sprintf(" (%d of %d without a verdict are not shown; see --pairs)", hidden, all)
		}
		fmt.Fprintln(w, title)
		if len(rows) == 0 {
			continue
		}
		cols, err := chosen(list, rows, true)
		if err != nil {
			return err
		}
		if list == nil && first.Pattern < 0 {
			cols = slices.Insert(cols, 0, columns[0])
		}
		if err := tableOf(rows, cols, true).WriteText(w); err != nil {
			return err
		}
	}
	r.foot(w)
	return nil
}

// foot counts the verdicts, or explains why there is none.
func (r *Report) foot(w io.Writer) {
	if len(r.Rows) == 0 {
		fmt.Fprintln(w, "# nothing to compare: the results hold no measurements and no metrics")
		return
	}
	if !r.Judged {
		fmt.Fprintln(w, "# no verdicts:", plaintext.Escape(r.Advice)) // names files
		return
	}
	for _, text := range r.Findings {
		fmt.Fprintln(w, "#", text)
	}
	fmt.Fprintln(w, "#", r.counts())
}

// counts says how many rows have which verdict.
func (r *Report) counts() string {
	differ := ""
	if n := r.Count(Differs); n > 0 {
		differ = fmt.Sprint(n, " differ, ")
	}
	return fmt.Sprintf("%d better, %d worse, %s%d without a verdict", r.Count(Better), r.Count(Worse), differ, r.Count(Same))
}

// head says what is compared, the verdict, and how it came about.
func (r *Report) head(w io.Writer) {
	for _, text := range append(slices.Clone(r.Paths), r.Headline) { // another path is why, whatever the times say
		fmt.Fprintln(w, "#", plaintext.Escape(text))
	}
	if effect := r.Effect(); effect != "" {
		fmt.Fprintf(w, "# %s. %s\n", r.Verdict(), plaintext.Escape(effect))
	}
	if text := r.Meeting(); text != "" {
		fmt.Fprintln(w, "# note:", plaintext.Escape(text))
	}
	for _, b := range r.Beside {
		fmt.Fprintln(w, "#", plaintext.Escape(b.String()))
	}
	for _, text := range r.Notes() {
		fmt.Fprintln(w, "# note:", plaintext.Escape(text))
	}
	interval := ""
	if slices.ContainsFunc(r.Rows, func(row Row) bool { return !math.IsNaN(row.Low) }) {
		interval = fmt.Sprintf("; Low to High: %g%% interval of the change", 100*(1-r.Options.Alpha))
	}
	fmt.Fprintf(w, "# medians of %s and %s%s\n", cli.Count(r.OldN, "run"), cli.Count(r.NewN, "run"), interval)
	if r.Judged {
		fmt.Fprintf(w, "# p: test on the logarithms of the runs; q: p corrected for all rows; Rank p: Mann-Whitney; verdict where q <= %g\n", r.Options.Alpha)
	}
}

// WriteCSV writes a line for each row.
func (r *Report) WriteCSV(w io.Writer, list []string) error {
	cols, err := chosen(list, r.Rows, false)
	if err != nil {
		return err
	}
	// A table would hold the cells of very many rows.
	return sheet.WriteCSV(w, keys(cols), func(yield func([]any) bool) {
		for _, row := range r.Rows {
			if !yield(cellsOf(row, cols, false)) {
				return
			}
		}
	})
}

// WriteJSON writes the whole report as one object.
func (r *Report) WriteJSON(w io.Writer, list []string) error {
	cols, err := chosen(list, r.Rows, false)
	if err != nil {
		return err
	}
	var head bytes.Buffer
	if err := cli.WriteJSON(&head, struct {
		Schema      string   `json:"schema"`
		Alpha       float64  `json:"alpha"`
		OldRuns     int      `json:"old_runs"`
		NewRuns     int      `json:"new_runs"`
		Judged      bool     `json:"judged"`
		Advice      string   `json:"advice,omitempty"`
		Headline    string   `json:"headline"`
		Verdict     string   `json:"verdict"`
		Effect      string   `json:"effect"`
		Meeting     string   `json:"meeting"`
		Interval    string   `json:"interval"`
		Test        string   `json:"test"`
		Correction  string   `json:"correction"`
		Paths       []string `json:"path_changed"`
		Beside      []Beside `json:"beside"`
		Differences []string `json:"differences"`
		Remarks     []string `json:"remarks"`
		Better      int      `json:"better"`
		Worse       int      `json:"worse"`
		Differ      int      `json:"differ"`
		Same        int      `json:"same"`
		Findings    []string `json:"findings"`
	}{
		"perigee.compare/2", r.Options.Alpha, r.OldN, r.NewN, r.Judged, r.Advice, r.Headline, r.Verdict(), r.Effect(),
		r.Meeting(),
		"Student's t on the logarithms of the runs",
		"moderated t on the logarithms of the runs, by divisions of the runs",
		"Westfall-Young step-down over all rows",
		empty(r.Paths), append([]Beside{}, r.Beside...),
		empty(r.Differences), empty(r.Remarks), r.Count(Better), r.Count(Worse), r.Count(Differs), r.Count(Same),
		empty(r.Findings),
	}); err != nil {
		return err
	}
	head.Truncate(head.Len() - len("\n}\n"))
	head.WriteString(",\n  \"rows\": ")
	if _, err := head.WriteTo(w); err != nil {
		return err
	}
	err = cli.WriteList(w, "  ", len(r.Rows), func(i int) any {
		row, _ := sheet.Object(keys(cols), cellsOf(r.Rows[i], cols, false)) // texts and finite numbers
		return json.RawMessage(row)
	})
	if err == nil {
		_, err = io.WriteString(w, "}\n")
	}
	return err
}

// empty is a list that JSON writes as [] and not as null.
func empty(list []string) []string { return append([]string{}, list...) }
