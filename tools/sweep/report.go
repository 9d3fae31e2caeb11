package sweep

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/runs"
	"perigee/tools/sweep/plot"
)

// ReportCmd is `perigee sweep report`.
type ReportCmd struct {
	Input
	runs.Doubts
	Output   string   `short:"o" default:"sweep.html" placeholder:"FILE" help:"Page to write (default sweep.html); - is the standard output."`
	Format   string   `enum:"page,text,csv,json" default:"page" help:"page, or the first sentence and the runs as text, or the runs as csv or json, on the standard output."`
	Title    string   `default:"Benchmark sweep" placeholder:"TEXT" help:"Title of the page."`
	Scenario *int     `placeholder:"I" help:"Scenario that the page shows first [the one with the most runs]."`
	X        string   `default:"Thpt_per_User" completes:"columns" placeholder:"COLUMN" help:"Column of the x axis at first."`
	Y        string   `default:"Thpt_per_GPU" completes:"columns" placeholder:"COLUMN" help:"Column of the y axis at first."`
	SLO      []string `name:"slo" sep:"none" placeholder:"COLUMN<=N" help:"Bound that the page begins with, such as P90_TTFT_ms<=500, TTFT<=500ms, or 20s of whole requests. Can be repeated."`
}

// Run writes the page.
func (c *ReportCmd) Run(s cli.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	d, err := c.read(s, &c.Doubts)
	if err == nil && c.Format == "page" {
		err = cli.NotOver(c.Output, d.files...)
	}
	if err != nil {
		return err
	}
	if c.Scenario != nil { // the page may do without any
		if err := d.checkScenario(*c.Scenario); err != nil {
			return err
		}
	}
	d.settle(s, o.SLOs)
	o.Best = d.best(c.Scenario, o.SLOs)
	if c.Format != "page" {
		return c.print(s, d, o.Best)
	}
	d.notes = append(d.notes, otherAxes(&o.X, &o.Y, d.kept)...)
	o.Notes, o.SplitBy = d.notes, d.split
	for _, reason := range d.skipped {
		o.Skipped = append(o.Skipped, c.withoutFolder(reason))
	}
	for i, n := range o.Notes {
		o.Notes[i] = c.withoutFolder(n)
	}
	err = cli.WriteTo(c.Output, s.Out, func(w io.Writer) error { return plot.WritePage(w, d.kept, d.scenarios, o) })
	if err != nil {
		return err
	}
	if c.Output == "-" {
		return c.strict(d)
	}
	say(s, o.Best)
	fmt.Fprintf(plaintext.Writer(s.Out), "%s in %s; written to %s\n", cli.Count(len(d.kept), "run"),
		cli.Count(len(d.scenarios), "scenario"), c.Output)
	return c.strict(d)
}

// print writes the runs of the scenario, or all, as a table; in front of the text the sentence on the best one.
func (c *ReportCmd) print(s cli.Streams, d *imported, best string) error {
	rows, title := d.kept, ""
	if c.Scenario != nil {
		sc, err := d.scenario(c.Scenario)
		if err != nil {
			return err
		}
		rows, title = sc.Runs, fmt.Sprintf("scenario %d: %s", sc.Index, sc.Key)
	}
	if c.Format == "text" {
		say(s, best)
	}
	if err := (&TableCmd{Format: Format{c.Format}}).print(s, title, rows, nil); err != nil {
		return err
	}
	return c.strict(d)
}

func (c *ReportCmd) options() (plot.PageOptions, error) {
	o := plot.PageOptions{Generator: generator(), Title: c.Title}
	o.Scenario = -1
	if c.Scenario != nil {
		o.Scenario = *c.Scenario
	}
	var err error
	if o.X, o.Y, err = axes(c.X, c.Y); err != nil {
		return o, err
	}
	o.SLOs, err = runs.ParseSLOs(c.SLO)
	return o, err
}

// withoutFolder shortens a message that begins with a path below one of the
// arguments: pages are sent around, and need not say where this machine keeps
// its files.
func (c *ReportCmd) withoutFolder(message string) string {
	for _, dir := range c.Dirs {
		parent := filepath.Dir(filepath.Clean(dir))
		if rest, ok := strings.CutPrefix(message, parent+"/"); ok && parent != "." {
			return rest
		}
	}
	return message
}
