package expr

import (
	"strings"

	"perigee/internal/size"
)

// Better is which values are better.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = ""
)

// Entry describes a column of a table, or of a metric.
type Entry struct {
	Name   string
	Unit   string // "" for what has none
	Better Better
	Help   string // the formula, or where the value stands
}

// String is the name with its unit.
func (e *Entry) String() string {
	if e.Unit == "" || strings.HasSuffix(e.Name, "_"+e.Unit) {
		return e.Name
	}
	return e.Name + " (" + e.Unit + ")"
}

// Column is one column of a table.
type Column[R any] struct {
	Entry
	Kind  Kind
	Whole bool         // holds whole numbers from 0 on
	Of    func(R) Cell // its cell of a row
}

// times are the units of time in nanoseconds.
var times = map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}

// convert turns a number with a unit, also given as text, into the unit of a column. What is too large for that becomes
// infinite.
func convert(text string, v float64, from, to string) (float64, bool) {
	if to == "B" {
		bytes, err := size.Parse(text)
		return float64(bytes), err == nil
	}
	factor, ok := times[from]
	per, same := times[to]
	return v * factor / per, ok && same
}

// wantedNumber says which numbers may be compared with a column of a unit.
func wantedNumber(unit string) string {
	switch {
	case unit == "B":
		return "a text in double quotes, a number or a size such as 64K"
	case times[unit] > 0:
		return "a number, or a time such as 1.5" + unit
	}
	return "a number without a unit"
}
