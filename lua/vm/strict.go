package vm

import (
	"slices"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
)

// Strict makes it an error to read what a table has not: missing says which, or returns nil where that is nil all the
// same. Lua written for perigee itself, whose file's name begins with a bracket, may ask for anything, and so may
// rawget.
func (v *VM) Strict(t *glua.LTable, missing func(L *glua.LState, key glua.LValue) error) {
	mt := v.L.NewTable()
	mt.RawSetString("__index", v.Function(func(L *glua.LState) (int, error) {
		if where := L.Where(1); where != "" && !strings.HasPrefix(where, "[") {
			if err := missing(L, L.Get(2)); err != nil {
				return 0, err
			}
		}
		return Return(L, glua.LNil)
	}))
	t.Metatable = mt
	v.strict[t] = mt
}

// IsStrict reports whether Strict has been called for a table, and no script has given it another metatable.
func (v *VM) IsStrict(t *glua.LTable) bool { return v.strict[t] != nil && t.Metatable == v.strict[t] }

// StrictGlobal is Strict for a global table, which is called name. A script may ask whether it has something, as in
// "if name.field then". later are fields that it has in a world.
func (v *VM) StrictGlobal(name string, t *glua.LTable, later ...string) {
	v.Strict(t, func(L *glua.LState, key glua.LValue) error {
		if v.onlyAsked(L, name, key) {
			return nil
		}
		return NoMember(name, key.String(), t, later)
	})
}

// NoMember is the error of a field that a global table has not, or not yet.
func NoMember(name, field string, t *glua.LTable, later []string) error {
	if slices.Contains(later, field) {
		return fault.New(fault.Script, "there is no world yet: only the function run has %s.%s", name, field)
	}
	if len(field) > maxQuoted {
		return fault.New(fault.Script, "there is no %s[%s]", name, Quoted(field))
	}
	near := value.Suggestion(field, append(Names(t), later...))
	return fault.New(fault.Script, "there is no %s.%s%s", name, field, near)
}

// onlyAsked reports whether the line that reads a field of a global only asks whether it is there, or is not known.
func (v *VM) onlyAsked(L *glua.LState, global string, key glua.LValue) bool {
	place := strings.TrimRight(L.Where(1), ": ")
	colon := max(strings.LastIndex(place, ":"), 0)
	file := place[:colon]
	line, err := strconv.Atoi(strings.TrimPrefix(place[colon:], ":"))
	text, known := v.texts[file]
	if err != nil || !known {
		return true // of load and its like
	}
	if v.asked[file] == nil {
		uses, err := UsesOf(file, strings.Join(text, "\n"))
		if err != nil {
			return true
		}
		v.asked[file] = uses.Asked
	}
	return v.asked[file][Use{global, key.String(), line}]
}
