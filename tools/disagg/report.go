package disagg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"perigee/internal/atomicfile"
	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/plaintext"
	"perigee/internal/regular"
	"perigee/internal/table"
	"perigee/internal/version"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/history"
	"perigee/tools/disagg/page"
	"perigee/tools/disagg/record"
	"perigee/tools/disagg/verdict"
)

// ReportCmd is `perigee disagg report`.
type ReportCmd struct {
	Paths  []string `arg:"" name:"path" help:"Output folders of runs, or CSV files of figures; several make a history."`
	Output string   `short:"o" default:"disagg.html" placeholder:"FILE" help:"Page to write [disagg.html]."`
	Title  string   `default:"Disaggregated serving" placeholder:"TEXT" help:"Title of the page."`
	Alpha  float64  `default:"0.05" placeholder:"P" help:"Intervals of medians hold with the probability 1-P [0.05]."`
	Format string   `enum:"page,text,json" default:"page" help:"page, or the figures as text or json on standard output."`
}

// figure is a figure of a level in the JSON of report.
type figure struct {
	Test        string    `json:"test"`
	Concurrency int       `json:"concurrency"`
	Metric      string    `json:"metric"`
	Runs        int       `json:"runs"`
	Median      float64   `json:"median"`
	Low         *float64  `json:"low"` // interval of the median; null: too few runs
	High        *float64  `json:"high"`
	Values      []float64 `json:"values"` // in the order of time
}

// Run makes the page.
func (c *ReportCmd) Run(s cli.Streams) error {
	if err := checkAlpha(c.Alpha); err != nil {
		return err
	}
	rows, cases, err := readAll(s.Err, c.Paths)
	if err != nil {
		return err
	}
	if err := warnOfMixtures(s.Err, cases); err != nil {
		return err
	}
	series := history.Collect(rows)
	switch c.Format {
	case "json":
		return printJSON(s.Out, map[string]any{"cases": cases, "figures": figures(series, c.Alpha)})
	case "text":
		return printFigures(s.Out, series, c.Alpha)
	}
	o := page.Options{Title: c.Title, Alpha: c.Alpha, Generator: "perigee " + version.Get().String()}
	err = atomicfile.Write(c.Output, 0o644, func(w io.Writer) error {
		return page.Write(w, pageCases(cases), series,
			o)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s, %s; written to %s\n", cli.Count(len(cases), "case"),
		cli.Count(len(series), "figure"), c.Output)
	return err
}

func checkAlpha(alpha float64) error {
	if !(alpha > 0 && alpha < 1) {
		return fault.New(fault.Usage, "--alpha: wanted a number above 0 and below 1, got %g", alpha)
	}
	return nil
}

// readAll reads output folders and CSV files.
func readAll(w io.Writer, paths []string) (rows []record.Row, _ []Case, _ error) {
	known, cases := runs{}, []Case{} // in JSON a list, though it has no element
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, fault.New(fault.Input, "%s: %w", path, errors.Unwrap(err)).
				WithHint("wanted the output folder of perigee disagg run, or its %s", record.CSVName)
		}
		file := path
		if info.IsDir() {
			found, err := readCases(path)
			if err != nil {
				return nil, nil, err
			}
			cases = append(cases, found...)
			file = filepath.Join(path, record.CSVName)
			if _, err := os.Stat(file); err != nil && len(found) > 0 {
				continue // no case has passed
			}
		}
		more, left, err := record.ReadCSV(file)
		if err == nil && left > 0 {
			_, err = fmt.Fprintf(w, "warning: %s: %s of runs that failed or were invalid (column state) do not count\n",
				plaintext.Escape(file), cli.Count(left, "figure"))
		}
		if err != nil {
			return nil, nil, err
		}
		if err := known.add(file, more); err != nil {
			return nil, nil, err
		}
		rows = append(rows, more...)
	}
	return rows, cases, nil
}

// runs knows in which file each figure stands.
type runs map[record.Row]string

// add enters the figures of a file. A run of which a file before has every figure, or the same one given twice, is an
// error: it would count as two that agree. Within a file two runs of the same second may have equal figures, but not
// the same times to the microsecond.
func (known runs) add(file string, rows []record.Row) error {
	type figures struct {
		all, copies int
		other       string // file
	}
	of := map[record.Row]*figures{} // by what the figures of a run have in common
	here := map[record.Row]bool{}
	for _, row := range rows {
		if here[row] && fraction.MatchString(row.Took) {
			return fault.New(fault.Input, "%s has %s of %s at concurrency %d twice, started at %s, with the same value after the same %s s: it would count twice",
				file, row.Metric, row.Test, row.Concurrency, row.Start.Format(time.DateTime), row.Took).
				WithHint("give each run once: take out the copies of its rows")
		}
		here[row] = true
		row.Took = "" // another program may have written it in another way
		run := row
		run.Metric, run.Value = "", 0
		f := of[run]
		if f == nil {
			f = &figures{}
			of[run] = f
		}
		f.all++
		if other, ok := known[row]; ok {
			f.other = other
			f.copies++
		}
	}
	for _, row := range rows {
		row.Took = ""
		known[row] = file
		row.Metric, row.Value = "", 0
		if f := of[row]; f.copies == f.all {
			return fault.New(fault.Input, "%s has a run that %s has already, of %s at concurrency %d, started at %s: it would count twice",
				file, f.other, row.Test, row.Concurrency, row.Start.Format(time.DateTime)).
				WithHint("give each run once: leave out the copy")
		}
	}
	return nil
}

// fraction matches seconds that were measured to less than one: no two runs take the same.
var fraction = regexp.MustCompile(`\.[0-9]*[1-9]`)

// What a verdict may hold: 100 levels with their figures have 100 kB, and a log has 10,000 levels at most and 100,000
// scores.
const (
	mostVerdict  = 16 << 20 // bytes
	mostElements = 1 << 20  // of its lists and objects, as its commas count them
	mostLevels   = 10_000
	mostScores   = 100_000
	mostTexts    = 1000 // reasons, warnings, files
)

// readCase reads the verdict in a result folder.
func readCase(dir string) (*Case, error) {
	path := filepath.Join(dir, verdictFile)
	data, err := regular.Read(path, mostVerdict)
	if err != nil {
		return nil, fault.New(fault.Input, "%w", err)
	}
	if bytes.Count(data, []byte(",")) > mostElements {
		return nil, fault.New(fault.Input, "%s: wanted a verdict with at most %d elements, got more", path, mostElements)
	}
	var c Case
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg: %w", path, err)
	}
	v := c.Verdict
	if v == nil {
		return nil, fault.New(fault.Input, "%s: wanted a verdict of perigee disagg, got none", path).
			WithHint("parse the case again: perigee disagg parse %s", dir)
	}
	if len(v.Levels) > mostLevels || len(v.Accuracy) > mostScores || c.Probe != nil && len(c.Probe.Pairs) > mostTexts ||
		max(len(v.Reasons), len(v.Warnings), len(v.Files)) > mostTexts {
		return nil, fault.New(fault.Input, "%s: wanted at most %d levels, %d scores and %d reasons, warnings, files "+
			"and pairs, got more", path, mostLevels, mostScores, mostTexts)
	}
	c.Dir = dir // which has another name since, if the case has failed or was run again
	return &c, nil
}

// readCases reads the verdicts below an output folder, in the order of time.
func readCases(dir string) ([]Case, error) {
	logs := filepath.Join(dir, batch.LogsFolder)
	if _, err := os.Stat(logs); err != nil {
		return nil, fault.New(fault.Input, "%s: wanted the output folder of perigee disagg run: %w", dir, err)
	}
	var cases []Case
	for _, folder := range append([]string{logs}, batch.Elsewhere(dir)...) {
		entries, err := os.ReadDir(folder)
		if err != nil && folder == logs {
			return nil, fault.New(fault.Input, "%w", err)
		}
		for _, e := range entries {
			c, err := readCase(filepath.Join(folder, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // a case that still runs
			}
			if err != nil {
				return nil, err
			}
			cases = append(cases, *c)
		}
	}
	slices.SortStableFunc(cases, func(a, b Case) int { return a.Began.Compare(b.Began) })
	return cases, nil
}

// warnOfMixtures names cases of one id that did not do the same, on w and on the later ones: their figures have the
// same names.
func warnOfMixtures(w io.Writer, cases []Case) error {
	first := map[string]*Case{}
	said := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		a := first[c.ID]
		if a == nil {
			first[c.ID] = c
			continue
		}
		what := ""
		for _, d := range []struct {
			name         string
			ours, theirs any
		}{
			{"model", c.Model, a.Model}, {"input_length", c.Input, a.Input}, {"output_length", c.Output, a.Output},
			{"GPUs", c.GPUs, a.GPUs}, {"the configuration", c.Config, a.Config},
		} {
			if d.name == "the configuration" && (c.Config == "" || a.Config == "") {
				continue
			}
			if d.ours != d.theirs {
				what = cli.Shortened(fmt.Sprintf("%s is %v in some runs and %v in others", d.name, d.theirs, d.ours))
				break
			}
		}
		if what == "" {
			continue
		}
		c.Verdict.Warnings = append(slices.Clip(c.Verdict.Warnings), what+", and their figures are taken together")
		if said[c.ID] {
			continue
		}
		said[c.ID] = true
		if _, err := fmt.Fprintf(w, "warning: %s: %s; their figures are taken together\n", plaintext.Escape(cli.Shortened(c.ID)), plaintext.Escape(what)); err != nil {
			return err
		}
	}
	return nil
}

func figures(series []history.Series, alpha float64) []figure {
	list := []figure{}
	for _, s := range series {
		values := s.Values()
		f := figure{Test: s.Test, Concurrency: s.Concurrency, Metric: s.Metric, Runs: len(values),
			Median: page.Median(values), Values: values}
		if low, high, ok := history.MedianInterval(values, alpha); ok {
			f.Low, f.High = &low, &high
		}
		list = append(list, f)
	}
	return list
}

// printFigures writes the figures for people.
func printFigures(w io.Writer, series []history.Series, alpha float64) error {
	var t table.Table
	t.AddColumn("Test", table.Left, "")
	t.AddColumn("Concurrency", table.Right, "")
	t.AddColumn("Metric", table.Left, "")
	for _, name := range []string{"Median", "Low", "High"} {
		t.AddColumn(name, table.Right, "%.2f")
	}
	t.AddColumn("Runs", table.Right, "")
	for _, f := range figures(series, alpha) {
		low, high := any(nil), any(nil)
		if f.Low != nil {
			low, high = *f.Low, *f.High
		}
		t.AddRow(f.Test, f.Concurrency, f.Metric, f.Median, low, high, f.Runs)
	}
	return t.WriteText(w)
}

// pageCases turns cases into what the page shows.
func pageCases(cases []Case) []page.Case {
	var list []page.Case
	for _, c := range cases {
		p := page.Case{ID: c.ID, Repeat: c.Repeat, Model: c.Model, State: c.State, Reasons: c.Reasons, Detail: c.Detail,
			Job: c.Job, Slurm: c.Slurm,
			Nodes: c.Nodes, Began: c.Began, QueueS: c.QueueS, RunS: c.RunS, GPUs: c.GPUs, Warnings: c.Warnings,
			Probe: c.Probe.String(), Sound: good(c.Verdict)}
		for _, l := range c.Levels {
			p.Levels = append(p.Levels, page.Level{Concurrency: l.Concurrency, Complete: l.Complete, Metrics: l.Metrics,
				Throughput: l.Throughput})
		}
		list = append(list, p)
	}
	return list
}

// CompareCmd is `perigee disagg compare`.
type CompareCmd struct {
	Old    string            `arg:"" help:"Output folder or CSV file before."`
	New    string            `arg:"" help:"Output folder or CSV file after."`
	Alpha  float64           `default:"0.05" placeholder:"P" help:"Level of significance: how often, at most, a comparison may show any change where there is none [0.05]."`
	Better map[string]string `placeholder:"METRIC=WHEN" help:"Which values of a metric are good: lower or higher. Names of rates and of times say it by themselves."`
	FailOn string            `name:"fail-on" enum:"worse,any,none" default:"worse" help:"Exit with code 13 if a figure is worse, if any has changed, or never: worse, any or none."`
	Format string            `enum:"text,csv,json" default:"text" help:"text, csv or json."`
}

// Run compares the figures of two runs.
func (c *CompareCmd) Run(s cli.Streams) (err error) {
	if err := checkAlpha(c.Alpha); err != nil {
		return err
	}
	var sides [2][]history.Series
	var cases [2][]Case
	var rows [2][]record.Row
	for i, path := range []string{c.Old, c.New} {
		if rows[i], cases[i], err = readAll(s.Err, []string{path}); err != nil {
			return err
		}
	}
	if err := c.leaveOutCopies(s.Err, &rows, &cases); err != nil {
		return err
	}
	for i := range sides {
		sides[i] = history.Collect(rows[i])
	}
	if err := warnOfMixtures(s.Err, slices.Concat(cases[0], cases[1])); err != nil {
		return err
	}
	declared, err := c.directions(slices.Concat(sides[0], sides[1]))
	if err != nil {
		return err
	}
	changes, err := history.Compare(sides[0], sides[1], c.Alpha, declared)
	if err != nil {
		return err
	}
	broken, mended := failing(cases[0], rows[0], cases[1]), failing(cases[1], rows[1], cases[0])
	if len(changes) == 0 && len(cases[0])+len(cases[1]) == 0 {
		return fault.New(fault.Input, "there are no figures in %s, nor in %s, and no cases", c.Old, c.New)
	}
	if err := c.print(s, changes, broken); err != nil {
		return err
	}
	count := map[string]int{}
	for _, ch := range changes {
		count[ch.Verdict]++
	}
	worse, better, differ := count[history.Worse], count[history.Better], count[history.Differs]
	if c.FailOn == "none" || worse+len(broken) == 0 && (c.FailOn == "worse" || better+differ+len(mended) == 0) {
		return nil
	}
	text := fmt.Sprintf("%s worse, %d better", cli.Count(worse, "figure"), better)
	if differ > 0 {
		text += fmt.Sprintf(", %d different", differ)
	}
	for _, list := range []struct {
		ids       []string
		old, next string
	}{{broken, "passed", "fail"}, {mended, "failed", "pass"}} {
		if len(list.ids) > 0 {
			text += fmt.Sprintf("; %s in OLD and %s in NEW: %s", list.old, list.next,
				plaintext.Escape(cli.Shortened(strings.Join(list.ids, ", "))))
		}
	}
	return fault.New(fault.Worse, "%s", text)
}

// leaveOutCopies takes the runs out of NEW that OLD has: a stored table and the output folder that has gone on since
// hold the same runs, which would speak for both sides.
func (c *CompareCmd) leaveOutCopies(w io.Writer, rows *[2][]record.Row, cases *[2][]Case) error {
	type run struct {
		id    string
		start int64
	}
	of := func(r record.Row) run { return run{idOf(r), r.Start.Unix()} }
	bare := func(r record.Row) record.Row { r.Took = ""; return r } // another program may write it in another way
	old, copied := map[record.Row]bool{}, map[run]bool{}
	for _, r := range rows[0] {
		old[bare(r)] = true
	}
	for _, r := range rows[1] {
		all, seen := copied[of(r)]
		copied[of(r)] = (all || !seen) && old[bare(r)]
	}
	maps.DeleteFunc(copied, func(_ run, all bool) bool { return !all })
	if len(copied) == 0 {
		return nil
	}
	left := map[string]bool{} // runs that started together have not lasted equally long
	rows[1] = slices.DeleteFunc(rows[1], func(r record.Row) bool {
		if copied[of(r)] {
			left[fmt.Sprint(r.Test, r.Start.Unix(), r.Took)] = true
		}
		return copied[of(r)]
	})
	cases[1] = slices.DeleteFunc(cases[1], func(k Case) bool {
		return copied[run{k.ID, k.Began.Unix()}] || slices.ContainsFunc(cases[0], func(other Case) bool {
			return other.ID == k.ID && other.Job == k.Job && other.Began.Equal(k.Began)
		})
	})
	if len(rows[1])+len(cases[1]) == 0 {
		return fault.New(fault.Input, "every run of %s stands in %s, too: there is nothing to compare", c.New, c.Old)
	}
	_, err := fmt.Fprintf(w, "warning: %s of %s stand in %s, too, and count there only\n", cli.Count(len(left), "run"),
		plaintext.Escape(c.New), plaintext.Escape(c.Old))
	return err
}

// idOf is the id of a row's case: the test is function[id].
func idOf(r record.Row) string {
	_, id, _ := strings.Cut(strings.TrimSuffix(r.Test, "]"), "[")
	return id
}

// failing lists the cases that have passed in some run of a, whose rows are of passed benchmarks, and failed in all
// runs of b.
func failing(a []Case, rows []record.Row, b []Case) (ids []string) {
	passed, failed := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		passed[idOf(r)] = true
	}
	for _, c := range a {
		passed[c.ID] = passed[c.ID] || c.State == verdict.Passed
	}
	for _, c := range b {
		before, known := failed[c.ID]
		failed[c.ID] = (before || !known) && c.State == verdict.Failed
	}
	for id := range failed {
		if failed[id] && passed[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// directions are those of --better.
func (c *CompareCmd) directions(series []history.Series) (map[string]history.Direction, error) {
	words := map[string]history.Direction{"lower": history.Lower, "higher": history.Higher}
	declared := map[string]history.Direction{}
	for _, metric := range slices.Sorted(maps.Keys(c.Better)) {
		direction, ok := words[c.Better[metric]]
		if !ok {
			return nil, fault.New(fault.Usage, "--better: wanted %s=lower or %[1]s=higher, got %.40q", cli.Shortened(metric), c.Better[metric])
		}
		if !slices.ContainsFunc(series, func(s history.Series) bool { return s.Metric == metric }) {
			return nil, fault.New(fault.Usage, "--better: there is no metric %s", cli.Shortened(metric))
		}
		declared[metric] = direction
	}
	return declared, nil
}

func (c *CompareCmd) print(s cli.Streams, changes []history.Change, broken []string) error {
	var t table.Table
	t.AddColumn("Test", table.Left, "")
	t.AddColumn("Concurrency", table.Right, "")
	t.AddColumn("Metric", table.Left, "")
	for _, col := range []struct{ name, format string }{
		{"Old", "%.2f"}, {"New", "%.2f"}, {"Ratio", "%.3f"}, {"Low", "%.3f"}, {"High", "%.3f"}, {"p", "%.3g"},
		{"Old runs", ""}, {"New runs", ""},
	} {
		t.AddColumn(col.name, table.Right, col.format)
	}
	t.AddColumn("Verdict", table.Left, "")
	few := 0
	var unknown []string // metrics
	for _, ch := range changes {
		if ch.Verdict == history.TooFew {
			few++
		}
		if ch.Verdict == history.Differs && !slices.Contains(unknown, ch.Metric) {
			unknown = append(unknown, ch.Metric)
		}
		t.AddRow(ch.Test, ch.Concurrency, ch.Metric, ch.OldMedian, ch.NewMedian, ch.Ratio, ch.Low, ch.High, ch.P,
			ch.Old, ch.New, ch.Verdict)
	}
	var err error
	switch c.Format {
	case "csv":
		err = t.WriteCSV(s.Out)
	case "json":
		err = t.WriteJSON(s.Out)
	default:
		if err = t.WriteText(s.Out); err == nil && len(broken) > 0 {
			_, err = fmt.Fprintf(s.Out, "\nPassed in OLD and fail in NEW: %s\n",
				plaintext.Escape(cli.Shortened(strings.Join(broken, ", "))))
		}
		if err == nil && few > 0 {
			_, err = fmt.Fprintf(s.Out, "\n%s with too few runs to distinguish any change from chance: 4 runs on each side are enough (--repeat 4)\n", cli.Count(few, "figure"))
		}
		if err == nil && len(unknown) > 0 {
			_, err = fmt.Fprintf(s.Out, "\nWhether high or low values of %s are good, the name does not say: --better NAME=higher or NAME=lower does\n",
				plaintext.Escape(cli.Shortened(strings.Join(unknown, ", "))))
		}
	}
	return err
}
