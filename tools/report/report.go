package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/plaintext"
	"perigee/tools/report/figures"
)

// Cmd is `perigee report`.
type Cmd struct {
	Results []string `arg:"" name:"result" help:"Result files of perigee (--result of a run)."`
	Output  string   `short:"o" placeholder:"FILE" help:"Where to write; - is the standard output. Default: report.html, or the standard output with --text and --format json."`
	Text    bool     `help:"The essence, for the terminal; the same as --format text."`
	Pool    bool     `help:"Take the results as runs of one workload: the figures are those of all their runs."`
	Format  string   `enum:"html,text,json" default:"html" help:"html, text or json."`
}

// input is a result to report on.
type input struct {
	label   string
	figures *figures.Figures
}

// Help says what is more than a line.
func (Cmd) Help() string {
	return `The page is one self-contained file: it opens from a mail attachment and asks the network for nothing.
Several results stand side by side in one page; --pool takes them as runs of one workload.

  perigee report result.json.zst -o report.html
  perigee report --text result.json.zst
  perigee report --pool r1.json.zst r2.json.zst r3.json.zst
  perigee report --format json result.json.zst | jq '.results[0].findings'

What each view shows, to the formula: docs/report.md.`
}

// Run reads the results and writes the report.
func (c *Cmd) Run(streams cli.Streams) error {
	if c.Text {
		if c.Format == "json" {
			return fault.New(fault.Usage, "--text and --format json exclude each other")
		}
		c.Format = "text"
	}
	if c.Output == "" {
		c.Output = "-"
		if c.Format == "html" {
			c.Output = "report.html"
		}
	}
	if _, err := cli.FormatFor(c.Format, c.Output); err != nil {
		return err
	}
	if err := cli.NotOver(c.Output, c.Results...); err != nil {
		return err
	}
	if c.Pool {
		if len(c.Results) < 2 {
			return fault.New(fault.Usage, "--pool takes several results, and here is one")
		}
		f, err := figures.Pool(c.Results)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s and %d more, pooled", filepath.Base(c.Results[0]), len(c.Results)-1)
		return c.write([]input{{name, f}}, streams)
	}
	list := make([]input, len(c.Results))
	for i, path := range c.Results {
		f, err := figures.Read(path)
		if err != nil {
			return err
		}
		list[i].figures = f
	}
	label(list, c.Results)
	return c.write(list, streams)
}

// label names results by their files, with folders where names alone would be equal.
func label(list []input, paths []string) {
	seen := map[string]int{}
	for _, p := range paths {
		seen[filepath.Base(p)]++
	}
	for i, p := range paths {
		list[i].label = filepath.Base(p)
		if seen[list[i].label] > 1 {
			list[i].label = p
		}
	}
}

func (c *Cmd) write(list []input, streams cli.Streams) error {
	var style look
	if c.Output == "-" {
		style = lookOf(streams)
	} else {
		style = look{width: plainWidth}
	}
	fill := func(w io.Writer) error {
		switch c.Format {
		case "json":
			return writeJSON(w, list)
		case "text":
			return writeText(w, list, style)
		}
		return writeHTML(w, list)
	}
	if c.Output == "-" {
		if err := fill(streams.Out); err != nil {
			return fault.New(fault.Output, "write the report: %w", err)
		}
		return nil
	}
	if err := file.Write(c.Output, fill); err != nil {
		return err
	}
	fmt.Fprintf(streams.Err, "# report: %s\n", c.Output)
	return nil
}

// writeJSON writes the computed figures.
func writeJSON(w io.Writer, list []input) error {
	type one struct {
		File     string `json:"file"`
		Scenario string `json:"scenario"`
		Status   string `json:"status"`
		World    any    `json:"world"`
		*figures.Figures
	}
	out := struct {
		Schema  string `json:"schema"`
		Results []one  `json:"results"`
	}{Schema: "perigee.report/1"}
	for _, in := range list {
		d := in.figures.Document
		out.Results = append(out.Results, one{in.label, d.Scenario.Name, d.Status, d.World, in.figures})
	}
	return json.NewEncoder(&indenter{w: bufio.NewWriter(plaintext.JSONWriter(w))}).Encode(out)
}
