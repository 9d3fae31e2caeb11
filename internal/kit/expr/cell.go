package expr

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind names the type of a column's cells.
type Kind int

// The kinds of cells.
const (
	Number Kind = iota
	Text
	Bool
	Either // a number or text
)

// String names the kind in the words of messages.
func (k Kind) String() string {
	return [...]string{"a number", "text", "true or false", "a number or text"}[k]
}

// Cell is a value of a row. A cell without a value is empty.
type Cell struct {
	Kind  Kind
	Empty bool
	Nums  []float64 // of a Number: one, or several that differ, ascending
	Text  string
	Bool  bool
}

// Num is a cell with a number; NaN makes it empty.
func Num(x float64) Cell {
	if math.IsNaN(x) {
		return Cell{Kind: Number, Empty: true}
	}
	return Cell{Kind: Number, Nums: []float64{x}}
}

// Words is a cell with text; "" makes it empty.
func Words(s string) Cell { return Cell{Kind: Text, Text: s, Empty: s == ""} }

// Truth is a cell that is true or false.
func Truth(b bool) Cell { return Cell{Kind: Bool, Bool: b} }

// Mixed is a cell with what is different among numbers. It is empty if one of
// them is unknown or there is none.
func Mixed(numbers []float64) Cell {
	numbers = slices.Clone(numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 0 || slices.ContainsFunc(numbers, math.IsNaN) {
		return Cell{Kind: Number, Empty: true}
	}
	return Cell{Kind: Number, Nums: numbers}
}

// Value returns the number of a cell: NaN if it is empty, no number, or several
// ones.
func (c Cell) Value() float64 {
	if len(c.Nums) != 1 {
		return math.NaN()
	}
	return c.Nums[0]
}

// Plain returns what the cell holds as package table and JSON take it: nil, a
// whole number where it is one, a float, text or a boolean. Several numbers
// become text such as "4+8", an infinite one "inf".
func (c Cell) Plain() any {
	switch {
	case c.Empty:
		return nil
	case c.Kind == Text:
		return c.Text
	case c.Kind == Bool:
		return c.Bool
	case len(c.Nums) > 1 || math.IsInf(c.Nums[0], 0):
		return c.String()
	case c.Nums[0] == math.Trunc(c.Nums[0]) && math.Abs(c.Nums[0]) < 1<<53:
		return int64(c.Nums[0])
	}
	return c.Nums[0]
}

// String writes the cell in full; "" if it is empty.
func (c Cell) String() string {
	if c.Empty {
		return ""
	}
	switch c.Kind {
	case Text:
		return c.Text
	case Bool:
		return strconv.FormatBool(c.Bool)
	}
	parts := make([]string, len(c.Nums))
	for i, x := range c.Nums {
		parts[i] = strconv.FormatFloat(x, 'f', -1, 64)
		if math.IsInf(x, 0) {
			parts[i] = strings.ToLower(strings.TrimPrefix(fmt.Sprint(x), "+"))
		}
	}
	return strings.Join(parts, "+")
}
