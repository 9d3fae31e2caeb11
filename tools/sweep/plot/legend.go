package plot

import (
	"fmt"
	"slices"
	"sort"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
)

const (
	legendSize  = 10 // points, of its text
	legendLine  = 15 // from line to line
	legendSign  = 26 // width of the signs before the text
	widestShare = 0.36
)

// entry is a line of the legend: a sign and words, or a heading without one.
type entry struct {
	words string
	sign  func(c *draw.Canvas, middle vg.Point)
}

func entries(d *Data, o Options) []entry {
	var list []entry
	pd, sa := false, false
	for i, s := range d.Series {
		l := lookOf(i, s)
		pd, sa = pd || s.PD, sa || !s.PD
		list = append(list, entry{s.Title, func(c *draw.Canvas, m vg.Point) {
			c.StrokeLine2(draw.LineStyle{Color: l.color, Width: 1.3, Dashes: l.dashes}, m.X-10, m.Y, m.X+10, m.Y)
			c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.glyph}, m)
		}})
	}
	list = append(list, entry{})
	if d.NoFront == "" {
		list = append(list, entry{"Pareto front", func(c *draw.Canvas, m vg.Point) {
			c.StrokeLine2(draw.LineStyle{Color: frontLine, Width: 3}, m.X-10, m.Y, m.X+10, m.Y)
			c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: 5, Shape: draw.RingGlyph{}}, m)
		}})
	}
	list = append(list, offEntries(d)...)
	if pd && sa {
		list = append(list,
			entry{"prefill and decode apart", func(c *draw.Canvas, m vg.Point) {
				c.DrawGlyph(draw.GlyphStyle{Color: muted, Radius: 3, Shape: draw.CircleGlyph{}}, m)
			}},
			entry{"standalone", func(c *draw.Canvas, m vg.Point) {
				c.DrawGlyph(draw.GlyphStyle{Color: muted, Radius: 3, Shape: draw.BoxGlyph{}}, m)
			}})
	}
	if o.Label != nil {
		list = append(list, entry{"numbers: " + o.Label.Name, nil})
	}
	if len(o.SLOs) > 0 {
		list = append(list, entry{"misses an SLO:", func(c *draw.Canvas, m vg.Point) {
			c.DrawGlyph(draw.GlyphStyle{Color: failed, Radius: 2.5, Shape: draw.CircleGlyph{}}, m)
		}})
		for _, words := range sloLines(o) {
			list = append(list, entry{words, nil})
		}
	}
	return list
}

// offEntries explains the crosses: runs that are kept off the front, with the first few reasons.
func offEntries(d *Data) (list []entry) {
	const most = 3
	var reasons []string
	for _, s := range d.Series {
		for _, p := range s.Points {
			if p.Off != "" && !slices.Contains(reasons, p.Off) {
				reasons = append(reasons, p.Off)
			}
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	cross := func(c *draw.Canvas, m vg.Point) { c.DrawGlyph(offFront, m) }
	list = append(list, entry{"kept off the Pareto front:", cross})
	for _, reason := range reasons[:min(most, len(reasons))] {
		list = append(list, entry{reason, nil})
	}
	if more := len(reasons) - most; more > 0 {
		list = append(list, entry{"and " + cli.Count(more, "more reason"), nil})
	}
	return list
}

// legendWidth is how much of the picture the legend takes on the right.
func legendWidth(d *Data, o Options) vg.Length {
	sty := style(legendSize, ink)
	widest := sty.Width(more(len(d.Series))) // what a long legend ends with
	for _, e := range entries(d, o) {
		widest = max(widest, sty.Width(e.words))
	}
	width, _ := size(o)
	return min(widest+legendSign+24, width*widestShare)
}

// legend writes the legend from the top of its canvas. If there are more
// configurations than it has room for, the last are only counted.
func legend(c draw.Canvas, d *Data, o Options) {
	list := entries(d, o)
	room := int((c.Max.Y - c.Min.Y) / legendLine)
	if over := len(list) - room; over > 0 && over+1 <= len(d.Series) {
		keep := len(d.Series) - over - 1
		list = slices.Concat(list[:keep], []entry{{words: more(over + 1)}}, list[len(d.Series):])
	}
	sty := style(legendSize, ink)
	y := c.Max.Y - legendLine
	for _, e := range list {
		if e.sign != nil {
			e.sign(&c, vg.Point{X: c.Min.X + 12, Y: y + 4})
		}
		c.FillText(sty, vg.Point{X: c.Min.X + legendSign, Y: y}, shorten(sty.Width, e.words,
			c.Max.X-c.Min.X-legendSign))
		y -= legendLine
	}
}

func more(n int) string { return fmt.Sprintf("and %d more configurations", n) }

// shorten cuts words that are wider than there is room, and escapes what pictures cannot show.
func shorten(width func(string) vg.Length, words string, room vg.Length) string {
	words = plaintext.Escape(words)
	letters := []rune(words)
	if len(letters) < 2 || width(words) <= room {
		return words
	}
	cut := func(n int) string { return string(letters[:n]) + "…" }
	// The first letter always stays.
	return cut(max(1, sort.Search(len(letters)-1, func(i int) bool { return width(cut(i+1)) > room })))
}
