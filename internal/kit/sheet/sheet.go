// Package sheet has the type of all tables that perigee shows, and their writers: text for people, CSV and JSON for
// programs, and pages.
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
// Text rounds as the column's format says; CSV and JSON hold the values as they were given, also of a [Cell], which
// people see in other words. A value that is not there, and a float that is not finite, is a dash in text, empty in CSV
// and null in JSON.
//
// A Sheet (sheet.go) has all rows before it prints, so that its columns are as wide as they must be. On a terminal, or
// with COLUMNS in the environment (plaintext.Width), it is folded (fold.go): long words go on below, and columns that
// have no room follow in parts that repeat the first ones. A Stream (stream.go) prints each row as it comes, for
// benchmarks that measure for minutes: its widths come from the headers alone. WriteCSV takes rows from an iterator and
// keeps none, for exports larger than memory.
//
// Cells come from files and scripts that others wrote, so control characters are escaped in text, and text that a
// spreadsheet would take for a formula gets an apostrophe in CSV. A column or row that was added wrongly is reported
// by the first Write after it: building a sheet needs no checks in between.
package sheet

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
	"perigee/internal/kit/size"
	"perigee/internal/kit/version"
)

// Align is the side of a column on which its headers and cells stand.
type Align int

// The sides of a column. Numbers stand on the right. Words stand on the right of a text, and on the left of a page.
const (
	Right Align = iota
	Left
	Words
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
	help   string // what it is: a page shows it over the header
}

// Cell is a value in words: people see the text, such as "1.18 MB", programs and those who sort the value.
type Cell struct {
	Value any
	Text  string
}

// Bytes is a number of bytes with its unit for people.
func Bytes(n int64) Cell { return Cell{n, size.Decimal(n)} }

// valueOf is what a cell holds for programs.
func valueOf(cell any) any {
	if c, ok := cell.(Cell); ok {
		return c.Value
	}
	return cell
}

// Sheet is all that a person reads of a table. The zero value is empty and ready.
// What is added wrongly is reported by the first Write call after it.
type Sheet struct {
	Title string
	Say   []string // sentences about it, above the table
	Keys  int      // columns from the left that name a row: each part of a folded table has them; at least 1
	Class string   // of the table on a page: sortable, or what its owner's styles and scripts know

	columns []column
	headers map[string]bool
	rows    [][]any
	err     error
}

// AddColumn adds a column on the right. header is also the key in CSV and
// JSON, so it must be unique. fmt.Sprintf makes text of a cell by format,
// with, such as "%.3f"; "" stands for "%v".
func (t *Sheet) AddColumn(header string, align Align, format string) {
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
	t.columns = append(t.columns, column{header, align, cmp.Or(format, "%v"), ""})
}

// Explain says what a column is.
func (t *Sheet) Explain(header, help string) {
	for i := range t.columns {
		if t.columns[i].header == header {
			t.columns[i].help = help
		}
	}
}

// AddColumns adds columns that stand on the same side and have the same format; see [Sheet.AddColumn].
func (t *Sheet) AddColumns(align Align, format string, headers ...string) {
	for _, header := range headers {
		t.AddColumn(header, align, format)
	}
}

// AddRow adds a row with a cell for every column: a string, a bool, a number,
// or nil for a value that is not there. A float that is not finite counts as
// not there, too: JSON could not hold it.
func (t *Sheet) AddRow(cells ...any) {
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
func (t *Sheet) Len() int { return len(t.rows) }

func (t *Sheet) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("table: "+format, args...)
	}
}

func absent(cell any) bool {
	switch v := valueOf(cell).(type) {
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

// Write writes the table as csv, as json, as a page, or else as text. It returns the first mistake in building the
// table, or the error of w.
func (t *Sheet) Write(w io.Writer, format string) error {
	switch format {
	case "csv":
		return t.WriteCSV(w)
	case "json":
		return t.WriteJSON(w)
	case "page":
		return t.WritePage(w, "perigee "+version.Get().String())
	}
	return t.WriteText(w)
}

// WriteText writes the table for people, its title and sentences above it, in lines that fit w where w has a
// [plaintext.Width]. A cell without a value is a dash; line breaks and other control characters in a cell are escaped.
func (t *Sheet) WriteText(w io.Writer) error {
	for _, text := range append([]string{t.Title}, t.Say...) {
		if text != "" {
			fmt.Fprintln(w, "#", plaintext.Escape(text))
		}
	}
	return t.WriteTextWithin(w, plaintext.Width(w), max(t.Keys, 1))
}

// WriteTextWithin writes the table alone, in lines of at most width characters. One that is wider is folded; each of
// its parts repeats the first keys columns. A part has at least one column more than those, even if that is too wide. A
// width of 0 or less has no limit; then cells of more than 320 characters make their lines longer.
func (t *Sheet) WriteTextWithin(w io.Writer, width, keys int) error {
	if t.err != nil || len(t.columns) == 0 {
		return t.err
	}
	headers := make([]string, len(t.columns))
	for i, c := range t.columns {
		headers[i] = plaintext.Escape(c.header)
	}
	widths, least := t.widths()
	out := bufio.NewWriter(w)
	for i, part := range t.fold(widths, least, width, keys) {
		if i > 0 {
			out.WriteByte('\n')
		}
		dashes := make([]string, len(t.columns))
		for _, c := range part.columns {
			dashes[c] = strings.Repeat("-", part.widths[c])
		}
		t.writeLine(out, part, headers)
		t.writeLine(out, part, dashes)
		cells := make([]string, len(t.columns)) // of a row; to keep those of all takes more memory than the table
		for _, row := range t.rows {
			for _, c := range part.columns {
				cells[c] = t.columns[c].text(row[c])
			}
			t.writeRow(out, part, cells)
		}
	}
	return out.Flush()
}

// widths are how wide columns are in lines of any length, and how wide for their headers alone.
func (t *Sheet) widths() (widths, least []int) {
	for _, c := range t.columns {
		least = append(least, utf8.RuneCountInString(plaintext.Escape(c.header))+padding)
	}
	for i, n := range least {
		widths = append(widths, min(max(n, t.widest(i)), widest))
	}
	return widths, least
}

// widest is how wide the widest cell of a column is.
func (t *Sheet) widest(column int) (n int) {
	for _, row := range t.rows {
		n = max(n, utf8.RuneCountInString(t.columns[column].text(row[column])))
	}
	return n
}

// writeLine writes the cells of a part. A cell that is wider than its column shifts the rest.
func (t *Sheet) writeLine(out *bufio.Writer, p part, cells []string) {
	var line strings.Builder
	for k, i := range p.columns {
		cell := cells[i]
		if k > 0 {
			line.WriteString(gap)
		}
		space := strings.Repeat(" ", max(0, p.widths[i]-utf8.RuneCountInString(cell)))
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
	if cell, ok := cell.(Cell); ok {
		return plaintext.Escape(cell.Text)
	}
	return plaintext.Escape(fmt.Sprintf(c.format, cell))
}

// WriteCSV writes the table as [WriteCSV] does.
func (t *Sheet) WriteCSV(w io.Writer) error {
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
			if cell = valueOf(cell); cell != nil {
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
func (t *Sheet) WriteJSON(w io.Writer) error {
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
			text, err := encode(valueOf(cell))
			if err != nil {
				return fmt.Errorf("table: row %d, column %q: %w", r+1, t.columns[i].header, err)
			}
			if i > 0 {
				out.WriteString(", ")
			}
			out.Write(keys[i])
			out.WriteString(": ")
			out.Write(text)
		}
		out.WriteByte('}')
	}
	if len(t.rows) > 0 {
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return errors.Join(out.Flush(), safe.Close())
}

// Object is an object of JSON on one line, its keys in the order given, which a Go map would not keep.
func Object(keys []string, values []any) ([]byte, error) {
	b := []byte{'{'}
	for i, v := range values {
		key, wrong := encode(keys[i])
		text, err := encode(v)
		if err := cmp.Or(wrong, err); err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = slices.Concat(b, key, []byte{':'}, text)
	}
	return append(b, '}'), nil
}

// encode is json.Marshal without its escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
