package compare

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/junit"
	"perigee/internal/result"
	"perigee/internal/serving/given"
)

// Judging are the flags of commands that compare.
type Judging struct {
	Alpha   float64  `default:"0.05" placeholder:"P" help:"Level of significance: how often, at most, a comparison may show any change where there is none [0.05]."`
	Metric  string   `enum:"latency_ms,mean_bw_gb_per_s,slowdown" default:"latency_ms" help:"What to compare of each pattern: latency_ms, mean_bw_gb_per_s or slowdown."`
	Pairs   string   `enum:"auto,all,changed,none" default:"auto" help:"Pairs of ranks: all, changed (those with a verdict), none, or auto (changed in text, all in JSON and CSV)."`
	FailOn  string   `name:"fail-on" enum:"worse,any,none" default:"worse" help:"Exit with code 13 if something is worse, if there is any verdict, or never: worse, any or none."`
	Format  string   `enum:"auto,text,json,csv,page,html" default:"auto" help:"How to print: text, json, csv, page (or html, self-contained), or auto: as the name of --output ends, else text."`
	Page    string   `short:"o" name:"output" placeholder:"FILE" help:"Where to write; - is standard output [-]."`
	Columns []string `completes:"comparecolumns" placeholder:"NAMES" help:"Columns to print, with commas."`
	Sort    string   `completes:"comparecolumns" placeholder:"NAME" help:"Order rows by a column; -NAME: downwards."`
}

// Cmd is the command perigee compare.
type Cmd struct {
	Old     string   `arg:"" help:"The result before: a file, or a folder with the results of several runs; or serving benchmarks, or an output folder of perigee disagg."`
	New     string   `arg:"" help:"The result after, likewise."`
	MoreOld []string `name:"old" sep:"none" placeholder:"FILE" help:"A further result before (may be repeated)."`
	MoreNew []string `name:"new" sep:"none" placeholder:"FILE" help:"A further result after (may be repeated)."`
	JUnit   string   `name:"junit" placeholder:"FILE" help:"Write a test for each kind of rows, which fails as --fail-on says, to FILE as JUnit XML."`
	Force   bool     `help:"Count runs that did not end, too."`
	Judging
}

// Help adds to the flags in perigee compare --help.
func (Cmd) Help() string {
	return "Compares the latency of every pattern and of every pair of ranks, and distinguishes real changes from chance. " +
		"Of serving benchmarks, such as two releases of a sweep, it compares the levels of each configuration. See docs/compare.md."
}

// Run compares and prints.
func (c *Cmd) Run(s cli.Streams) error {
	if err := c.Judging.Check(); err != nil {
		return err
	}
	before, after := append([]string{c.Old}, c.MoreOld...), append([]string{c.New}, c.MoreNew...)
	kind, err := given.OfAll(slices.Concat(before, after))
	if err != nil {
		return err
	}
	switch kind {
	case given.Disagg:
		return c.disagg(s)
	case given.Trace:
		return fault.New(fault.Usage, "compare takes results, serving benchmarks and outputs of disagg, got %s: %s", kind, c.Old).
			WithHint("perigee trace show %s %s shows them side by side", c.Old, c.New)
	case given.Result:
		err = c.checkOutputs(slices.Concat(before, after))
	}
	if err != nil {
		return err
	}
	suite := junit.Suite{Name: suiteName, Began: time.Now()}
	err = c.judge(s, kind, [2][]string{before, after}, func(list []junit.Case) { suite.Cases = list })
	if c.JUnit == "" {
		return err
	}
	if suite.Cases == nil { // nothing has been compared
		suite.Cases = []junit.Case{{Name: "the comparison", Class: suiteName, Error: fmt.Sprint(err)}}
	}
	if lost := junit.Write(c.JUnit, suite); err == nil {
		err = lost
	}
	return err
}

// checkOutputs refuses to write over a result.
func (c *Cmd) checkOutputs(paths []string) error {
	var files []string
	for _, path := range paths {
		of, err := result.In(path)
		if err != nil {
			return err
		}
		files = append(files, of...)
	}
	return cmp.Or(cli.NotOver(c.Page, files...), cli.NotOver(c.JUnit, append(files, c.Page)...))
}

// judge reads the results of both sides and compares them.
func (c *Cmd) judge(s cli.Streams, kind given.Kind, sides [2][]string, cases func([]junit.Case)) error {
	if kind == given.Serving {
		r, err := c.benchmarks(sides)
		if err != nil {
			return err
		}
		return c.print(s, r, cases)
	}
	before, after, from := sides[0], sides[1], Files{}
	old, err := ReadAll(before, from)
	if err != nil {
		return err
	}
	fresh, err := ReadAll(after, from)
	if err != nil {
		return err
	}
	return c.Judge(s, Sides{Old: old, New: fresh, Files: from, Force: c.Force, Cases: cases,
		Advice: func(n int) string { return c.advice(n, slices.Concat(old, fresh)) }})
}

// advice is the command that makes enough runs, n on each side. Without a launcher it would put the ranks of several
// hosts on this one.
func (c *Cmd) advice(n int, docs []*result.Document) string {
	var paths []string
	for _, path := range []string{c.Old, c.New} {
		if first, err := FirstOf(path); err == nil {
			path = first
		}
		paths = append(paths, path)
	}
	if !slices.ContainsFunc(docs, func(d *result.Document) bool { return len(d.World.Hosts) > 1 }) {
		return cli.CommandLine([]string{"perigee", "rerun", paths[0], paths[1], "--times", fmt.Sprint(n)})
	}
	again := func(path, folder string) string {
		return cli.CommandLine([]string{"perigee", "rerun", path, "--result", folder + "/N.json.zst"})
	}
	return fmt.Sprintf("under the launcher of the runs, on as many hosts, %d times each: %s and %s (N: 1 to %d), and in the end "+
		"perigee compare before after", n, again(paths[0], "before"), again(paths[1], "after"), n)
}

// Sides are two sets of results that are to be compared.
type Sides struct {
	Old, New []*result.Document
	Files    Files // of these, where they are of files
	Force    bool  // count runs that did not end
	// Advice returns the command that makes enough runs for a verdict, n on each side.
	Advice func(n int) string
	// Cases, if set, is given the comparison as tests.
	Cases func([]junit.Case)
}

// As is the format in which the comparison is printed: text, json, csv or html.
func (j Judging) As() (string, error) {
	return cli.FormatFor(j.Format, j.Page, "text", "json", "csv", "html")
}

// Check refuses what makes no sense before anything is read or run.
func (j Judging) Check() error {
	format, err := j.As()
	if err != nil {
		return err
	}
	if !(j.Alpha > 0 && j.Alpha < 1) {
		return fault.New(fault.Usage, "--alpha is %g, want a number above 0 and below 1", j.Alpha)
	}
	if format == "html" && (j.Columns != nil || j.Sort != "") {
		return fault.New(fault.Usage, "--columns and --sort are not for pages (--format html): their tables sort themselves")
	}
	if _, err := chosen(j.Columns, nil, true); err != nil {
		return err
	}
	if j.Sort != "" {
		return Sort(nil, j.Sort)
	}
	return nil
}

// Judge compares two sets of results, prints what it finds, and returns the error that --fail-on
// asks for.
func (j Judging) Judge(s cli.Streams, sides Sides) error {
	r, err := Compare(sides.Old, sides.New, Options{Alpha: j.Alpha, Metric: j.Metric, Pairs: j.Pairs != "none",
		Force: sides.Force, Files: sides.Files})
	if err != nil {
		return err
	}
	if !r.Judged && !r.unlike {
		r.Advice += ". To make them: " + sides.Advice(RunsNeeded(j.Alpha)+1)
	}
	return j.print(s, r, sides.Cases)
}

// print prints a comparison, hands it over as tests, and returns the error that --fail-on asks for.
func (j Judging) print(s cli.Streams, r *Report, cases func([]junit.Case)) error {
	format, err := j.As()
	if err != nil {
		return err
	}
	if j.Sort != "" {
		if err := Sort(r.Rows, j.Sort); err != nil {
			return err
		}
	}
	// Before rows are left out: --fail-on counts all of them.
	verdict := r.Err(j.FailOn)
	if cases != nil {
		cases(r.cases(j.FailOn))
	}
	if j.Pairs == "changed" && format != "text" {
		r.Rows = slices.DeleteFunc(r.Rows, func(row Row) bool { return row.Sender >= 0 && !row.changed() })
	}
	fill := func(w io.Writer) error {
		switch format {
		case "json":
			return r.WriteJSON(w, j.Columns)
		case "csv":
			return r.WriteCSV(w, j.Columns)
		case "html":
			return r.WriteHTML(w)
		}
		return r.WriteText(w, j.Columns, j.Pairs == "all")
	}
	if err := cli.WriteTo(cmp.Or(j.Page, "-"), s.Out, fill); err != nil {
		return err
	}
	return verdict
}

// ReadAll reads the results of a side. A folder stands for all that are directly in it. A run that is there twice, as a
// converted copy say, is an error: it would count as two that agree. Where each is from is added to from.
func ReadAll(paths []string, from Files) ([]*result.Document, error) {
	var docs []*result.Document
	fileOf := map[string]string{}
	for _, path := range paths {
		files, err := result.In(path)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			d, err := result.Read(f)
			if err != nil {
				return nil, err
			}
			if err := d.Once(f, fileOf); err != nil {
				return nil, err
			}
			docs, from[d] = append(docs, d), f
		}
	}
	return docs, nil
}

// FirstOf is the first result that a path stands for. A folder without results is an error of the kind Input.
func FirstOf(path string) (string, error) {
	files, err := result.In(path)
	if err != nil {
		return "", err
	}
	return files[0], nil
}
