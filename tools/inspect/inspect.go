package inspect

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"perigee/docs"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Cmd is the command perigee result.
type Cmd struct {
	Schema  schemaFlag `help:"Print the JSON schema of result files."`
	Show    showCmd    `cmd:"" help:"Say what a result holds."`
	Cat     catCmd     `cmd:"" help:"Print a result, or what an expression of jq makes of it, as JSON."`
	Convert convertCmd `cmd:"" help:"Write a result in another format."`
}

// schemaFlag prints the schema, whatever else is on the command line.
type schemaFlag bool

// BeforeReset prints the schema and ends the program.
func (schemaFlag) BeforeReset(app *kong.Kong) error {
	fmt.Fprint(app.Stdout, docs.ResultSchema)
	app.Exit(0)
	return nil
}

type showCmd struct {
	File string `arg:"" help:"The result."`
}

func (c *showCmd) Run(s cli.Streams) error {
	var patterns summary
	d, err := result.Scan(c.File, patterns.add)
	if err != nil {
		return err
	}
	to := &cli.Output{W: s.Out}
	safe := plaintext.Writer(to)
	out := plaintext.Folded(safe)
	showHead(out, d)
	if rows := patterns.patterns(d); len(rows) > 0 {
		fmt.Fprintln(out, "# latency of each pattern, in ms")
		if err := patternTable(rows, d).WriteText(out); err != nil {
			return err
		}
		if n := drifting(rows); n > 0 {
			fmt.Fprintf(out, "# note: of %s: %s, and is the mean\n", cli.Count(n, "pattern"), result.DriftText)
		}
	}
	if len(d.Lanes) > 0 {
		fmt.Fprintln(out, "# block transfers")
		if err := blockTable(d.Lanes).WriteText(out); err != nil {
			return err
		}
	}
	if err := showTables(out, d); err != nil {
		return err
	}
	return cmp.Or(to.Err, safe.Close())
}

// blockTable has a row for each measurement of block transfers.
func blockTable(list []result.Lanes) *sheet.Sheet {
	t := sheet.New("", "", "|Phase", "|Op", "Block (B)", "Batch", "Threads", "Iterations", "BW (GB/s) %.6g",
		"Mean (us) %.6g", "p50 (us) %.6g", "p99 (us) %.6g", "Max (us) %.6g")
	for i := range list {
		m := &list[i]
		us := func(ns int64) float64 { return float64(ns) / 1e3 }
		t.AddRow(m.Phase, m.Op, m.BlockBytes, m.Batch, m.Threads, m.Iterations, m.Bandwidth/1e9, m.Latency.Mean/1e3,
			us(m.Latency.P50), us(m.Latency.P99), us(m.Latency.Max))
	}
	return t
}

// showHead prints the facts of a run, one a line.
func showHead(w io.Writer, d *result.Document) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s %s\n", name+":", plaintext.Escape(fmt.Sprintf(format, args...)))
	}
	if d.Title != "" {
		line("title", "%s", d.Title)
	}
	if d.Workload != "" {
		line("workload", "%s", d.Workload)
	}
	line("status", "%s", d.Status)
	if d.Failure != nil {
		line("failure", "%v", *d.Failure)
	}
	line("started", "%s", d.Started.Format(time.RFC3339))
	if d.Finished != nil {
		line("took", "%v", d.Finished.Sub(d.Started).Round(time.Millisecond))
	}
	line("command", "%s", strings.Join(d.Command, " "))
	line("perigee", "%s %s", d.Perigee, d.Perigee.Go)
	line("scenario", "%s (SHA-256 %.12s...)", d.Scenario.Name, d.Scenario.SHA256)
	for _, m := range d.Scenario.Modules {
		line("module", "%s: %s (SHA-256 %.12s...)", m.Name, m.File, m.SHA256)
	}
	line("options", "%s", optionsText(d.Scenario.Options))
	line("seed", "%d", d.Seed)
	var hosts []string
	for _, h := range d.World.Hosts {
		hosts = append(hosts, fmt.Sprintf("%s (%d)", h.Name, len(h.Ranks)))
	}
	line("ranks", "%d by %s on %s", d.World.Size, d.World.Launcher, strings.Join(hosts, ", "))
	for _, g := range d.World.ByHardware() {
		line("hardware", "%s: %s", strings.Join(g.Hosts, ", "), g.Hardware)
	}
	if d.Engine != nil {
		line("engine", "%s %s, backend %s", d.Engine.Name, d.Engine.Version, d.Engine.Backend)
	}
	showObserved(d, line)
	if d.Replay != nil {
		for _, text := range d.Replay.Answer() {
			line("replay", "%s", text)
		}
	}
	line("holds", "%s", holds(d))
	for _, n := range d.Notes {
		line("note", "%s", n)
	}
}

// showObserved prints what was seen beside the times.
func showObserved(d *result.Document, line func(name, format string, args ...any)) {
	if d.Paths != nil {
		for _, text := range d.Paths.Lines() {
			line("path", "%s", text)
		}
	}
	if d.Accounts != nil && d.Accounts.Speaks() {
		line("accounts", "%v", d.Accounts)
	}
	for _, text := range d.Congestion() {
		line("network", "%s", text)
	}
	if l := d.Line; l != nil && l.Rate > 0 {
		line("line", "%s (%s)", size.Rate(l.Rate), l.From)
	} else if l != nil && l.From != "" {
		line("line", "unknown: %s", l.From)
	}
	if text := d.CeilingText(); text != "" {
		line("ceiling", "%s", text)
	}
}

func optionsText(options map[string]any) string {
	var list []string
	for _, k := range slices.Sorted(mapKeys(options)) {
		list = append(list, fmt.Sprintf("%s=%v", k, whole(options[k])))
	}
	return strings.Join(list, " ")
}

// holds counts what a result has.
func holds(d *result.Document) string {
	matrices := fmt.Sprint(len(d.Matrices), " matrices")
	if len(d.Matrices) == 1 {
		matrices = "1 matrix"
	}
	parts := []string{cli.Count(len(d.Patterns), "pattern") + " of " + matrices}
	if n := len(d.Lanes); n > 0 {
		parts = append(parts, cli.Count(n, "measurement")+" of block transfers")
	}
	if n := len(d.Storage); n > 0 {
		parts = append(parts, cli.Count(n, "run")+" of storage operations")
	}
	return strings.Join(append(parts, cli.Count(len(d.Tables), "table"), cli.Count(len(d.Inputs), "input file")), ", ")
}

func mapKeys(m map[string]any) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// showTables prints the tables of the run, its thresholds and its own metrics.
func showTables(w io.Writer, d *result.Document) error {
	for _, recorded := range d.Tables {
		var t sheet.Sheet
		t.AddColumns(sheet.Right, "", sheet.Unique(recorded.Columns)...)
		for _, row := range recorded.Rows {
			cells := slices.Clone(row)
			for i, c := range cells {
				switch v := whole(c).(type) {
				case float64:
					cells[i] = fmt.Sprintf("%.6g", v)
				case []any, map[string]any:
					cells[i] = fmt.Sprint(v)
				default:
					cells[i] = v
				}
			}
			t.AddRow(cells...)
		}
		fmt.Fprintln(w, "#", plaintext.Escape(cmp.Or(recorded.Title, "printed by the run")))
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	for _, t := range d.Thresholds {
		verdict := "not judged"
		if t.Passed != nil {
			verdict = map[bool]string{true: "ok", false: "violated"}[*t.Passed]
		}
		switch {
		case t.Found != "":
			verdict += fmt.Sprintf(" (it is %s)", t.Found)
		case t.Value != nil:
			verdict += fmt.Sprintf(" (it is %.6g over %d samples)", *t.Value, t.Samples)
		case t.Passed != nil:
			verdict += fmt.Sprintf(" (samples: %d, too few to say)", t.Samples)
		}
		fmt.Fprintf(w, "threshold:  %s: %s\n", plaintext.Escape(t.Text()), verdict)
	}
	for _, m := range d.Metrics {
		for _, g := range m.Groups() {
			text := fmt.Sprintf("%s%s: %d samples", m.Name, g.Labels, len(g.Values))
			if len(g.Values) > 0 {
				text += fmt.Sprintf(", median %.6g", stats.Median(g.Values))
			}
			fmt.Fprintf(w, "metric:     %s\n", plaintext.Escape(text))
		}
	}
	for _, k := range slices.Sorted(mapKeys(d.Values)) {
		fmt.Fprintf(w, "value:      %s\n", plaintext.Escape(k))
	}
	return nil
}

// whole turns a number of JSON that is whole, such as one of bytes, into one that prints all its digits.
// Any other value comes back as it is.
func whole(v any) any {
	const exactBelow = 1 << 53
	if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < exactBelow {
		return int64(f)
	}
	return v
}
