package vm

import (
	"fmt"
	"math"
	"strconv"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/value"
)

// ExactBelow is the bound below which Lua's numbers hold all whole numbers exactly.
const ExactBelow = 1 << 53

// WholeNumber reports which whole number a value is, if it is one.
func WholeNumber(v glua.LValue) (int64, bool) {
	n, ok := v.(glua.LNumber)
	if !ok || math.Abs(float64(n)) > ExactBelow || n != glua.LNumber(int64(n)) {
		return 0, false
	}
	return int64(n), true
}

// Size reads a number of bytes: a whole number, or a string such as "64K".
func Size(v glua.LValue) (int64, error) { return checked(v, value.Field{Type: "size"}) }

// Integer reads a whole number of at least least.
func Integer(v glua.LValue, least int64) (int64, error) {
	f := value.AtLeast(least)
	if least == math.MinInt64 {
		f.Min = nil
	}
	return checked(v, f)
}

// checked reads what a field may be. Numbers that Lua cannot hold exactly are none.
func checked(v glua.LValue, f value.Field) (int64, error) {
	var data any
	switch v := v.(type) {
	case glua.LNumber:
		if data = float64(v); math.Abs(float64(v)) > ExactBelow {
			data = nil
		}
	case glua.LString:
		data = string(v)
	}
	n, ok := f.Take(data)
	if !ok {
		return 0, wanted(f.Wanted(), v)
	}
	return n.(int64), nil
}

// wanted is the error of a value that has to be something else.
func wanted(what string, v glua.LValue) error {
	got := "nothing"
	if v != glua.LNil {
		got = Describe(v)
	}
	return fault.New(fault.Script, "wanted %s, got %s", what, got)
}

// maxQuoted bounds what messages quote of a text: one of a script's may have 64 MiB, and be four times as long when it
// is escaped.
const maxQuoted = 256

// Quoted is a text between quotation marks, cut where it is long.
func Quoted(text string) string {
	if len(text) <= maxQuoted {
		return strconv.Quote(text)
	}
	return fmt.Sprintf("%q (%d bytes)", plaintext.Cut(text, maxQuoted), len(text))
}

// Describe names a value in a message.
func Describe(v glua.LValue) string {
	switch v.Type() {
	case glua.LTNil:
		return "missing"
	case glua.LTString:
		return "the string " + Quoted(v.String())
	case glua.LTNumber, glua.LTBool:
		return v.String()
	}
	return "a " + v.Type().String()
}
