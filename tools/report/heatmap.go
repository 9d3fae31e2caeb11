package report

import (
	"fmt"
	"math"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/kit/size"
)

// shades go from little to much; nothing is a dot.
var shades = []rune("░▒▓█")

// palette are the colours of the terminal's 256 from little to much.
var palette = []int{17, 18, 19, 20, 26, 32, 38, 44, 79, 114, 149, 184, 220, 226}

// mostHeatRows keeps the heatmap on one screen.
const mostHeatRows = 48

// heatCell is a square of ranks.
type heatCell struct {
	bytes      float64
	contention float64 // the largest of its pairs; 0 where none is shown
}

// writeHeatmap draws which rank sends to which: contention where some is shown, else bytes.
func writeHeatmap(p *printer, f *figures.Figures, l look) {
	if len(f.Pairs) == 0 {
		return
	}
	n := len(f.Ranks)
	label := len(fmt.Sprint(n-1)) + 1
	fit := min((l.width-label-2)/2, mostHeatRows)
	per := (n + fit - 1) / fit // ranks per cell
	rows := (n + per - 1) / per
	cells := make([]heatCell, rows*rows)
	for _, x := range f.Pairs {
		c := &cells[x.From/per*rows+x.To/per]
		c.bytes += float64(x.Bytes)
		if x.Contention.Known() {
			c.contention = max(c.contention, float64(x.Contention))
		}
	}
	value, what, show := heatOf(len(f.Contention.Pairs) > 0)
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, c := range cells {
		if v := value(c); !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if hi < lo {
		return
	}
	title := "# " + what + ", rows send, columns receive"
	if per > 1 {
		title += fmt.Sprintf(", %d x %d ranks a cell", per, per)
	}
	p.line("\n%s", l.paint(bold, title))
	p.line("%*s %s", label, "", columnLabels(rows, per, n))
	for r := range rows {
		var line strings.Builder
		for c := range rows {
			line.WriteString(l.heat(value(cells[r*rows+c]), lo, hi))
		}
		p.line("%*d %s", label, r*per, strings.TrimRight(line.String(), " "))
	}
	legend := l.heat(hi, lo, hi) + " " + show(hi)
	if hi > lo {
		legend = l.heat(lo, lo, hi) + " " + show(lo) + "  " + legend
	}
	p.line("%*s %s  %s", label, "", legend, l.paint(dim, "·· none"))
}

// heatOf chooses the figure: what overlapping costs, or else how many bytes there are. A cell with traffic, but without
// contention that is shown, counts as 1.
func heatOf(shown bool) (value func(heatCell) float64, what string, show func(float64) string) {
	of := func(v func(heatCell) float64) func(heatCell) float64 {
		return func(c heatCell) float64 {
			if c.bytes == 0 {
				return math.NaN()
			}
			return v(c)
		}
	}
	if !shown {
		return of(func(c heatCell) float64 { return c.bytes }), "bytes", size.Decimal[float64]
	}
	return of(func(c heatCell) float64 { return max(c.contention, 1) }), "contention",
		func(v float64) string { return fmt.Sprintf("%.2fx", v) }
}

// heat is a cell, two characters wide.
func (l look) heat(v, lo, hi float64) string {
	if math.IsNaN(v) {
		return l.paint(dim, "··")
	}
	share := 1.0
	if hi > lo {
		share = (v - lo) / (hi - lo)
	}
	if l.colour {
		return fmt.Sprintf("\x1b[48;5;%dm  %s", palette[int(share*float64(len(palette)-1)+0.5)], plain)
	}
	return strings.Repeat(string(shades[min(int(share*float64(len(shades))), len(shades)-1)]), 2)
}

// columnLabels numbers every fourth column.
func columnLabels(rows, per, n int) string {
	every := 4
	for len(fmt.Sprint(n-1))+1 > every*2 {
		every++
	}
	var out strings.Builder
	for c := 0; c < rows; c += every {
		fmt.Fprintf(&out, "%-*d", every*2, c*per)
	}
	return strings.TrimRight(out.String(), " ")
}
