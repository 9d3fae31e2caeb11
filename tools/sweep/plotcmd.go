package sweep

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/runs"
	"perigee/tools/sweep/plot"
)

// PlotCmd is `perigee sweep plot`.
type PlotCmd struct {
	Input
	runs.Doubts
	Scenario *int     `placeholder:"I" help:"Index of the scenario; needed where there are several."`
	Output   string   `short:"o" required:"" placeholder:"FILE" help:"Picture to write: .png or .svg."`
	X        string   `default:"Thpt_per_User" completes:"columns" placeholder:"COLUMN" help:"Column of the x axis."`
	Y        string   `default:"Thpt_per_GPU" completes:"columns" placeholder:"COLUMN" help:"Column of the y axis."`
	Label    string   `default:"Concurrency" completes:"columns" placeholder:"COLUMN" help:"Column written at the dots; none for none."`
	SLO      []string `name:"slo" sep:"none" placeholder:"COLUMN<=N" help:"Only runs within this bound count for the front, and the others are grey. Can be repeated."`
	SegByDir bool     `name:"seg-by-dir" negatable:"" default:"true" help:"Keep equal configurations in different folders apart."`
	ShowPD   bool     `name:"show-pd" negatable:"" default:"true" help:"Show configurations with prefill and decode apart."`
	ShowSA   bool     `name:"show-sa" negatable:"" default:"true" help:"Show standalone configurations."`
	Front    bool     `negatable:"" default:"true" help:"Draw the Pareto front."`
	LogX     bool     `name:"log-x" help:"Logarithmic x axis."`
	LogY     bool     `name:"log-y" help:"Logarithmic y axis."`
	Size     string   `default:"1200x800" placeholder:"WxH" help:"Size of the picture in pixels; a PNG has twice as many."`
}

// Run draws the picture.
func (c *PlotCmd) Run(s cli.Streams) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	write, err := c.writer(o)
	if err != nil {
		return err
	}
	d, err := c.read(s, &c.Doubts)
	if err == nil {
		err = cli.NotOver(c.Output, d.files...)
	}
	if err != nil {
		return err
	}
	sc, err := d.scenario(c.Scenario)
	if err != nil {
		return err
	}
	for _, note := range otherAxes(&o.X, &o.Y, sc.Runs) {
		fmt.Fprintln(plaintext.Writer(s.Err), "note:", note)
	}
	d.settle(s, o.SLOs)
	o.SplitBy = d.split
	data, err := plot.Select(sc, o)
	if err != nil {
		return err
	}
	if err := file.Write(c.Output, func(w io.Writer) error { return write(data, w) }); err != nil {
		return err
	}
	say(s, runs.Best(sc.Runs, o.SLOs, d.split...))
	c.summary(s, sc, data)
	return c.strict(d)
}

// summary prints what was drawn.
func (c *PlotCmd) summary(s cli.Streams, sc runs.Scenario, data *plot.Data) {
	points, front, missed, off := 0, 0, 0, 0
	for _, series := range data.Series {
		for _, p := range series.Points {
			points++
			if p.Front {
				front++
			}
			if !p.Meets {
				missed++
			}
			if p.Off != "" {
				off++
			}
		}
	}
	if c.Front && data.NoFront != "" {
		fmt.Fprintln(plaintext.Writer(s.Err), "note: no Pareto front:", data.NoFront)
	}
	if data.Missing > 0 {
		fmt.Fprintf(plaintext.Writer(s.Err), "note: %s left out, which lack %s or %s\n", cli.Count(data.Missing, "run"),
			c.X, c.Y)
	}
	text := fmt.Sprintf("scenario %d: %s of %s", sc.Index, cli.Count(points, "run"),
		cli.Count(len(data.Series), "configuration"))
	if len(c.SLO) > 0 {
		text += fmt.Sprintf(", %d within the SLOs", points-missed)
	}
	if data.NoFront == "" {
		text += fmt.Sprintf(", %d on the Pareto front", front)
		if off > 0 {
			text += fmt.Sprintf(", %d kept off it", off)
		}
	}
	fmt.Fprintf(plaintext.Writer(s.Out), "%s; written to %s\n", text, c.Output)
}

func (c *PlotCmd) options() (plot.Options, error) {
	o := plot.Options{SegByDir: c.SegByDir, ShowPD: c.ShowPD, ShowSA: c.ShowSA, Front: c.Front, LogX: c.LogX,
		LogY: c.LogY}
	var err error
	if o.X, o.Y, err = axes(c.X, c.Y); err != nil {
		return o, err
	}
	if c.Label != "" && !strings.EqualFold(c.Label, "none") {
		col, err := runs.Find(c.Label)
		if err != nil {
			return o, fault.New(fault.Usage, "--label: %w", err)
		}
		o.Label = col
	}
	if o.SLOs, err = runs.ParseSLOs(c.SLO); err != nil {
		return o, err
	}
	o.Width, o.Height, err = parseSize(c.Size)
	return o, err
}

func parseSize(text string) (width, height int, err error) {
	const least, most = 300, 8000
	var rest string
	if n, _ := fmt.Sscanf(text+" ", "%dx%d %s", &width, &height, &rest); n != 2 ||
		fmt.Sprintf("%dx%d", width, height) != text {
		return 0, 0, fault.New(fault.Usage, "--size: wanted a size such as 1200x800, got %q", text)
	}
	if min(width, height) < least || max(width, height) > most {
		return 0, 0, fault.New(fault.Usage, "--size: wanted %d to %d pixels each way, got %s", least, most, text)
	}
	return width, height, nil
}

// writer chooses the format by the file's name.
func (c *PlotCmd) writer(o plot.Options) (func(*plot.Data, io.Writer) error, error) {
	switch strings.ToLower(filepath.Ext(c.Output)) {
	case ".png":
		return func(d *plot.Data, w io.Writer) error { return d.WritePNG(w, o) }, nil
	case ".svg":
		return func(d *plot.Data, w io.Writer) error { return d.WriteSVG(w, o) }, nil
	}
	return nil, fault.New(fault.Usage, "--output: wanted a name that ends in .png or .svg, got %s", c.Output)
}
