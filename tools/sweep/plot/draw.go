package plot

import (
	"cmp"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"perigee/internal/kit/expr"
	"perigee/internal/serving/runs"
)

// dpi is how many pixels of the options make an inch, that is, 72 points.
const dpi = 96

// Colours that colour-blind readers can distinguish on white; shapes and dashes help.
var palette = []color.RGBA{
	{0x1f, 0x6f, 0xd6, 255}, {0xd1, 0x60, 0x0a, 255}, {0x0b, 0x8a, 0x68, 255}, {0xb0, 0x46, 0x8f, 255},
	{0x8f, 0x7a, 0x00, 255}, {0x6a, 0x55, 0xc9, 255}, {0x2b, 0x8f, 0xb3, 255}, {0x8c, 0x2d, 0x2d, 255},
}

var (
	ink       = color.RGBA{0x17, 0x1b, 0x21, 255}
	muted     = color.RGBA{0x56, 0x60, 0x6d, 255}
	gridColor = color.RGBA{0xe2, 0xe7, 0xec, 255}
	failed    = color.RGBA{0xc3, 0xc9, 0xd1, 255}
	frontLine = color.NRGBA{0x17, 0x1b, 0x21, 90}
)

// dashes distinguish configurations once the palette begins again.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}}

// look is how a configuration is drawn.
type look struct {
	color  color.RGBA
	dashes []vg.Length
	glyph  draw.GlyphDrawer
}

func lookOf(i int, s Series) look {
	l := look{palette[i%len(palette)], dashes[i/len(palette)%len(dashes)], draw.BoxGlyph{}}
	if s.PD {
		l.glyph = draw.CircleGlyph{}
	}
	return l
}

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func style(size float64, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.From(sans, vg.Length(size)), Handler: gonum.DefaultTextHandler}
}

// WritePNG draws the picture as PNG, with twice the pixels of the options for
// sharp screens.
func (d *Data) WritePNG(w io.Writer, o Options) error {
	c := vgimg.NewWith(vgimg.UseWH(size(o)), vgimg.UseDPI(2*dpi))
	d.draw(draw.New(c), o)
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// WriteSVG draws the picture as SVG with the fonts in it.
func (d *Data) WriteSVG(w io.Writer, o Options) error {
	width, height := size(o)
	c := vgsvg.NewWith(vgsvg.UseWH(width, height), vgsvg.EmbedFonts(true))
	d.draw(draw.New(c), o)
	_, err := c.WriteTo(w)
	return err
}

func size(o Options) (width, height vg.Length) {
	const inch = 72
	return vg.Length(o.Width) * inch / dpi, vg.Length(o.Height) * inch / dpi
}

func (d *Data) draw(c draw.Canvas, o Options) {
	p := gonum.New()
	axis(&p.X, o.X, o.LogX)
	axis(&p.Y, o.Y, o.LogY)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridColor, gridColor
	p.Add(grid, &picture{d, o})

	c = draw.Crop(c, 14, -14, 12, -14)
	const head = 48 // points above the chart
	d.heading(c)
	side := legendWidth(d, o)
	p.Draw(draw.Crop(c, 0, -side, 0, -head))
	legend(draw.Crop(c, c.Max.X-c.Min.X-side+14, 0, 0, -head), d, o)
}

// heading writes the scenario at the top.
func (d *Data) heading(c draw.Canvas) {
	big, small := style(15, ink), style(11, muted)
	const bold = 2 // WeightBold of golang.org/x/image/font
	big.Font.Weight = bold
	words := d.Key.Words()
	c.FillText(big, vg.Point{X: c.Min.X, Y: c.Max.Y - 14}, shorten(big.Width, words[0], c.Max.X-c.Min.X))
	below := strings.Join(words[1:], "     ")
	c.FillText(small, vg.Point{X: c.Min.X, Y: c.Max.Y - 31}, shorten(small.Width, below, c.Max.X-c.Min.X))
}

func axis(a *gonum.Axis, col *runs.Column, log bool) {
	a.Label.Text = col.Label()
	a.Label.TextStyle.Font = font.From(sans, 12)
	a.Label.TextStyle.Color = ink
	a.Label.Padding = 6
	a.Tick.Label.Font = font.From(sans, 10)
	a.Tick.Label.Color = muted
	a.LineStyle.Color, a.Tick.LineStyle.Color = muted, muted
	a.Padding = 0
	a.Tick.Marker = ticks{log}
	if log {
		a.Scale = gonum.LogScale{}
	}
}

// ticks are round numbers with plain labels.
type ticks struct{ log bool }

// Ticks is called by the plot.
func (t ticks) Ticks(lo, hi float64) []gonum.Tick {
	values := linear(lo, hi)
	if t.log {
		values = logarithmic(lo, hi)
	}
	list := make([]gonum.Tick, len(values))
	for i, v := range values {
		list[i] = gonum.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)}
		if math.Abs(v) < 1e7 && math.Abs(v) >= 1e-4 || v == 0 {
			list[i].Label = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return list
}

// linear returns five to ten multiples of 1, 2 or 5 times a power of 10.
func linear(lo, hi float64) []float64 {
	power := math.Pow(10, math.Floor(math.Log10(hi-lo))-1)
	step := power
	for _, m := range []float64{1, 2, 5, 10, 20} {
		if step = m * power; (hi-lo)/step <= 10 {
			break
		}
	}
	var list []float64
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(k*step, 'g', 12, 64), 64) // 0.3, not 0.30000000000000004
		list = append(list, v)
	}
	return list
}

// logarithmic returns powers of 10, with 2 and 5 times them where there are few.
func logarithmic(lo, hi float64) []float64 {
	factors := []float64{1, 2, 5}
	if hi/lo > 1e4 {
		factors = factors[:1]
	}
	var list []float64
	for e := math.Floor(math.Log10(lo)); e <= math.Log10(hi); e++ {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= lo && v <= hi {
				list = append(list, v)
			}
		}
	}
	if len(list) < 2 {
		return linear(lo, hi)
	}
	return list
}

// picture draws all series into the area between the axes.
type picture struct {
	*Data
	o Options
}

// DataRange returns how far the axes go: from 0 if they are linear, and with a
// margin above.
func (p *picture) DataRange() (xmin, xmax, ymin, ymax float64) {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, q := range s.Points {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	xmin, xmax = span(xs, p.o.LogX)
	ymin, ymax = span(ys, p.o.LogY)
	return xmin, xmax, ymin, ymax
}

// span is the range of an axis. There is at least one value.
func span(values []float64, log bool) (lo, hi float64) {
	const margin = 1.06
	lo, hi = slices.Min(values), slices.Max(values)
	if log {
		return lo / 1.25, hi * 1.25
	}
	lo = min(lo*margin, 0)
	if hi *= margin; hi <= lo {
		hi = lo + 1
	}
	return lo, hi
}

// Plot is called by the plot once the axes have their place.
func (p *picture) Plot(c draw.Canvas, plt *gonum.Plot) {
	toX, toY := plt.Transforms(&c)
	at := func(q Point) vg.Point { return vg.Point{X: toX(q.X), Y: toY(q.Y)} }
	p.drawFront(&c, toX, toY)
	for i, s := range p.Series {
		p.drawLine(&c, lookOf(i, s), s, at)
	}
	var spots []spot
	for i, s := range p.Series {
		l := lookOf(i, s)
		for _, q := range s.Points {
			glyph := draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.glyph}
			if !q.Meets {
				glyph.Color, glyph.Radius = failed, 2.5
			}
			if q.Off != "" {
				glyph = offFront
			}
			c.DrawGlyph(glyph, at(q))
			if q.Front {
				c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: 5, Shape: draw.RingGlyph{}}, at(q))
			}
			spots = append(spots, spot{at: at(q), text: q.Label, color: glyph.Color, first: q.Front, none: !q.Meets})
		}
	}
	placeLabels(&c, spots)
}

func (p *picture) drawLine(c *draw.Canvas, l look, s Series, at func(Point) vg.Point) {
	line := make([]vg.Point, len(s.Points))
	for i, q := range s.Points {
		line[i] = at(q)
	}
	faint := color.NRGBA{l.color.R, l.color.G, l.color.B, 150}
	c.StrokeLines(draw.LineStyle{Color: faint, Width: 1.3, Dashes: l.dashes}, c.ClipLinesXY(line)...)
}

// offFront is a run that is kept off the front.
var offFront = draw.GlyphStyle{Color: muted, Radius: 4, Shape: draw.CrossGlyph{}}

// drawFront draws the border of what the front dominates, a staircase.
func (p *picture) drawFront(c *draw.Canvas, toX, toY func(float64) vg.Length) {
	stairs := p.stairs()
	line := make([]vg.Point, len(stairs))
	for i, q := range stairs {
		line[i] = vg.Point{X: toX(q[0]), Y: toY(q[1])}
	}
	c.StrokeLines(draw.LineStyle{Color: frontLine, Width: 3}, c.ClipLinesXY(line)...)
}

// stairs are the corners of the front's border in the order of x.
func (p *picture) stairs() [][2]float64 {
	var front [][2]float64
	for _, s := range p.Series {
		for _, q := range s.Points {
			if q.Front {
				front = append(front, [2]float64{q.X, q.Y})
			}
		}
	}
	slices.SortFunc(front, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	front = slices.Compact(front)
	var corners [][2]float64
	for i, q := range front {
		if i > 0 {
			before := front[i-1]
			if p.o.X.Better == expr.Higher { // a point covers what is left of it
				corners = append(corners, [2]float64{before[0], q[1]})
			} else {
				corners = append(corners, [2]float64{q[0], before[1]})
			}
		}
		corners = append(corners, q)
	}
	return corners
}

// sloLines says in the legend what was filtered.
func sloLines(o Options) []string {
	var lines []string
	for _, s := range o.SLOs {
		lines = append(lines, strings.NewReplacer("<=", " ≤ ", ">=", " ≥ ", "<", " < ", ">", " > ").Replace(s.String()))
	}
	return lines
}
