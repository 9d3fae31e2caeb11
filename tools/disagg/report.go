package disagg

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/version"
	"perigee/internal/serving/given"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// ReportCmd is `perigee disagg report`.
type ReportCmd struct {
	Paths      []string `arg:"" name:"path" help:"Output folders of runs, CSV files of figures, or files and folders of serving benchmarks; several make a history."`
	Output     string   `short:"o" default:"disagg.html" placeholder:"FILE" help:"Page to write [disagg.html]; - is the standard output."`
	Title      string   `default:"Disaggregated serving" placeholder:"TEXT" help:"Title of the page."`
	Alpha      float64  `default:"0.05" placeholder:"P" help:"Intervals of medians hold with the probability 1-P [0.05]."`
	sheet.View `set:"format_default=page"`
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
	series := report.Collect(rows)
	figures := report.Sheet(report.Figures(series, c.Alpha))
	switch c.Format {
	case "csv":
		return c.View.Write(s.Out, figures)
	case "json":
		return printJSON(s.Out, struct {
			Cases   []judge.Case    `json:"cases"`
			Figures []report.Figure `json:"figures"`
		}{cases, report.Figures(series, c.Alpha)})
	case "text":
		var failed []string
		for _, one := range cases {
			if one.State == judge.Failed {
				failed = append(failed, one.ID)
			}
		}
		if len(failed) > 0 {
			fmt.Fprintf(s.Err, "warning: %d of %s of cases failed; the page and json say why: %s\n",
				len(failed), cli.Count(len(cases), "run"), plaintext.Escape(cli.Shortened(strings.Join(failed, ", "))))
		}
		for _, text := range report.Answer(cases) {
			fmt.Fprintln(s.Out, "#", plaintext.Escape(text))
		}
		return c.View.Write(s.Out, figures)
	}
	o := report.Options{Title: c.Title, Alpha: c.Alpha, Generator: "perigee " + version.Get().String()}
	err = cli.WriteTo(c.Output, s.Out, func(w io.Writer) error { return report.WritePage(w, cases, series, o) })
	if err != nil || c.Output == "-" {
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

// readAll reads output folders, CSV files, and files and folders of serving benchmarks.
func readAll(w io.Writer, paths []string) (rows []report.Row, cases []judge.Case, _ error) {
	known, cases := origins{}, []judge.Case{} // in JSON a list, though it has no element
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, fault.New(fault.Input, "%s: %w", path, errors.Unwrap(err)).
				WithHint("wanted the output folder of perigee disagg run, or its %s", report.CSVName)
		}
		if given.Of(path) == given.Serving {
			more, err := figuresOf(w, path)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, more...)
			continue
		}
		file := path
		if info.IsDir() {
			found, err := casesBelow(path)
			if err != nil {
				return nil, nil, err
			}
			cases = append(cases, found...)
			file = filepath.Join(path, report.CSVName)
			if _, err := os.Stat(file); err != nil && len(found) > 0 {
				continue // no case has passed
			}
		}
		more, left, err := report.ReadCSV(file)
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

// origins knows in which file each figure stands, which has no time that it took: another program may have written that
// in another way.
type origins map[report.Row]string

// bare is a row as origins knows it.
func bare(r report.Row) report.Row { r.Took = ""; return r }

// levelOf returns what the figures of a level of a run have in common.
func levelOf(r report.Row) report.Row { r.Metric, r.Value, r.Took = "", 0, ""; return r }

// copies lists the keys of rows that are copies: of a key, every row is known.
func copies[K comparable](rows []report.Row, known origins, key func(report.Row) K) map[K]bool {
	all := map[K]bool{}
	for _, r := range rows {
		before, seen := all[key(r)]
		_, is := known[bare(r)]
		all[key(r)] = is && (before || !seen)
	}
	maps.DeleteFunc(all, func(_ K, all bool) bool { return !all })
	return all
}

// add enters the figures of a file. A run of which a file before has every figure, or the same one given twice, is an
// error: it would count as two that agree. Within a file two runs of the same second may have equal figures, but not
// the same times to the microsecond.
func (known origins) add(file string, rows []report.Row) error {
	here, copied := map[report.Row]bool{}, copies(rows, known, levelOf)
	for _, row := range rows {
		if here[row] && fraction.MatchString(row.Took) {
			return fault.New(fault.Input, "%s has %s of %s at concurrency %d twice, started at %s, with the same value after the same %s s: it would count twice",
				file, row.Metric, row.Test, row.Concurrency, row.Start.Format(time.DateTime), row.Took).
				WithHint("give each run once: take out the copies of its rows")
		}
		here[row] = true
	}
	for _, row := range rows {
		if copied[levelOf(row)] {
			return fault.New(fault.Input, "%s has a run that %s has already, of %s at concurrency %d, started at %s: it would count twice",
				file, known[bare(row)], row.Test, row.Concurrency, row.Start.Format(time.DateTime)).
				WithHint("give each run once: leave out the copy")
		}
	}
	for row := range here {
		known[bare(row)] = file
	}
	return nil
}

// fraction matches seconds that were measured to less than one: no two runs take the same.
var fraction = lazyre.New(`\.[0-9]*[1-9]`)
