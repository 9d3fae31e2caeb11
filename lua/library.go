package lua

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// mendLibrary puts functions in the place of the interpreter's whose results are not those of Lua 5.1.
func (r *Runtime) mendLibrary() {
	into := func(library, name string, f glua.LGFunction) {
		r.L.GetGlobal(library).(*glua.LTable).RawSetString(name, r.L.NewFunction(f))
	}
	into("_G", "tonumber", toNumber)
	into("_G", "select", selectFrom(r.L.GetGlobal("select").(*glua.LFunction).GFunction))
	into(glua.StringLibName, "byte", stringByte)
	into(glua.StringLibName, "char", stringChar)
	into(glua.TabLibName, "insert", tableInsert)
	into(glua.TabLibName, "remove", tableRemove)
	m := r.L.GetGlobal(glua.MathLibName).(*glua.LTable)
	m.RawSetString("mod", m.RawGetString("fmod")) // its old name
}

// selectFrom is select, whose own message would hold the whole text that it was given in place of a number.
func selectFrom(library glua.LGFunction) glua.LGFunction {
	return func(L *glua.LState) int {
		if text, ok := L.Get(1).(glua.LString); ok && text != "#" {
			L.ArgError(1, `wanted a number or "#", got another text`)
		}
		return library(L)
	}
}

// toNumber is tonumber.
func toNumber(L *glua.LState) int {
	v, base := L.CheckAny(1), L.OptInt(2, 10)
	if base < 2 || base > 36 {
		L.ArgError(2, fmt.Sprintf("wanted a base from 2 to 36, got %d", base))
	}
	text, ok := v.(glua.LString)
	switch {
	case base == 10 && !ok:
		if v.Type() != glua.LTNumber {
			v = glua.LNil
		}
	case base == 10:
		v = numberFromText(string(text))
	default:
		digits := strings.ToLower(strings.TrimSpace(L.CheckString(1)))
		if base == 16 {
			digits = strings.TrimPrefix(digits, "0x")
		}
		v = glua.LNil
		if n, err := strconv.ParseInt(digits, base, 64); err == nil {
			v = glua.LNumber(n)
		}
	}
	L.Push(v)
	return 1
}

// numberFromText is the number that a text stands for, or nil.
func numberFromText(text string) glua.LValue {
	text = strings.Trim(text, " \t\n\v\f\r")
	digits := strings.ToLower(strings.TrimLeft(text, "+-"))
	// strconv knows more numbers, such as inf.
	is := len(text)-len(digits) <= 1 && digits != "" && strings.Trim(digits[:1], ".0123456789") == ""
	if !is || strings.Contains(digits, "_") {
		return glua.LNil
	}
	if strings.HasPrefix(digits, "0x") && !strings.Contains(digits, "p") {
		text += "p0"
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return glua.LNil
	}
	return glua.LNumber(n)
}

// stringByte is string.byte.
func stringByte(L *glua.LState) int {
	text, from := L.CheckString(1), L.OptInt(2, 1)
	to := L.OptInt(3, from)
	if from < 0 {
		from += len(text) + 1
	}
	if to < 0 {
		to += len(text) + 1
	}
	from, to = max(from, 1), min(to, len(text))
	for i := from; i <= to; i++ {
		L.Push(glua.LNumber(text[i-1]))
	}
	return max(to-from+1, 0)
}

// stringChar is string.char.
func stringChar(L *glua.LState) int {
	text := make([]byte, L.GetTop())
	for i := range text {
		c := L.CheckInt(i + 1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, fmt.Sprintf("wanted the number of a byte, 0 to 255, got %d", c))
		}
		text[i] = byte(c)
	}
	L.Push(glua.LString(text))
	return 1
}

// tableInsert is table.insert. Behind the largest key of a list "#" would not count a value, and the next one would
// take its place.
func tableInsert(L *glua.LState) int {
	t := L.CheckTable(1)
	n := t.Len()
	if n >= maxArray {
		L.RaiseError("table.insert: wanted a list of less than %d values, got %d", maxArray, n)
	}
	switch L.GetTop() {
	case 2:
		t.Append(L.Get(2))
	case 3:
		t.Insert(L.CheckInt(2), L.Get(3))
	default:
		L.RaiseError("table.insert: wanted a table, a place if it is not the end, and a value; got %d arguments", L.GetTop())
	}
	return 0
}

// tableRemove is table.remove. It removes nothing where the list ends before.
func tableRemove(L *glua.LState) int {
	t := L.CheckTable(1)
	n := t.Len()
	at := L.OptInt(2, n)
	if at < 1 || at > n {
		return 0
	}
	L.Push(t.Remove(at))
	return 1
}
