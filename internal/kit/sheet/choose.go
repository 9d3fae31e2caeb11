package sheet

import (
	"fmt"
	"slices"
	"strings"
)

// New is a sheet without rows, and the class of its table on a page. Headers that begin with < are those of Words, with
// | those on the Left; a format may follow one, as in "Median %.2f".
func New(title, class string, headers ...string) *Sheet {
	t := &Sheet{Title: title, Class: class}
	for _, h := range headers {
		header, format := h, ""
		if i := strings.LastIndex(h, " %"); i >= 0 && i+2 < len(h) {
			header, format = h[:i], h[i+1:]
		}
		align := map[byte]Align{'<': Words, '|': Left}[header[0]]
		if align != Right {
			header = header[1:]
		}
		t.AddColumn(header, align, format)
	}
	return t
}

// Headers are the names of the columns.
func (t *Sheet) Headers() (names []string) {
	for _, c := range t.columns {
		names = append(names, c.header)
	}
	return names
}

// Choose is the sheet with those columns alone, in this order; those that it lacks are left out.
func (t *Sheet) Choose(headers ...string) *Sheet {
	var list []int
	all := t.Headers()
	for _, h := range headers {
		if i := slices.Index(all, h); i >= 0 {
			list = append(list, i)
		}
	}
	return t.only(list)
}

// Filled is the sheet without the columns in which no row has a value.
func (t *Sheet) Filled() *Sheet {
	var list []int
	for i := range t.columns {
		if slices.ContainsFunc(t.rows, func(row []any) bool { return row[i] != nil && row[i] != "" }) {
			list = append(list, i)
		}
	}
	return t.only(list)
}

// only is the sheet with those columns.
func (t *Sheet) only(list []int) *Sheet {
	s := *t
	s.columns, s.rows = make([]column, len(list)), make([][]any, len(t.rows))
	for k, i := range list {
		s.columns[k] = t.columns[i]
	}
	for r, row := range t.rows {
		s.rows[r] = make([]any, len(list))
		for k, i := range list {
			s.rows[r][k] = row[i]
		}
	}
	return &s
}

// First is the sheet with its first rows.
func (t *Sheet) First(rows int) *Sheet {
	s := *t
	s.rows = t.rows[:min(rows, len(t.rows))]
	return &s
}

// Fit is the sheet with as many columns from the left as lines of that width take, what the others are, and how wide
// all are together.
func (t *Sheet) Fit(width int) (fits *Sheet, others []string, whole int) {
	widths, _ := t.widths()
	n := len(widths)
	for n > 0 && sum(widths, all(n)) > width {
		n--
	}
	return t.only(all(n)), t.Headers()[n:], sum(widths, all(len(widths)))
}

// Unique are headers that no column before has: those that are there already are numbered.
func Unique(names []string) []string {
	seen, times, headers := map[string]bool{}, map[string]int{}, slices.Clone(names)
	for i, name := range names {
		for seen[headers[i]] {
			times[name]++
			headers[i] = fmt.Sprintf("%s (%d)", name, times[name]+1)
		}
		seen[headers[i]] = true
	}
	return headers
}
