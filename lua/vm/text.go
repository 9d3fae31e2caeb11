package vm

import (
	"fmt"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/lua/pattern"
)

// The library's functions on patterns, as Lua 5.1 has them.

// matcher looks for a pattern of the script. It goes on no longer than the script may.
func matcher(L *glua.LState, text, of string) *pattern.Matcher {
	return pattern.New(text, of, func() error {
		if ctx := L.Context(); ctx != nil {
			return ctx.Err()
		}
		return nil
	})
}

// search is a match in a text, as scripts see it.
type search struct {
	text     string
	match    pattern.Capture
	captures []pattern.Capture
}

// find looks for the first match from a place on.
func find(L *glua.LState, m *pattern.Matcher, text string, from int, anchored bool) (s search, ok bool) {
	match, captures, ok, err := m.Find(from, anchored)
	if err != nil {
		L.RaiseError("%s", err)
	}
	return search{text, match, captures}, ok
}

// value is a capture as Lua has it: a text, or a place, which counts from 1.
func (s search) value(c pattern.Capture) glua.LValue {
	if c.Len == pattern.Position {
		return glua.LNumber(c.Start + 1)
	}
	return glua.LString(s.text[c.Start : c.Start+c.Len])
}

// values are the captures, or the whole match where there are none.
func (s search) values() (list []glua.LValue) {
	if len(s.captures) == 0 {
		return []glua.LValue{s.value(s.match)}
	}
	for _, c := range s.captures {
		list = append(list, s.value(c))
	}
	return list
}

func push(L *glua.LState, list ...glua.LValue) int {
	for _, v := range list {
		L.Push(v)
	}
	return len(list)
}

// beginning is the place in a text, from 0, that argument 3 names from 1 on, or from the end where it is below 0.
func beginning(L *glua.LState, text string) int {
	from := L.OptInt(3, 1)
	if from < 0 {
		from += len(text) + 1
	}
	return min(max(from-1, 0), len(text))
}

// stringFind is string.find(text, pattern, from, plain).
func stringFind(L *glua.LState) int {
	text, of := L.CheckString(1), L.CheckString(2)
	from := beginning(L, text)
	if glua.LVAsBool(L.Get(4)) || pattern.Plain(of) {
		at := strings.Index(text[from:], of)
		if at < 0 {
			return push(L, glua.LNil)
		}
		return push(L, glua.LNumber(from+at+1), glua.LNumber(from+at+len(of)))
	}
	s, ok := find(L, matcher(L, text, of), text, from, true)
	if !ok {
		return push(L, glua.LNil)
	}
	n := push(L, glua.LNumber(s.match.Start+1), glua.LNumber(s.match.Start+s.match.Len))
	if len(s.captures) > 0 {
		n += push(L, s.values()...)
	}
	return n
}

// stringMatch is string.match(text, pattern, from).
func stringMatch(L *glua.LState) int {
	text, of := L.CheckString(1), L.CheckString(2)
	s, ok := find(L, matcher(L, text, of), text, beginning(L, text), true)
	if !ok {
		return push(L, glua.LNil)
	}
	return push(L, s.values()...)
}

// stringGmatch is string.gmatch(text, pattern), in which ^ is a letter as any other.
func stringGmatch(L *glua.LState) int {
	text, of := L.CheckString(1), L.CheckString(2)
	m, from := matcher(L, text, of), 0
	L.Push(L.NewFunction(func(L *glua.LState) int {
		if from > len(text) {
			return push(L, glua.LNil)
		}
		s, ok := find(L, m, text, from, false)
		if !ok {
			from = len(text) + 1
			return push(L, glua.LNil)
		}
		from = s.match.Start + max(s.match.Len, 1)
		return push(L, s.values()...)
	}))
	return 1
}

// stringGsub is string.gsub(text, pattern, replacement, most).
func stringGsub(L *glua.LState) int {
	text, of := L.CheckString(1), L.CheckString(2)
	replacement := L.Get(3)
	switch replacement.Type() {
	case glua.LTString, glua.LTNumber, glua.LTTable, glua.LTFunction:
	default:
		L.ArgError(3, "wanted a string, a function or a table, got "+kindOf(replacement))
	}
	most, anchored := L.OptInt(4, len(text)+1), strings.HasPrefix(of, "^")
	m, done, n := matcher(L, text, of), 0, 0
	var out strings.Builder
	for from := 0; from <= len(text) && n < most; n++ {
		s, ok := find(L, m, text, from, true)
		if !ok {
			break
		}
		out.WriteString(text[done:s.match.Start])
		out.WriteString(s.replaced(L, replacement))
		done = s.match.Start + s.match.Len
		if from = done; s.match.Len == 0 { // the letter behind it stays
			from++
		}
		if anchored {
			n++
			break
		}
	}
	out.WriteString(text[done:])
	return push(L, glua.LString(out.String()), glua.LNumber(n))
}

// replaced is what stands in the place of a match.
func (s search) replaced(L *glua.LState, replacement glua.LValue) string {
	v := replacement
	switch r := replacement.(type) {
	case *glua.LTable:
		v = L.GetTable(r, s.values()[0])
	case *glua.LFunction:
		L.Push(r)
		L.Call(push(L, s.values()...), 1)
		v = L.Get(-1)
		L.Pop(1)
	default:
		return s.filled(L, r.String())
	}
	switch v.Type() {
	case glua.LTString, glua.LTNumber:
		return v.String()
	}
	if !glua.LVIsFalse(v) {
		L.RaiseError("invalid replacement value: wanted a string, a number, false or nil, got %s", kindOf(v))
	}
	return s.text[s.match.Start : s.match.Start+s.match.Len]
}

// filled puts the captures into the text of a replacement, in the places of %0 to %9.
func (s search) filled(L *glua.LState, text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out.WriteByte(text[i])
			continue
		}
		if i++; i == len(text) {
			L.RaiseError("%s", "invalid replacement: it ends with %; %% stands for %")
		}
		switch n, values := int(text[i])-'1', s.values(); {
		case text[i] == '0':
			out.WriteString(s.value(s.match).String())
		case n < 0 || n > 8:
			out.WriteByte(text[i])
		case n >= len(values):
			L.RaiseError("%s", fmt.Sprintf("invalid capture index %%%c", text[i]))
		default:
			out.WriteString(values[n].String())
		}
	}
	return out.String()
}

// kindOf names the type of a value in messages.
func kindOf(v glua.LValue) string {
	if v == glua.LNil {
		return "nil"
	}
	return Describe(v)
}
