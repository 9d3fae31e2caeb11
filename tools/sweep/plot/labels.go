package plot

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// spot is a dot that may get a label.
type spot struct {
	at    vg.Point
	text  string
	color color.Color
	first bool // is served before others
	none  bool // gets none
}

// identity is equal for labels of which one is enough.
func (s spot) identity() [3]any {
	return [3]any{math.Round(float64(s.at.X)), math.Round(float64(s.at.Y)), s.text}
}

// places are where a label may stand beside its dot, best first, as shares of
// its width and height and as steps away from the dot.
var places = []struct{ shareX, shareY, stepX, stepY float64 }{
	{-0.5, 0, 0, 1}, {0, -0.5, 1, 0}, {-0.5, -1, 0, -1}, {-1, -0.5, -1, 0}, {0, 0, 0.7, 0.7}, {-1, 0, -0.7, 0.7},
	{0, -1, 0.7, -0.7}, {-1, -1, -0.7, -0.7},
}

// label is a text with its place.
type label struct {
	box   vg.Rectangle
	text  string
	color color.Color
}

// placeLabels writes the labels.
func placeLabels(c *draw.Canvas, spots []spot) {
	sty := style(9, ink)
	for _, l := range layout(c.Rectangle, spots, sty.Width) {
		sty.Color = l.color
		c.FillText(sty, l.box.Min, l.text)
	}
}

// layout finds a place in the area for each label such that none covers a dot or
// another label. A label that finds none is left out.
func layout(area vg.Rectangle, spots []spot, widthOf func(string) vg.Length) []label {
	var list []label
	taken := boxes{}
	for _, s := range spots {
		taken.add(around(s.at, 2.5))
	}
	order := slices.Clone(spots)
	slices.SortStableFunc(order, func(a, b spot) int {
		switch {
		case a.first == b.first:
			return 0
		case a.first:
			return -1
		}
		return 1
	})
	seen := map[[3]any]bool{}
	for _, s := range order {
		if s.text == "" || s.none || seen[s.identity()] {
			continue // of the same number at the same place one is enough
		}
		seen[s.identity()] = true
		if s.text == "inf" {
			s.text = "∞"
		}
		if box, ok := s.place(area, taken, widthOf(s.text)); ok {
			taken.add(box)
			list = append(list, label{box, s.text, s.color})
		}
	}
	return list
}

// place returns the first place beside the dot that is free.
func (s spot) place(area vg.Rectangle, taken boxes, width vg.Length) (vg.Rectangle, bool) {
	const away, height = 6.5, 7 // points from the middle of a dot; of digits
	for _, p := range places {
		low := vg.Point{
			X: s.at.X + vg.Length(p.shareX)*width + vg.Length(p.stepX)*away,
			Y: s.at.Y + vg.Length(p.shareY)*height + vg.Length(p.stepY)*away,
		}
		box := vg.Rectangle{Min: low, Max: vg.Point{X: low.X + width, Y: low.Y + height}}
		if box.Min.X >= area.Min.X && box.Min.Y >= area.Min.Y && box.Max.X <= area.Max.X && box.Max.Y <= area.Max.Y &&
			!taken.hit(box) {
			return box, true
		}
	}
	return vg.Rectangle{}, false
}

func around(p vg.Point, r vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: p.X - r, Y: p.Y - r}, Max: vg.Point{X: p.X + r, Y: p.Y + r}}
}

// boxes finds out quickly whether a box overlaps any of many: they lie in the
// cells of a grid.
type boxes map[[2]int][]vg.Rectangle

const cellSize = 24 // points, about the size of a label

func (b boxes) cells(r vg.Rectangle, visit func(cell [2]int) bool) bool {
	for x := int(math.Floor(float64(r.Min.X) / cellSize)); x <= int(float64(r.Max.X)/cellSize); x++ {
		for y := int(math.Floor(float64(r.Min.Y) / cellSize)); y <= int(float64(r.Max.Y)/cellSize); y++ {
			if visit([2]int{x, y}) {
				return true
			}
		}
	}
	return false
}

func (b boxes) add(r vg.Rectangle) {
	b.cells(r, func(cell [2]int) bool {
		b[cell] = append(b[cell], r)
		return false
	})
}

func (b boxes) hit(r vg.Rectangle) bool {
	return b.cells(r, func(cell [2]int) bool {
		return slices.ContainsFunc(b[cell], func(o vg.Rectangle) bool {
			return r.Min.X < o.Max.X && o.Min.X < r.Max.X && r.Min.Y < o.Max.Y && o.Min.Y < r.Max.Y
		})
	})
}
