package conf

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
)

// rowReaders read tables into a list of maps, one for each row. Documents cannot be written so.
var rowReaders = map[string]func(top *Value, text []byte) error{
	".csv": readCSV, ".jsonl": readJSONLines, ".ndjson": readJSONLines,
}

func rowReader(name string) func(top *Value, text []byte) error {
	return rowReaders[strings.ToLower(filepath.Ext(name))]
}

// HasRows reports whether a file's name ends as that of a table does: .csv, .jsonl or .ndjson.
func HasRows(name string) bool { return rowReader(name) != nil }

// ParseRows reads a table. CSV has a header with the keys; a cell that is a number as JSON writes it becomes one, and
// an empty cell no value of its row. Of JSON lines each one that is not blank is a value. name must be one for which
// HasRows is true.
func ParseRows(name string, text []byte) (*Value, error) {
	text, err := checkText(name, text)
	if err != nil {
		return nil, err
	}
	top := &Value{File: name, Line: 1, Kind: List}
	return top, rowReader(name)(top, text)
}

var jsonNumber = lazyre.New(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func readCSV(top *Value, text []byte) error {
	r := csv.NewReader(bytes.NewReader(text))
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Input, "%s: wanted a CSV table with a header, got an empty file", top.File)
	}
	if err == nil {
		top.Line, _ = r.FieldPos(0)
		err = checkHeader(top, header)
	}
	for record := header; err == nil; {
		if record, err = r.Read(); err == nil {
			addRow(top, r, header, record)
		}
	}
	wrong, is := errors.AsType[*csv.ParseError](err)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case is && errors.Is(err, csv.ErrFieldCount):
		return fault.New(fault.Input, "%s: wanted %d cells, as many as the header has", place(top.File, wrong.Line), len(header))
	case is:
		return syntaxError(top, wrong.Line, "CSV", wrong.Err.Error())
	}
	return err
}

// addRow adds a record to a table.
func addRow(top *Value, r *csv.Reader, header, record []string) {
	line, _ := r.FieldPos(0)
	row, _ := top.item(line)
	row.Kind = Map
	for i, cell := range record {
		if cell == "" {
			continue
		}
		line, _ = r.FieldPos(i)
		v, _ := row.entry(header[i], line) // headers differ, and rows are not deep
		v.Kind, v.scalar, v.written, v.cell = String, cell, cell, true
		if jsonNumber.MatchString(cell) {
			if kind, number, err := parseNumber(cell); err == nil { // else it is text: 12e4567 may be a name
				v.Kind, v.scalar = kind, number
			}
		}
	}
}

// checkHeader refuses columns without a name, and two of one name.
func checkHeader(top *Value, header []string) error {
	for i, name := range header {
		if name == "" || slices.Contains(header[:i], name) {
			return fault.New(fault.Input, "%s: wanted another name for each column, got %q for column %d",
				place(top.File, top.Line), name, i+1)
		}
	}
	return nil
}

func readJSONLines(top *Value, text []byte) error {
	all := newLines(text)
	for offset := 0; offset < len(text); {
		line, _, _ := bytes.Cut(text[offset:], []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			row, err := top.item(all.at(offset))
			if err == nil {
				err = readJSONAt(row, top, line, all, offset)
			}
			if err != nil {
				return err
			}
		}
		offset += len(line) + 1
	}
	return nil
}

// cellFor returns a cell as what a field wants: 123 may be a name, and true is not text for all.
func (v *Value) cellFor(f *Field) *Value {
	switch f.Type {
	case "string", "enum", "path":
		return v.as(String, v.written)
	case "bool":
		if word := strings.ToLower(v.written); word == "true" || word == "false" {
			return v.as(Bool, word == "true")
		}
	}
	return v
}

// rows is a table whose rows have the keys of the schema.
func (s Schema) rows() *Field { return &Field{Type: "list", Elem: &Field{Type: "map", Fields: s}} }

// CheckRows is Check for each row of a table.
func (s Schema) CheckRows(v *Value) (*Value, error) {
	if err := s.Validate(); err != nil {
		return nil, fault.New(fault.Internal, "%w", err)
	}
	return s.rows().check(v)
}
