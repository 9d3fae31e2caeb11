package vm

import (
	"fmt"
	"math"
	"strconv"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/size"
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
func Size(v glua.LValue) (int64, error) {
	switch v := v.(type) {
	case glua.LNumber:
		n, ok := WholeNumber(v)
		if !ok || n < 0 {
			return 0, fault.New(fault.Script, "%v is no number of bytes", v)
		}
		return n, nil
	case glua.LString:
		n, err := size.Parse(string(v))
		if err != nil {
			return 0, fault.New(fault.Script, "%w", err)
		}
		return n, nil
	}
	return 0, fault.New(fault.Script, "%s is no size, want a whole number of bytes or a string such as \"64K\"",
		Describe(v))
}

// Integer reads a whole number of at least least.
func Integer(v glua.LValue, least int64) (int64, error) {
	n, ok := WholeNumber(v)
	if !ok || n < least {
		want := "a whole number"
		if least > math.MinInt64 {
			want += fmt.Sprintf(" of at least %d", least)
		}
		return 0, fault.New(fault.Script, "%s, want %s", Describe(v), want)
	}
	return n, nil
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
