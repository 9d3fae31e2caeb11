package sheet

import (
	"bufio"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/kit/plaintext"
)

// part is what stands side by side of a table.
type part struct {
	columns []int
	widths  []int // of all columns
	wrapped bool  // the words of some go on in the next line
}

// leastWords is how narrow a column of words may become before others move below it.
const leastWords = 24

// fold deals out columns to parts that are not wider than a limit; least are the widths that they need for their
// headers. Where it is enough, columns of words become narrower.
func (t *Sheet) fold(widths, least []int, limit, keys int) (list []part) {
	if limit <= 0 {
		limit = sum(widths, all(len(widths)))
	}
	if sum(widths, all(len(widths))) > limit { // without what headers have around them
		widths = slices.Clone(widths)
		for i, w := range least {
			if least[i] -= padding; widths[i] == w {
				widths[i] = max(least[i], t.widest(i))
			}
		}
	}
	words := make([]int, len(widths)) // how narrow columns may become
	for i, w := range widths {
		words[i] = w
		if t.columns[i].align == Left {
			words[i] = min(w, max(least[i], leastWords, min(t.longest(i), limit/2)))
		}
	}
	dealt := [][]int{all(len(widths))}
	if sum(words, dealt[0]) > limit {
		dealt = parts(widths, limit, keys)
	}
	for _, columns := range dealt {
		p := part{columns: columns, widths: slices.Clone(widths)}
		for over := sum(p.widths, columns) - limit; over > 0; over-- {
			widest := -1
			for _, c := range columns {
				if p.widths[c] > words[c] && (widest < 0 || p.widths[c] > p.widths[widest]) {
					widest = c
				}
			}
			if widest < 0 {
				break
			}
			p.widths[widest], p.wrapped = p.widths[widest]-1, true
		}
		list = append(list, p)
	}
	return list
}

// longest is how long the longest word of a column is.
func (t *Sheet) longest(column int) (n int) {
	for _, row := range t.rows {
		for word := range strings.FieldsSeq(t.columns[column].text(row[column])) {
			n = max(n, utf8.RuneCountInString(word))
		}
	}
	return n
}

func all(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// sum is how wide some columns are side by side.
func sum(widths, columns []int) int {
	n := -len(gap)
	for _, c := range columns {
		n += len(gap) + widths[c]
	}
	return n
}

// parts deals out columns to parts that are not wider than a limit, and returns the columns of each.
func parts(widths []int, limit, keys int) (list [][]int) {
	begin := all(min(max(keys, 0), len(widths)))
	columns := slices.Clone(begin)
	for i := len(begin); i < len(widths); i++ {
		if limit > 0 && len(columns) > len(begin) && sum(widths, append(columns, i)) > limit {
			list, columns = append(list, columns), slices.Clone(begin)
		}
		columns = append(columns, i)
	}
	return append(list, columns)
}

// writeRow writes a row, whose words go on in further lines where the part is folded so.
func (t *Sheet) writeRow(out *bufio.Writer, p part, cells []string) {
	if !p.wrapped {
		t.writeLine(out, p, cells)
		return
	}
	lines := make([][]string, len(cells))
	high := 1
	for _, c := range p.columns {
		lines[c] = []string{cells[c]}
		if t.columns[c].align == Left {
			lines[c] = wrap(cells[c], p.widths[c])
		}
		high = max(high, len(lines[c]))
	}
	for k := range high {
		line := make([]string, len(cells))
		for _, c := range p.columns {
			if k < len(lines[c]) {
				line[c] = lines[c][k]
			}
		}
		t.writeLine(out, p, line)
	}
}

// wrap breaks a cell into lines that fit its column, in words where words fit.
func wrap(cell string, width int) (lines []string) {
	if utf8.RuneCountInString(cell) <= width {
		return []string{cell}
	}
	for _, line := range plaintext.Wrap(cell, width) {
		for runes := []rune(line); ; runes = runes[width:] {
			if len(runes) <= width {
				lines = append(lines, string(runes))
				break
			}
			lines = append(lines, string(runes[:width]))
		}
	}
	return lines
}
