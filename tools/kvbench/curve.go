package kvbench

import (
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"path/filepath"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"perigee/internal/kit/file"
	"perigee/internal/kit/page"
	"perigee/internal/kit/version"
)

// curve holds the bytes that a model, or one kind of its layers, keeps of requests of different lengths.
type curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // tokens, bytes
}

// curves returns the sum of each model, or of a single model also each kind.
func curves(models []described) []curve {
	var all []curve
	for _, d := range models {
		total := curve{Name: d.model.Name}
		kinds := map[string]*curve{}
		var order []*curve
		for _, g := range d.cache.Model.Groups {
			if name := string(g.Kind); kinds[name] == nil {
				kinds[name] = &curve{Name: name}
				order = append(order, kinds[name])
			}
		}
		for tokens := int64(1 << 10); tokens <= 1<<20; tokens *= 2 {
			sums := map[string]float64{}
			var sum float64
			for i, g := range d.cache.Model.Groups {
				n, _ := d.cache.GroupBytes(i, 0, tokens, tokens)
				sums[string(g.Kind)] += float64(n)
				sum += float64(n)
			}
			for name, c := range kinds {
				c.Points = append(c.Points, [2]float64{float64(tokens), sums[name]})
			}
			total.Points = append(total.Points, [2]float64{float64(tokens), sum})
		}
		all = append(all, total)
		if len(models) == 1 && len(order) > 1 {
			for _, c := range order {
				all = append(all, *c)
			}
		}
	}
	return all
}

// draw writes the page and the pictures that the user has asked for.
func (c *ModelsCmd) draw(models []described) error {
	list := curves(models)
	for _, name := range c.Output {
		var write func(io.Writer) error
		var err error
		switch ending := strings.ToLower(filepath.Ext(name)); ending {
		case ".html", ".htm":
			write, err = c.page(models, list)
		case ".svg", ".png":
			write, err = picture(list, ending[1:])
		default:
			err = usage("-o %s: wanted a name that ends in .html, .svg or .png", name)
		}
		if err != nil {
			return err
		}
		if err := file.Write(name, write); err != nil {
			return err
		}
	}
	return nil
}

// palette are colours that colour-blind readers can distinguish on white.
var palette = []color.RGBA{
	{0x1f, 0x6f, 0xd6, 255}, {0xd1, 0x60, 0x0a, 255}, {0x0b, 0x8a, 0x68, 255},
	{0xb0, 0x46, 0x8f, 255}, {0x8f, 0x7a, 0x00, 255}, {0x6a, 0x55, 0xc9, 255},
}

// picture draws curves on logarithmic axes. It returns what writes them as svg or png.
func picture(list []curve, form string) (write func(io.Writer) error, err error) {
	p := gonum.New()
	p.Title.Text = "Bytes that a request keeps"
	p.X.Label.Text, p.Y.Label.Text = "tokens", "bytes"
	p.X.Scale, p.Y.Scale = gonum.LogScale{}, gonum.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = gonum.LogTicks{}, gonum.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, c := range list {
		var points plotter.XYs
		for _, at := range c.Points {
			if at[1] > 0 { // what keeps nothing yet has no place on a logarithmic axis
				points = append(points, plotter.XY{X: at[0], Y: at[1]})
			}
		}
		if points == nil {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(2)
		if i >= len(palette) {
			line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
		}
		p.Add(line)
		p.Legend.Add(c.Name, line)
	}
	drawn, err := p.WriterTo(9*vg.Inch, 5.5*vg.Inch, form)
	return func(w io.Writer) error {
		_, err := drawn.WriteTo(w)
		return err
	}, err
}

//go:embed models.html
var modelsHTML string

//go:embed models.js
var modelsJS string

var modelsBody = template.Must(template.New("models").Parse(modelsHTML))

// page makes the page of models: their curves, and each with its groups. It returns what writes it.
func (c *ModelsCmd) page(models []described, drawn []curve) (write func(io.Writer) error, err error) {
	type shown struct{ Name, Text string }
	var list []shown
	for _, d := range models {
		var text strings.Builder
		if err := d.write(&text, c.ISL, true); err != nil {
			return nil, err
		}
		list = append(list, shown{d.model.Name, text.String()})
	}
	var body strings.Builder
	if err := modelsBody.Execute(&body, list); err != nil {
		return nil, err
	}
	p := page.Page{
		Title: "What models keep of a request", Generator: fmt.Sprintf("perigee %s", version.Version),
		Body: template.HTML(body.String()), Data: []page.Data{{ID: "curves", Value: drawn}},
		Scripts: []string{modelsJS},
	}
	return p.Write, nil
}
