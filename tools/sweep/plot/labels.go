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
	{-0.5, 0, 0, 1}, {0, -0.5, 1, 0}, {-0.5, -1, 0, -1}, {-1, -0.5, -1, 0}, {0, 0, 0.7, 0.7}, {-1, 0, -0.7, 0.7}, {0, -1, 0.7, -0.7}, {-1, -1, -0.7, -0.7},
}

// placeLabels writes the labels so that none covers a dot or another label. A
// label that finds no place is left out.
func placeLabels(c *draw.Canvas, spots []spot) {
	const away = 6.5 // points from the middle of a dot
	sty := style(9, ink)
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
		if s.text == "" || s.none {
			continue
		}
		if seen[s.identity()] {
			continue // the same number at the same place
		}
		seen[s.identity()] = true
		if s.text == "inf" {
			s.text = "∞"
		}
		width, height := sty.Width(s.text), vg.Length(7)
		for _, p := range places {
			min := vg.Point{
				X: s.at.X + vg.Length(p.shareX)*width + vg.Length(p.stepX)*away,
				Y: s.at.Y + vg.Length(p.shareY)*height + vg.Length(p.stepY)*away,
			}
			box := vg.Rectangle{Min: min, Max: vg.Point{X: min.X + width, Y: min.Y + height}}
			if !c.Contains(box.Min) || !c.Contains(box.Max) || taken.hit(box) {
				continue
			}
			taken.add(box)
			sty.Color = s.color
			c.FillText(sty, box.Min, s.text)
			break
		}
	}
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
