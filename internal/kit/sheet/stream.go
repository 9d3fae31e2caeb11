package sheet

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"

	"perigee/internal/kit/plaintext"
)

// Stream writes the rows of a table as they come. The widths of its columns are fixed by the headers; a longer cell
// shifts the rest of its line.
type Stream struct {
	t    *Sheet
	w    io.Writer
	part part // what is written
}

// Stream writes the headers and returns what writes the rows. Lines have at most width characters, for which columns at
// the end are left out; the first keys columns always stay. A width of 0 or less has no limit.
func (t *Sheet) Stream(w io.Writer, width, keys int) (*Stream, error) {
	if t.err != nil || len(t.columns) == 0 {
		return nil, t.err
	}
	s, widths := &Stream{t: t, w: w}, make([]int, len(t.columns))
	headers, dashes := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		headers[i] = plaintext.Escape(c.header)
		widths[i] = min(utf8.RuneCountInString(headers[i])+padding, widest)
		dashes[i] = strings.Repeat("-", widths[i])
	}
	s.part = part{columns: parts(widths, width, keys)[0], widths: widths}
	if err := s.line(headers); err != nil {
		return nil, err
	}
	return s, s.line(dashes)
}

// Row writes a row, which it adds to the table.
func (s *Stream) Row(cells ...any) error {
	s.t.AddRow(cells...)
	if s.t.err != nil {
		return s.t.err
	}
	row := s.t.rows[len(s.t.rows)-1]
	texts := make([]string, len(row))
	for i, cell := range row {
		texts[i] = s.t.columns[i].text(cell)
	}
	return s.line(texts)
}

// LeftOut reports whether there was no room for some columns.
func (s *Stream) LeftOut() bool { return len(s.part.columns) < len(s.t.columns) }

func (s *Stream) line(cells []string) error {
	out := bufio.NewWriter(s.w)
	s.t.writeLine(out, s.part, cells)
	return out.Flush()
}
