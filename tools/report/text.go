package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"perigee/internal/cli"
	"perigee/internal/plaintext"
	"perigee/internal/result"
	"perigee/internal/size"
	"perigee/internal/table"
	"perigee/tools/report/figures"
)

// plainWidth is the width of text that goes to no terminal.
const plainWidth = 100

// leastWidth is the width that a summary needs, in characters.
const leastWidth = 40

// look is how the terminal wants its text.
type look struct {
	width  int
	colour bool
}

// lookOf asks the terminal, if there is one, for its width. NO_COLOR takes the
// colours away.
func lookOf(streams cli.Streams) look {
	l := look{width: plainWidth}
	file, ok := cli.Base(streams.Out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		if n, err := strconv.Atoi(streams.Env("COLUMNS")); err == nil && n > 0 {
			l.width = max(n, leastWidth)
		}
		return l
	}
	l.colour = streams.Env("NO_COLOR") == "" && streams.Env("TERM") != "dumb"
	if w, _, err := term.GetSize(int(file.Fd())); err == nil && w > 0 {
		l.width = max(w, leastWidth)
	}
	return l
}

// Colours of the terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

func (l look) paint(colour, text string) string {
	if !l.colour {
		return text
	}
	return colour + text + plain
}

// printer writes lines and remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func writeText(w io.Writer, list []input, l look) error {
	p := &printer{w: w}
	for i, in := range list {
		if i > 0 {
			p.line("")
		}
		writeSummary(p, in, l)
	}
	return p.err
}

func writeSummary(p *printer, in input, l look) {
	f, d := in.figures, in.figures.Document
	for _, text := range d.What() {
		p.line("%s", l.paint(bold, plaintext.Escape("# "+text)))
	}
	p.line("%s", l.paint(bold, plaintext.Escape(fmt.Sprintf("# %s: %s, %s on %s, launcher %s", in.label,
		strings.TrimSuffix(d.Scenario.Name, ".lua"),
		cli.Count(d.World.Size, "rank"), cli.Count(len(d.World.Hosts), "host"), d.World.Launcher))))
	engine := "none"
	if d.Engine != nil {
		engine = fmt.Sprintf("%s %s, backend %s", d.Engine.Name, d.Engine.Version, d.Engine.Backend)
	}
	p.line("# perigee %s, engine: %s", plaintext.Escape(d.Perigee.Version), plaintext.Escape(engine))
	if n := len(f.Blocks.List); n > 0 {
		p.line("# %s of block transfers%s", cli.Count(n, "measurement"), plaintext.Escape(f.Blocks.OfFiles()))
	}
	if f.Runs > 0 || len(f.Blocks.List)+len(d.Values) == 0 { // else what was measured stands in values
		p.line("# %s, %s, %s moved in the workload", cli.Count(len(f.Patterns), "pattern"), cli.Count(f.Runs, "run"),
			size.Decimal(f.Bytes))
	}
	if d.Status != result.Complete {
		p.line("%s", l.paint(red, "# PARTIAL: "+plaintext.Escape(whyPartial(d))))
	}
	for _, text := range f.LeftOut {
		p.line("# left out: %s", plaintext.Escape(text))
	}
	p.line("")
	marks := map[string][2]string{
		"bad": {red, "!"}, "good": {green, "="}, "note": {yellow, "-"}, "detail": {plain, " "},
	}
	for _, x := range f.Findings {
		m := marks[x.Level]
		for i, line := range wrap(plaintext.Escape(x.Text), l.width-2) {
			mark := " "
			if i == 0 {
				mark = l.paint(m[0], m[1])
			}
			p.line("%s %s", mark, line)
		}
	}
	writeThresholds(p, d, l)
	writeBlocks(p, f, l)
	writePatterns(p, f, l)
	writeLatencies(p, f, l)
	writePairs(p, f, l)
	writeHeatmap(p, f, l)
}

func whyPartial(d *result.Document) string {
	if d.Failure == nil {
		return "the run was killed, or was still going on when this file was read"
	}
	return d.Failure.String()
}

// wrap breaks a text into lines of at most width characters where it can.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Rows that a terminal shows.
const (
	mostPatternRows = 16
	mostPairRows    = 8
)

// grid prints a table with as many columns from the left as the width takes.
func (p *printer) grid(l look, title string, columns []string, rows [][]string) {
	widths := make([]int, len(columns))
	total := 0
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c) + 2
		for _, r := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
		if total += widths[i] + 2; total-2 > l.width {
			columns = columns[:i]
			break
		}
	}
	var t table.Table
	for _, c := range columns {
		t.AddColumn(c, table.Right, "%s")
	}
	for _, r := range rows {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = r[i]
		}
		t.AddRow(cells...)
	}
	p.line("\n%s", l.paint(bold, "# "+title))
	if p.err == nil {
		p.err = t.WriteText(p.w)
	}
}

func plainRatio(n figures.Num) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.2fx", float64(n))
}

func plainRate(n figures.Num) string {
	if !n.Known() {
		return "-"
	}
	return size.Decimal(n) + "/s"
}

func writeBlocks(p *printer, f *figures.Figures, l look) {
	if len(f.Blocks.List) == 0 {
		return
	}
	var rows [][]string
	for _, b := range f.Blocks.List {
		rows = append(rows, []string{b.BlockSize(), strconv.FormatInt(b.Batch, 10), plainRate(b.Bandwidth),
			figures.Duration(b.P50NS), figures.Duration(b.P99NS), b.Series})
	}
	p.grid(l, "block transfers", []string{"Block", "Batch", "Bandwidth", "P50", "P99", "Series"}, rows)
}

func writeThresholds(p *printer, d *result.Document, l look) {
	if len(d.Thresholds) == 0 {
		return
	}
	p.line("\n%s", l.paint(bold, "# thresholds"))
	colours := map[string]string{"passed": green, "violated": red, "not judged": yellow}
	for _, t := range d.Thresholds {
		v, of := verdict(t), ""
		if t.Passed != nil {
			of = fmt.Sprintf("  (%s, %s)", measuredText(t), cli.Count(t.Samples, "sample"))
		}
		p.line("%s  %s%s", l.paint(colours[v], fmt.Sprintf("%-10s", v)), plaintext.Escape(t.Threshold), of)
	}
}

func writePatterns(p *printer, f *figures.Figures, l look) {
	if len(f.Patterns) == 0 {
		return
	}
	list, title := slices.Clone(f.Patterns), "patterns"
	if len(list) > mostPatternRows {
		slices.SortStableFunc(list, func(a, b figures.Pattern) int { return compareNums(b.Slowdown, a.Slowdown) })
		title = fmt.Sprintf("the %d of %d patterns that suffer most", mostPatternRows, len(list))
		if !list[0].Slowdown.Known() {
			title = fmt.Sprintf("the first %d of %d patterns", mostPatternRows, len(list))
		}
		list = list[:mostPatternRows]
	}
	var rows [][]string
	for _, x := range list {
		rows = append(rows, []string{
			strconv.Itoa(x.Index), size.Decimal(x.Bytes), figures.Duration(x.IsolatedNS), figures.Duration(x.LatencyNS),
			plainRatio(x.Slowdown),
			strconv.Itoa(x.Senders), plainRate(x.MeanBandwidth),
		})
	}
	columns := []string{"Pattern", "Bytes", "Isolated", "Workload", "Slowdown", "Senders", "Mean BW"}
	columns, rows = nameRequests(list, columns, rows)
	p.grid(l, title, columns, rows)
}

// compareNums puts what is missing before everything.
func compareNums(a, b figures.Num) int { return cmp.Compare(float64(a), float64(b)) }

func writeLatencies(p *printer, f *figures.Figures, l look) {
	writeShares(p, f, l)
	if len(f.Latencies) == 0 {
		return
	}
	var rows [][]string
	for _, x := range f.Latencies {
		row := []string{strings.TrimSpace(x.Of + " " + x.Phase), strconv.FormatInt(x.Count, 10)}
		for _, n := range []figures.Num{x.P50, x.P90, x.P99, x.P999, x.Max} {
			if x.Unit == "ratio" {
				row = append(row, plainRatio(n))
			} else {
				row = append(row, figures.Duration(n))
			}
		}
		rows = append(rows, row)
	}
	p.grid(l, "latency", []string{"Of", "Count", "P50", "P90", "P99", "P99.9", "Max"}, rows)
}

func writePairs(p *printer, f *figures.Figures, l look) {
	worst := f.Worst()
	if len(worst) == 0 {
		return
	}
	var rows [][]string
	for _, x := range worst[:min(len(worst), mostPairRows)] {
		rows = append(rows, []string{
			fmt.Sprintf("%d → %d", x.From, x.To), plainRatio(x.Slowdown), plainRatio(x.Contention),
			figures.Duration(x.IsolatedNS), figures.Duration(x.LatencyNS),
			plainRate(x.Bandwidth), size.Decimal(x.Bytes),
		})
	}
	p.grid(l, fmt.Sprintf("slowdown by pair, contention first where it is shown, of %d", len(worst)),
		[]string{"Pair", "Slowdown", "Contention", "Isolated", "Workload", "Bandwidth", "Bytes"}, rows)
}
