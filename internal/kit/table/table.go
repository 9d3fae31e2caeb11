// Package table prints rows of results: as text for people, as CSV and JSON for programs.
//
// The text has a line of headers, a line of dashes and a line per row. Columns are two spaces apart and at least two
// characters wider than their headers. What is longer than 320 characters stands there whole, and shifts the rest of
// its line:
//
//	  Transfer size (GB)    Latency (ms)
//	--------------------  --------------
//	               4.945          35.047
//	                   -           2.147
//
// Text rounds as the column's format says; CSV and JSON hold the values as they were given. A value that is not there,
// and a float that is not finite, is a dash in text, empty in CSV and null in JSON.
//
// A Table (table.go) has all rows before it prints, so that its columns are as wide as they must be, and can be
// written in parts that fit a terminal. A Stream (stream.go) prints each row as it comes, for benchmarks that measure
// for minutes: its widths come from the headers alone. WriteCSV takes rows from an iterator and keeps none, for
// exports larger than memory.
//
// Cells come from files and scripts that others wrote, so control characters are escaped in text, and text that a
// spreadsheet would take for a formula gets an apostrophe in CSV. A column or row that was added wrongly is reported
// by the first Write after it: building a table needs no checks in between.
package table

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"perigee/internal/kit/plaintext"
)

// Align is the side of a column on which its headers and cells stand.
type Align int

// The sides of a column. Numbers stand on the right.
const (
	Right Align = iota
	Left
)

const (
	gap     = "  "
	padding = 2   // how much wider than its header a column is
	widest  = 320 // of a column; no number is longer. Else one long text would make every row as long
	missing = "-" // the text of a cell without a value
)

type column struct {
	header string
	align  Align
	format string
}

// Table is a list of columns and rows. The zero value is empty and ready.
// What is added wrongly is reported by the first Write call after it.
type Table struct {
	columns []column
	headers map[string]bool
	rows    [][]any
	err     error
}

// AddColumn adds a column on the right. header is also the key in CSV and
// JSON, so it must be unique. fmt.Sprintf makes text of a cell by format,
// with, such as "%.3f"; "" stands for "%v".
func (t *Table) AddColumn(header string, align Align, format string) {
	if t.headers == nil {
		t.headers = map[string]bool{}
	}
	if t.headers[header] {
		t.fail("two columns named %q", header)
	}
	t.headers[header] = true
	if len(t.rows) > 0 {
		t.fail("column %q added after %d rows", header, len(t.rows))
	}
	t.columns = append(t.columns, column{header, align, cmp.Or(format, "%v")})
}

// AddColumns adds columns that stand on the same side and have the same format; see [Table.AddColumn].
func (t *Table) AddColumns(align Align, format string, headers ...string) {
	for _, header := range headers {
		t.AddColumn(header, align, format)
	}
}

// AddRow adds a row with a cell for every column: a string, a bool, a number,
// or nil for a value that is not there. A float that is not finite counts as
// not there, too: JSON could not hold it.
func (t *Table) AddRow(cells ...any) {
	if len(cells) != len(t.columns) {
		t.fail("row %d: wanted %d cells, got %d", len(t.rows)+1, len(t.columns), len(cells))
		return
	}
	row := make([]any, len(cells))
	for i, c := range cells {
		if absent(c) {
			continue
		}
		row[i] = c
		if text := t.columns[i].text(c); strings.Contains(text, "%!") && !isString(c) {
			t.fail("row %d, column %q: %T does not go with the format %q", len(t.rows)+1, t.columns[i].header, c,
				t.columns[i].format)
		}
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

func (t *Table) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("table: "+format, args...)
	}
}

func absent(cell any) bool {
	switch v := cell.(type) {
	case nil:
		return true
	case float64:
		return math.IsNaN(v) || math.IsInf(v, 0)
	case float32:
		return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0)
	}
	return false
}

func isString(cell any) bool {
	_, ok := cell.(string)
	return ok
}

// Write writes the table as csv, as json, or else as text. It returns the first mistake in building the table, or the
// error of w.
func (t *Table) Write(w io.Writer, format string) error {
	switch format {
	case "csv":
		return t.WriteCSV(w)
	case "json":
		return t.WriteJSON(w)
	}
	return t.WriteText(w)
}

// WriteText writes the table for people. A cell without a value is a dash;
// line breaks and other control characters in a cell are escaped.
func (t *Table) WriteText(w io.Writer) error { return t.WriteTextWithin(w, 0, 0) }

// WriteTextWithin is WriteText for lines of at most width characters. A table that is wider is written in parts, one
// below the other with an empty line between; each repeats the first keys columns. A part has at least one column more
// than those, even if that is too wide; cells of more than 320 characters make their lines longer. A width of 0 or less
// has no limit.
func (t *Table) WriteTextWithin(w io.Writer, width, keys int) error {
	if t.err != nil || len(t.columns) == 0 {
		return t.err
	}
	headers := make([]string, len(t.columns))
	dashes := make([]string, len(t.columns))
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		headers[i] = plaintext.Escape(c.header)
		widths[i] = utf8.RuneCountInString(headers[i]) + padding
	}
	cells := make([]string, len(t.columns)) // of a row; to keep those of all takes more memory than the table
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.columns[i].text(cell)))
		}
	}
	for i := range widths {
		widths[i] = min(widths[i], widest)
		dashes[i] = strings.Repeat("-", widths[i])
	}
	out := bufio.NewWriter(w)
	for i, part := range parts(widths, width, keys) {
		if i > 0 {
			out.WriteByte('\n')
		}
		t.writeLine(out, part, widths, headers)
		t.writeLine(out, part, widths, dashes)
		for _, row := range t.rows {
			for _, c := range part {
				cells[c] = t.columns[c].text(row[c])
			}
			t.writeLine(out, part, widths, cells)
		}
	}
	return out.Flush()
}

// parts deals out columns to parts that are not wider than a limit, and returns the columns of each.
func parts(widths []int, limit, keys int) (list [][]int) {
	keys = min(max(keys, 0), len(widths))
	var begin []int
	start := -len(gap)
	for i := range keys {
		begin, start = append(begin, i), start+len(gap)+widths[i]
	}
	part, wide := slices.Clone(begin), start
	for i := keys; i < len(widths); i++ {
		wider := wide + len(gap) + widths[i]
		if limit > 0 && wider > limit && len(part) > keys {
			list = append(list, part)
			part, wider = slices.Clone(begin), start+len(gap)+widths[i]
		}
		part, wide = append(part, i), wider
	}
	return append(list, part)
}

// writeLine writes the cells of some columns. A cell that is wider than its column shifts the rest.
func (t *Table) writeLine(out *bufio.Writer, part, widths []int, cells []string) {
	var line strings.Builder
	for k, i := range part {
		cell := cells[i]
		if k > 0 {
			line.WriteString(gap)
		}
		space := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
		if t.columns[i].align == Left {
			line.WriteString(cell + space)
		} else {
			line.WriteString(space + cell)
		}
	}
	out.WriteString(strings.TrimRight(line.String(), " "))
	out.WriteByte('\n')
}

func (c column) text(cell any) string {
	if cell == nil {
		return missing
	}
	return plaintext.Escape(fmt.Sprintf(c.format, cell))
}

// WriteCSV writes the table as [WriteCSV] does.
func (t *Table) WriteCSV(w io.Writer) error {
	if t.err != nil || len(t.columns) == 0 {
		return t.err
	}
	headers := make([]string, len(t.columns))
	for i, c := range t.columns {
		headers[i] = c.header
	}
	return WriteCSV(w, headers, slices.Values(t.rows))
}

// WriteCSV writes a line of headers and a line per row as RFC 4180 wants them,
// but with plain newlines. A cell without a value is empty. Text that a spreadsheet
// would take for a formula gets an apostrophe in front. No row is kept.
func WriteCSV(w io.Writer, headers []string, rows iter.Seq[[]any]) error {
	out := csv.NewWriter(w)
	record := make([]string, len(headers))
	for i, header := range headers {
		record[i] = plaintext.Cell(header)
	}
	out.Write(record)
	for row := range rows {
		for i, cell := range row {
			record[i] = ""
			if cell != nil {
				record[i] = plaintext.Cell(fmt.Sprint(cell))
			}
		}
		out.Write(record)
	}
	out.Flush()
	return out.Error() // also the first error of the writes above
}

// WriteJSON writes a list with an object per row, whose keys are the headers
// in the order of the columns. A cell without a value is null.
func (t *Table) WriteJSON(w io.Writer) error {
	if t.err != nil {
		return t.err
	}
	keys := make([][]byte, len(t.columns))
	for i, c := range t.columns {
		key, err := encode(c.header)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	safe := plaintext.JSONWriter(w)
	out := bufio.NewWriter(safe)
	out.WriteByte('[')
	for r, row := range t.rows {
		if r > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n  {")
		for i, cell := range row {
			value, err := encode(cell)
			if err != nil {
				return fmt.Errorf("table: row %d, column %q: %w", r+1, t.columns[i].header, err)
			}
			if i > 0 {
				out.WriteString(", ")
			}
			out.Write(keys[i])
			out.WriteString(": ")
			out.Write(value)
		}
		out.WriteByte('}')
	}
	if len(t.rows) > 0 {
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return errors.Join(out.Flush(), safe.Close())
}

// encode is json.Marshal without its escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
