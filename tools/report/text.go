package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/result"
)

// plainWidth is the width of text that goes to no terminal.
const plainWidth = 100

// leastWidth is the width that a summary needs, in characters.
const leastWidth = 40

// mostLines is how many lines a result takes without --full.
const mostLines = 40

// look is how the text is wanted.
type look struct {
	width  int
	colour bool
	bars   bool // pictures of bars, for a terminal
	full   bool // all of the text
}

// lookOf asks the terminal, if there is one, for its width. NO_COLOR takes the
// colours away.
func lookOf(streams cli.Streams) look {
	there := cli.IsTerminal(streams.Out)
	return look{
		width: max(cmp.Or(plaintext.Width(streams.Out), plainWidth), leastWidth), bars: there,
		colour: there && streams.Env("NO_COLOR") == "" && streams.Env("TERM") != "dumb",
	}
}

// Colours of the terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	blue   = "\x1b[34m"
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
	w    io.Writer
	err  error
	room int      // lines that may follow
	left []string // what has found no room

	cut  []string // columns that were too many for the width
	wide int      // characters that they take
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		text := fmt.Sprintf(format, args...)
		p.room -= 1 + strings.Count(text, "\n")
		_, p.err = io.WriteString(p.w, text+"\n")
	}
}

// comment writes a line of a colour, or several on a terminal that it does not fit.
func (p *printer) comment(l look, colour, text string) {
	for line := range strings.Lines(string(plaintext.Fold([]byte("# "+text), plaintext.Width(p.w), ""))) {
		p.line("%s", l.paint(colour, strings.TrimSuffix(line, "\n")))
	}
}

func writeText(w io.Writer, list []input, l look) error {
	p := &printer{w: w}
	if text := between(list); text != "" {
		p.finding(l, figures.Finding{Level: "note", Text: text})
		p.line("")
	}
	for i, in := range list {
		if i > 0 {
			p.line("")
		}
		p.room, p.left, p.cut, p.wide = math.MaxInt, nil, nil, 0
		if !l.full {
			p.room = mostLines - 1 // the last one names what is left
		}
		writeSummary(p, in, l)
		var more []string
		if len(p.left) > 0 {
			more = append(more, "more by --full: "+listed(p.left))
		}
		if len(p.cut) > 0 {
			more = append(more, fmt.Sprintf("columns that do not fit: %s (a terminal of %d columns shows them, or COLUMNS=%[2]d in a pipe)",
				plaintext.Escape(listed(p.cut)), p.wide))
		}
		if len(more) > 0 {
			p.comment(l, dim, strings.Join(more, "; "))
		}
	}
	return p.err
}

// between compares what results have in common, as far as there is a sentence for it.
func between(list []input) string {
	all, labels := make([]*figures.Figures, len(list)), make([]string, len(list))
	for i, in := range list {
		all[i], labels[i] = in.figures, in.label
	}
	return figures.BetweenExperts(all, labels)
}

// shortTitle is the beginning of a table's title, in whole words, for a hint.
func shortTitle(title string) string {
	title, _, _ = strings.Cut(title, ": ")
	if first := plaintext.Wrap(title, mostLabel); len(first) > 1 {
		title = strings.TrimRight(first[0], ",;(") + " ..."
	}
	return plaintext.Escape(plaintext.Cut(title, 2*mostLabel))
}

// listed names the first few.
func listed(names []string) string {
	const few = 6
	if n := len(names) - few; n > 1 {
		names = append(slices.Clone(names[:few]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", ")
}

// writeHeader says what was measured, where and by what.
func writeHeader(p *printer, in input, l look) {
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
	// Without runs, what was measured stands elsewhere.
	if f.Runs > 0 || len(f.Blocks.List)+len(d.Values)+len(d.Tables)+len(d.Metrics) == 0 && f.Replay == nil {
		p.line("# %s, %s, %s moved in the workload", cli.Count(len(f.Patterns), "pattern"), cli.Count(f.Runs, "run"),
			size.Decimal(f.Bytes))
	}
	if d.Status != result.Complete {
		p.line("%s", l.paint(red, "# PARTIAL: "+plaintext.Escape(whyPartial(d))))
	}
	if n := violated(d); n > 0 {
		p.line("%s", l.paint(red, fmt.Sprintf("# VIOLATED: %d of %s", n, cli.Count(len(d.Thresholds), "threshold"))))
	}
	for _, text := range f.LeftOut {
		p.line("# left out: %s", plaintext.Escape(text))
	}
	for _, text := range d.Standstills() {
		p.line("%s", l.paint(yellow, "# note: "+plaintext.Escape(text)))
	}
}

func writeSummary(p *printer, in input, l look) {
	f, d := in.figures, in.figures.Document
	writeHeader(p, in, l)
	p.line("")
	if f.Answer.Sentence != "" {
		p.finding(l, figures.Finding{Level: f.Answer.Level, Text: f.Answer.Sentence})
	}
	if f.Replay != nil && l.bars { // all that follows is longer
		writeFirstChart(p, f, l)
		p.line("")
	}
	if f.Answer.Why != "" {
		p.finding(l, figures.Finding{Level: "detail", Text: f.Answer.Why})
	}
	if f.Answer.Path != "" {
		p.finding(l, figures.Finding{Level: "detail", Text: f.Answer.Path})
	}
	for _, text := range d.PathWarnings() {
		p.finding(l, figures.Finding{Level: "note", Text: "warning: " + text})
	}
	for _, text := range d.Observed() {
		p.finding(l, figures.Finding{Level: "detail", Text: text})
	}
	if f.Replay == nil {
		writeFirstChart(p, f, l)
	}
	if l.full && len(f.Answer.Judged) > 0 {
		p.line("")
		for _, x := range f.Answer.Judged {
			p.finding(l, x)
		}
	}
	writeThresholds(p, d, l)
	writeShares(p, f, l)
	writeMain(p, f, l)
	if l.full {
		writeLatencies(p, f, l)
		writeMoved(p, f, l)
		writePairs(p, f, l)
		writeHeatmap(p, f, l)
		return
	}
	for _, x := range []struct {
		what  string
		there bool
	}{
		{"how this was judged", len(f.Answer.Judged) > 0}, {"latencies", len(f.Latencies) > 0},
		{"what moved the bytes", len(sheetsOf(f, mostMovedText)) > 0}, {"pairs and a map of the traffic", len(f.Pairs) > 0},
	} {
		if x.there {
			p.left = append(p.left, x.what)
		}
	}
}

// writeFirstChart draws the first picture, on a terminal.
func writeFirstChart(p *printer, f *figures.Figures, l look) {
	if !l.bars || len(f.Answer.Charts) == 0 {
		return
	}
	first := f.Answer.Charts[0]
	if f.Replay != nil {
		first = f.Replay.Timeline(mostBarLines / 2)
	}
	writeBars(p, first, l)
}

// finding writes a text with the mark of its level.
func (p *printer) finding(l look, x figures.Finding) {
	marks := map[string][2]string{
		"bad": {red, "!"}, "good": {green, "="}, "note": {yellow, "-"}, "detail": {plain, " "},
	}
	mark := l.paint(marks[x.Level][0], marks[x.Level][1])
	for _, line := range plaintext.Wrap(plaintext.Escape(x.Text), l.width-2) {
		p.line("%s %s", mark, line)
		mark = " "
	}
}

// writeMain writes the tables of what was measured: a script's own metrics, experts, block transfers, patterns alone
// and in traffic, or else what the pictures show. What the scenario has printed follows where all of it fits.
func writeMain(p *printer, f *figures.Figures, l look) {
	d, own, planes := f.Document, f.OwnMetrics(), expertsOf(f.Document).Planes
	first := false // the tables are the first figures
	switch {
	case f.Replay != nil:
		writeReplay(p, f.Replay, l)
		if !l.full {
			if !f.Shipped() { // its own tables repeat these
				p.leaveTables(d)
			}
			return
		}
	case len(own) > 0:
		writeMetrics(p, own, l)
	case len(planes) > 0 && d.Values["ep_beside"] == nil:
		p.grid(l, planeSheet(planes).Choose("Mode", "Entry", "Tokens", "GB/s", "mean (us)", "p50", "p99", "wait %"))
		if !l.full {
			p.leaveTables(d)
			return
		}
	case len(f.Blocks.List) > 0:
		writeBlocks(p, f, l)
		if !l.full {
			p.leaveTables(d)
			return
		}
	case f.Slowdown.Known() && (f.Shipped() || len(d.Tables) == 0):
		writePatterns(p, f, l)
		return
	case len(f.Answer.Charts) > 0 && !f.Slowdown.Known():
		writePictureTable(p, f.Answer.Charts, l)
	case len(d.Tables) == 0:
		writePatterns(p, f, l)
		return
	default:
		first = true
	}
	writeTables(p, d, first, l)
	if l.full && len(own) == 0 {
		writeMetrics(p, d.Metrics, l)
	} else if len(own) == 0 {
		p.leaveMetrics(d)
	}
	if l.full || !f.Shipped() {
		writePatterns(p, f, l)
	} else if len(f.Patterns) > 0 {
		p.left = append(p.left, "patterns")
	}
}

// leaveTables names the tables of the scenario, and its metrics, as what only --full prints.
func (p *printer) leaveTables(d *result.Document) {
	for i, t := range d.Tables {
		v := newTable(t, i, len(d.Tables), len(d.Patterns), 0)
		p.left = append(p.left, shortTitle(v.Title))
	}
	p.leaveMetrics(d)
}

// leaveMetrics names the metrics that have samples.
func (p *printer) leaveMetrics(d *result.Document) {
	if slices.ContainsFunc(d.Metrics, func(m result.Metric) bool { return len(m.Values) > 0 }) {
		p.left = append(p.left, "metrics")
	}
}

// writeTables writes the tables of the scenario: what fits, and the beginning of the first one if nothing is above.
func writeTables(p *printer, d *result.Document, first bool, l look) {
	for i, t := range d.Tables {
		v := newTable(t, i, len(d.Tables), len(d.Patterns), mostRows)
		if !first && p.room < v.Len()+aroundTable {
			p.left = append(p.left, shortTitle(v.Title))
			continue
		}
		first = false
		p.grid(l, v.Sheet)
	}
}

// writeMetrics sums up metrics that have samples.
func writeMetrics(p *printer, list []result.Metric, l look) {
	views, _ := metricViews(list)
	views = slices.DeleteFunc(views, func(v metricView) bool { return v.Count == 0 })
	if len(views) > 0 {
		p.grid(l, metricSheet(views).Choose("Metric", "Values", "Min", "P50", "P90", "P99", "Max"))
	}
}

func whyPartial(d *result.Document) string {
	if d.Failure == nil {
		return "the run was killed, or was still going on when this file was read"
	}
	return d.Failure.String()
}

// Rows that a terminal shows.
const (
	mostPatternRows = 16
	mostPairRows    = 8
	mostThresholds  = 8 // without --full; violated ones first
	aroundTable     = 4 // lines: an empty one, the title, the headers and the dashes
)

// grid prints a table with as many columns from the left as the width takes, and as many rows as there is room for.
func (p *printer) grid(l look, s *sheet.Sheet) {
	title := s.Title
	if most := p.room - aroundTable; s.Len() > most {
		p.left = append(p.left, fmt.Sprintf("all %s of %s", cli.Count(s.Len(), "row"), shortTitle(title)))
		if most < 1 {
			return
		}
		title, s = fmt.Sprintf("%s (the first %d of %d)", title, most, s.Len()), s.First(most)
	}
	p.line("")
	p.comment(l, bold, plaintext.Escape(title))
	if s.Len() == 0 {
		return
	}
	s, others, wide := s.Fit(l.width)
	for _, c := range others {
		if !slices.Contains(p.cut, c) {
			p.cut, p.wide = append(p.cut, c), max(p.wide, wide)
		}
	}
	p.room -= 2 + s.Len()
	if p.err == nil {
		p.err = s.WriteTextWithin(p.w, 0, 0)
	}
}

// The figures of tables.
var (
	plainRatio = orElse("-", func(n figures.Num) string { return fmt.Sprintf("%.2fx", float64(n)) })
	plainRate  = orElse("-", size.Rate[figures.Num])
)

func writeBlocks(p *printer, f *figures.Figures, l look) {
	if len(f.Blocks.List) > 0 {
		p.grid(l, blockSheet(f.Blocks.List).Choose("Block", "Batch", "Bandwidth", "P50", "P99", "Series"))
	}
}

func writeThresholds(p *printer, d *result.Document, l look) {
	if len(d.Thresholds) == 0 {
		return
	}
	p.line("\n%s", l.paint(bold, "# thresholds"))
	colours := map[string]string{"passed": green, "violated": red, "not judged": yellow}
	list := violatedFirst(d.Thresholds)
	if most := mostThresholds; !l.full && len(list) > most {
		p.left, list = append(p.left, fmt.Sprintf("all %d thresholds", len(list))), list[:most]
	}
	for _, t := range list {
		v, of := verdict(t), ""
		if t.Passed != nil {
			of = fmt.Sprintf("  (%s, %s)", measuredText(t), cli.Count(t.Samples, "sample"))
		}
		p.line("%s  %s%s", l.paint(colours[v], fmt.Sprintf("%-10s", v)), plaintext.Escape(t.Threshold), of)
		if why := whyViolated(t); why != "" {
			p.finding(l, figures.Finding{Level: "detail", Text: why})
		}
	}
}

func writePatterns(p *printer, f *figures.Figures, l look) {
	if len(f.Patterns) == 0 {
		return
	}
	list, title := slices.Clone(f.Patterns), "patterns"
	if len(list) > mostPatternRows {
		bySlowdown := func(a, b figures.PatternFigures) int { return compareNums(b.Slowdown, a.Slowdown) }
		slices.SortStableFunc(list, bySlowdown)
		title = fmt.Sprintf("the %d of %d patterns that suffer most", mostPatternRows, len(list))
		if !list[0].Slowdown.Known() {
			title = fmt.Sprintf("the first %d of %d patterns", mostPatternRows, len(list))
		}
		list = list[:mostPatternRows]
	}
	t := patternSheet(list).Choose("Pattern", "Tokens", "KV bytes", "Bytes", "Isolated", "Workload", "Slowdown",
		"Total BW", "BW per sender", "Senders", "Name")
	t.Title = title
	p.grid(l, t)
}

// compareNums puts what is missing before everything.
func compareNums(a, b figures.Num) int { return cmp.Compare(float64(a), float64(b)) }

func writeLatencies(p *printer, f *figures.Figures, l look) {
	if len(f.Latencies) > 0 {
		p.grid(l, latencySheet(f.Latencies).Choose("Of", "Count", "P50", "P90", "P99", "P99.9", "Max"))
	}
}

func writePairs(p *printer, f *figures.Figures, l look) {
	worst := f.Worst()
	if len(worst) == 0 {
		return
	}
	t := pairSheet(worst[:min(len(worst), mostPairRows)], func(figures.Pair) string { return "" }).
		Choose("Pair", "Slowdown", "Contention", "Isolated", "Workload", "Bandwidth", "Bytes")
	t.Title = fmt.Sprintf("slowdown by pair, contention first where it is shown, of %d", len(worst))
	p.grid(l, t)
}
