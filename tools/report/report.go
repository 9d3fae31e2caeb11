package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/figures"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/internal/serving/given"
)

// Cmd is `perigee report`.
type Cmd struct {
	Results []string `arg:"" name:"path" help:"Results of perigee (--result of a run), files and folders of serving benchmarks, such as the JSON of vllm bench serve, output folders of perigee disagg, or traces."`
	Output  string   `short:"o" placeholder:"FILE" help:"Where to write; - is the standard output. Default: report.html, or the standard output with --text and --format json."`
	Text    bool     `help:"The essence, for the terminal; the same as --format text."`
	Pool    bool     `help:"Take the results as runs of one workload: the figures are those of all their runs."`
	Full    bool     `help:"With --text: all of the text, also how the answer was judged, latencies, pairs of ranks and a map of the traffic."`
	Format  string   `enum:"page,text,json,html" default:"page" help:"page, text or json."`
	Title   string   `placeholder:"TEXT" help:"What the result is called, instead of the title of its run."`

	SLO []string `name:"slo" sep:"none" placeholder:"T|COLUMN<=N" help:"A time, such as 50ms, within which a run of a pattern is to end that has no slo_ms in the workload. Of serving benchmarks a bound, such as TTFT<=500ms."`
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
What is no result of perigee is known by its content, and reported on as sweep report, disagg report or trace show do.

  perigee report result.json.zst -o report.html
  perigee report --text result.json.zst
  perigee report --pool r1.json.zst r2.json.zst r3.json.zst
  perigee report --text --full result.json.zst
  perigee report --format json result.json.zst | jq '.results[0].findings'
  perigee report --slo 'P90_TTFT_ms<=500' benchmarks/

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
	if c.Format == "html" { // another name
		c.Format = "page"
	}
	if c.Full && c.Format != "text" {
		return fault.New(fault.Usage, "--full is for --text; a page and JSON have everything anyway")
	}
	if c.Output == "" {
		c.Output = "-"
		if c.Format == "page" {
			c.Output = "report.html"
		}
	}
	kind, err := given.OfAll(c.Results)
	if err != nil {
		return err
	}
	if c.Title != "" && len(c.Results) > 1 && !c.Pool && kind == given.Result {
		return fault.New(fault.Usage, "--title %q: wanted one result, got %d", c.Title, len(c.Results)).
			WithHint("a run takes a --title, too, and reports show those of several runs")
	}
	if _, err := cli.FormatFor(c.Format, c.Output); err != nil {
		return err
	}
	if err := cli.NotOver(c.Output, c.Results...); err != nil {
		return err
	}
	if kind != given.Result {
		return c.other(kind, streams)
	}
	if c.Results, err = results(c.Results); err != nil {
		return err
	}
	slo, err := c.time()
	if err != nil {
		return err
	}
	sets := slices.Collect(slices.Chunk(c.Results, 1))
	if c.Pool {
		if len(c.Results) < 2 {
			return fault.New(fault.Usage, "--pool takes several results, and here is one")
		}
		sets = [][]string{c.Results}
	}
	list := make([]input, len(sets))
	for i, paths := range sets {
		read, path := figures.Read, paths[0]
		if c.Pool {
			read = func(string) (*figures.Figures, error) { return figures.Pool(paths) }
		}
		f, err := read(path)
		if err != nil {
			return err
		}
		if part := result.NewerPart(path); part != "" {
			fmt.Fprintf(streams.Err, "perigee: note: %s is newer than this result: what a later job has measured that was killed or "+
				"still runs\n", part)
		}
		if slo > 0 && !f.Share(slo) {
			return fault.New(fault.Usage, "--slo has no effect: %s has no runs of patterns without an slo_ms in the workload",
				path)
		}
		list[i].figures, f.Document.Title = f, cmp.Or(c.Title, f.Document.Title)
	}
	label(list, c.Results)
	if c.Pool {
		list[0].label += fmt.Sprintf(" and %d more, pooled", len(c.Results)-1)
	}
	return c.write(list, streams)
}

// time is that of --slo for results of perigee: 50ms, or latency<=50ms as of a column.
func (c *Cmd) time() (time.Duration, error) {
	if len(c.SLO) == 0 {
		return 0, nil
	}
	text := strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(c.SLO[0], " ", ""), "latency<="))
	slo, err := time.ParseDuration(text)
	if err != nil || slo < 0 || len(c.SLO) > 1 {
		return 0, fault.New(fault.Usage, "--slo: wanted a time such as 50ms or latency<=50ms, within which a run of a pattern is to end, got %s",
			strings.Join(c.SLO, ", ")).WithHint("bounds on columns, such as P90_TTFT_ms<=500, are for serving benchmarks")
	}
	return slo, nil
}

// label names results by their files, with folders where names alone would be equal.
func label(list []input, paths []string) {
	seen := map[string]int{}
	for _, p := range paths {
		seen[filepath.Base(p)]++
	}
	for i, p := range paths[:len(list)] {
		list[i].label = filepath.Base(p)
		if seen[list[i].label] > 1 {
			list[i].label = p
		}
	}
}

func (c *Cmd) write(list []input, streams cli.Streams) error {
	style := look{width: plainWidth}
	if c.Output == "-" {
		style = lookOf(streams)
	}
	style.full = c.Full
	fill := func(w io.Writer) error {
		switch c.Format {
		case "json":
			return writeJSON(w, list)
		case "text":
			return writeText(w, list, style)
		}
		return writeHTML(w, list)
	}
	if err := cli.WriteTo(c.Output, streams.Out, fill); err != nil || c.Output == "-" {
		return err
	}
	fmt.Fprintf(streams.Err, "# report: %s\n", c.Output)
	return nil
}

// writeJSON writes the computed figures.
func writeJSON(w io.Writer, list []input) error {
	type one struct {
		File     string `json:"file"`
		Title    string `json:"title,omitempty"`
		Workload string `json:"workload,omitempty"`
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
		out.Results = append(out.Results, one{in.label, d.Title, d.Workload, d.Scenario.Name, d.Status, d.World,
			in.figures})
	}
	return json.NewEncoder(&indenter{w: bufio.NewWriter(plaintext.JSONWriter(w))}).Encode(out)
}
