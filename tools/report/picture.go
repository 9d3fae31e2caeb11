package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"perigee/internal/figures"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
)

// pictureRow is what a chart's series have at one place of its axis; None where they have nothing.
type pictureRow struct {
	label  string
	values []figures.Num
}

// rowsOf are the places of a chart in order, with the limits as further series.
func rowsOf(c figures.Chart) (names []string, rows []pictureRow) {
	type place struct {
		x    figures.Num
		name string
	}
	series := slices.Clone(c.Series)
	for _, l := range c.Limits {
		series = append(series, figures.Series(l))
	}
	at := map[place][]figures.Num{}
	for i, s := range series {
		names = append(names, cmp.Or(s.Name, c.Y.Label))
		for _, p := range s.Points {
			k := place{p.X, p.Name}
			if i >= len(c.Series) && len(s.Points) == 1 {
				continue
			}
			if at[k] == nil {
				at[k] = slices.Repeat([]figures.Num{figures.None}, len(series))
			}
			at[k][i] = p.Y
		}
	}
	show := shows(c.X, c)
	places := slices.SortedFunc(maps.Keys(at), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.name, b.name))
	})
	for _, k := range places {
		label, values := show(k.x), at[k]
		if k.name != "" {
			label = plaintext.Cut(k.name, mostLabel) + ", " + label
		}
		for i, l := range c.Limits {
			if len(l.Points) == 1 {
				values[len(c.Series)+i] = l.Points[0].Y
			}
		}
		rows = append(rows, pictureRow{plaintext.Escape(label), values})
	}
	return names, rows
}

// mostLabel is how many bytes of a name stand beside a bar.
const mostLabel = 40

// shows returns how values of an axis of the chart are written.
func shows(a figures.Axis, c figures.Chart) func(figures.Num) string {
	switch {
	case len(a.Words) > 0:
		return func(n figures.Num) string {
			if i := int(n); n >= 0 && i < len(a.Words) {
				return plaintext.Cut(a.Words[i], mostLabel)
			}
			return ""
		}
	case a.Unit == "ns":
		return figures.Duration
	case a.Unit == "bytes" && !slices.ContainsFunc(c.Series, hasOddSizes):
		return func(n figures.Num) string { return size.Binary(int64(n)) }
	case a.Unit == "bytes":
		return func(n figures.Num) string { return size.Decimal(n) }
	case a.Unit == "bytes/s":
		return plainRate
	case a.Unit == "ratio":
		return plainRatio
	}
	return func(n figures.Num) string { return strconv.FormatFloat(float64(n), 'g', 4, 64) }
}

// hasOddSizes reports whether a series has sizes that are no whole KiB; below 1 KiB powers of two are whole, too.
func hasOddSizes(s figures.Series) bool {
	return slices.ContainsFunc(s.Points, func(p figures.Point) bool {
		n := int64(p.X)
		return n%1024 != 0 && n&(n-1) != 0 || n < 1
	})
}

// mostBarLines is how many lines the bars of a chart take.
const mostBarLines = 16

// writeBars draws the chart as bars that begin at 0, one for each value. Of many places it draws some, evenly chosen.
func writeBars(p *printer, c figures.Chart, l look) {
	names, rows := rowsOf(c)
	if len(rows) == 0 {
		return
	}
	title, rows := evenly(c.Title, rows, max(min(mostBarLines, p.room/2)/len(names), 1))
	show, largest, left, middle := shows(c.Y, c), 0.0, 0, 0
	for _, r := range rows {
		left = max(left, utf8.RuneCountInString(r.label))
		for _, v := range r.values {
			if v.Known() {
				largest = max(largest, float64(v))
			}
		}
	}
	for i := range names {
		names[i] = plaintext.Escape(plaintext.Cut(names[i], mostLabel))
		middle = max(middle, utf8.RuneCountInString(names[i]))
	}
	room := max(l.width-left-middle-16, 8)
	p.line("\n%s", l.paint(bold, "# "+plaintext.Escape(title)))
	for _, r := range rows {
		label := r.label
		for i, v := range r.values {
			if !v.Known() {
				continue
			}
			colour := []string{blue, yellow, green, red}[i%4]
			if i >= len(c.Series) {
				colour = dim
			}
			drawn := l.paint(colour, bar(float64(v)/largest, room))
			p.line("%*s  %-*s %s %s", left, label, middle, names[i], drawn, show(v))
			label = ""
		}
	}
}

// bar is a bar of so large a share of the room, to an eighth of a character.
func bar(share float64, room int) string {
	if !(share > 0) {
		return ""
	}
	eighths := max(int(math.Round(share*float64(room)*8)), 1)
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune(" ▏▎▍▌▋▊▉")[rest])
	}
	return text
}

// writePictureTable writes the values of the first chart as a table, and those of the second one beside where it has
// the same places. Of many places it has some, evenly chosen.
func writePictureTable(p *printer, charts []figures.Chart, l look) {
	title, columns := charts[0].Title, []string{cmp.Or(charts[0].X.Label, "of")}
	var cells [][]string
	for i, c := range charts[:min(len(charts), 2)] {
		names, rows := rowsOf(c)
		show := shows(c.Y, c)
		if i == 0 {
			for _, r := range rows {
				cells = append(cells, []string{r.label})
			}
		} else if slices.EqualFunc(rows, cells, func(r pictureRow, line []string) bool { return r.label == line[0] }) {
			title += "; " + c.Title
		} else {
			break
		}
		for k, name := range names {
			switch {
			case k >= len(c.Series): // a limit
			case len(c.Series) == 1:
				name = c.Title
			case len(charts) > 1:
				name = strings.TrimSpace(name + " " + map[string]string{"bytes/s": "BW", "ns": "time"}[c.Y.Unit])
			}
			columns = append(columns, name)
		}
		for k, r := range rows {
			for _, v := range r.values {
				text := "-"
				if v.Known() {
					text = show(v)
				}
				cells[k] = append(cells[k], text)
			}
		}
	}
	title, cells = evenly(title, cells, max(p.room-aroundTable, 1))
	p.grid(l, plainSheet(title, columns, cells))
}

// evenly chooses at most so many of the elements, the first and the last among them, and says so in the title.
func evenly[T any](title string, list []T, most int) (string, []T) {
	if len(list) <= most {
		return title, list
	}
	chosen := make([]T, most)
	for i := range chosen {
		chosen[i] = list[i*(len(list)-1)/max(most-1, 1)]
	}
	return fmt.Sprintf("%s (%d of %d)", title, most, len(list)), chosen
}
