package expr

import (
	"strings"

	"perigee/internal/kit/size"
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

// byteUnits are the units of columns that take sizes, or sizes per second, in bytes.
var byteUnits = map[string]float64{"B": 1, "GB": 1e9, "GB/s": 1e9}

// isUnit reports whether a word is the unit of a number, of whatever kind.
func isUnit(word string) bool {
	_, err := size.Parse("1" + strings.TrimSuffix(word, "/s"))
	return err == nil || times[word] > 0
}

// convert turns a number with a unit, also given as text, into the unit of a column. What is too large for that becomes
// infinite.
func convert(text string, v float64, from, to string) (float64, bool) {
	if per := byteUnits[to]; per > 0 {
		bytes, rate := strings.CutSuffix(text, "B/s") // not b/s, which are bits
		if rate {
			bytes += "B"
		}
		n, err := size.Parse(bytes)
		return float64(n) / per, err == nil && rate == strings.HasSuffix(to, "/s")
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
	case byteUnits[unit] > 0:
		return "a number, or one with a unit such as 1.5 " + unit + ","
	case times[unit] > 0:
		return "a number, or a time such as 1.5" + unit
	}
	return "a number without a unit"
}
