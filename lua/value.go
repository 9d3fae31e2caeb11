package lua

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
)

// Values pass between Lua and Go as plain data: nil, bool, int64, float64,
// string, []any and map[string]any. A Lua table is a list if its keys are
// 1..n, also if it is empty; otherwise a map, whose keys become strings.
//
// Three things that Lua has no word for survive the way from Go to Lua and
// back: a null in a result (result.null), an empty map (a table with its
// own metatable), and whole numbers that a Lua number cannot hold
// exactly (userdata).

const (
	emptyMapTypeName = "perigee.map"
	integerTypeName  = "perigee.integer"
)

// null stands for JSON's null where a Lua table cannot hold nil.
type null struct{}

const (
	// maxDepth bounds the nesting of a table that becomes data, so that one
	// that contains itself is an error.
	maxDepth = 64
	// maxValues bounds how much data a table becomes: one whose elements are the same
	// few tables over and over is small in Lua only.
	maxValues = 1 << 24
	// exactBelow is the bound below which Lua's numbers hold all whole numbers exactly.
	exactBelow = 1 << 53
)

// toGo turns a Lua value into plain data.
func toGo(v glua.LValue) (any, error) {
	c := converter{left: maxValues}
	return c.convert(v, 0)
}

// stored is toGo for what a result keeps: its keys are text. JSON has no other bytes, and keys that differ in these
// alone would be one key there.
func stored(v glua.LValue) (any, error) {
	plain, err := toGo(v)
	if err == nil {
		err = checkKeys(plain)
	}
	return plain, err
}

func checkKeys(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := checkKeys(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range v {
			if err := cmp.Or(checkKey(k), checkKeys(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkKey(k string) error {
	if !utf8.ValidString(k) {
		return fault.New(fault.Script, "what is stored has the key %s, want keys in UTF-8", quoted(k))
	}
	return nil
}

type converter struct{ left int }

func (c *converter) convert(v glua.LValue, depth int) (any, error) {
	if c.left--; c.left < 0 {
		return nil, fault.New(fault.Script, "a table has more than %d values", maxValues)
	}
	switch v := v.(type) {
	case *glua.LNilType:
		return nil, nil
	case glua.LBool:
		return bool(v), nil
	case glua.LNumber:
		if n, ok := wholeNumber(v); ok && math.Abs(float64(v)) < exactBelow {
			return n, nil
		}
		return float64(v), nil
	case glua.LString:
		return string(v), nil
	case *glua.LTable:
		if depth == maxDepth {
			return nil, fault.New(fault.Script, "a table is nested more than %d deep, or contains itself", maxDepth)
		}
		return c.table(v, depth+1)
	case *glua.LUserData:
		switch v := v.Value.(type) {
		case null:
			return nil, nil
		case int64:
			return v, nil
		case *luaMatrix:
			return c.rows(v)
		}
	}
	return nil, fault.New(fault.Script, "a %s is no data that can be sent or stored", v.Type())
}

// rows makes a list of lists of a matrix.
func (c *converter) rows(m *luaMatrix) (any, error) {
	n := m.Size()
	if c.left -= n * n; c.left < 0 {
		return nil, fault.New(fault.Script, "a matrix of %d ranks is too large to be sent or stored as a table", n)
	}
	rows := make([]any, n)
	for i := range rows {
		row := make([]any, n)
		for j := range row {
			row[j] = m.At(i, j)
		}
		rows[i] = row
	}
	return rows, nil
}

func (c *converter) table(t *glua.LTable, depth int) (any, error) {
	n := t.Len()
	count, numbers := 0, 0
	t.ForEach(func(k, _ glua.LValue) {
		count++
		if i, ok := wholeNumber(k); ok && i >= 1 && i <= int64(n) {
			numbers++
		}
	})
	if count == 0 && t.Metatable != glua.LNil {
		return map[string]any{}, nil
	}
	if numbers == n && count == n {
		list := make([]any, 0, n)
		for i := 1; i <= n; i++ {
			v, err := c.convert(t.RawGetInt(i), depth)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	m := make(map[string]any, count)
	var failed error
	t.ForEach(func(k, v glua.LValue) {
		if failed != nil {
			return
		}
		key := k.String()
		if k.Type() != glua.LTString && k.Type() != glua.LTNumber {
			failed = fault.New(fault.Script, "a table that is sent or stored has a key of type %s, want strings or numbers", k.Type())
			return
		}
		if _, twice := m[key]; twice {
			failed = fault.New(fault.Script, "a table that is sent or stored has the key %s both as a number and as a string", key)
			return
		}
		m[key], failed = c.convert(v, depth)
	})
	return m, failed
}

// toLua turns plain data into a Lua value.
func toLua(L *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case nil:
		return glua.LNil
	case bool:
		return glua.LBool(v)
	case int64:
		if v > -exactBelow && v < exactBelow {
			return glua.LNumber(v)
		}
		return newUserData(L, integerTypeName, v)
	case float64:
		return glua.LNumber(v)
	case string:
		return glua.LString(v)
	case []any:
		t := L.CreateTable(len(v), 0)
		for i, e := range v {
			t.RawSetInt(i+1, toLua(L, e))
		}
		return t
	case map[string]any:
		t := L.CreateTable(0, len(v))
		if len(v) == 0 {
			t.Metatable = L.GetTypeMetatable(emptyMapTypeName)
		}
		for _, k := range sortedKeys(v) { // the order of pairs, which has to be that of every rank
			t.RawSetString(k, toLua(L, v[k]))
		}
		return t
	}
	panic(fmt.Sprintf("lua: %T is no plain data", v)) // a defect of the caller
}

// newUserData wraps a Go value whose methods are those of a type of this package.
func newUserData(L *glua.LState, typeName string, v any) *glua.LUserData {
	ud := L.NewUserData()
	ud.Value = v
	L.SetMetatable(ud, L.GetTypeMetatable(typeName))
	return ud
}

// newType makes the metatable of a type. Scripts cannot reach it.
func (r *Runtime) newType(name string, metamethods map[string]function) {
	mt := r.L.NewTypeMetatable(name)
	for event, f := range metamethods {
		mt.RawSetString(event, r.function(f))
	}
	mt.RawSetString("__metatable", glua.LString(name))
}

// valueTypes makes the types of values that Lua has no word for.
func (r *Runtime) valueTypes() {
	r.newType(emptyMapTypeName, nil)
	r.newType(integerTypeName, map[string]function{"__tostring": func(L *glua.LState) (int, error) {
		n, err := userData[int64](L, 1, "a large whole number")
		if err != nil {
			return 0, err
		}
		L.Push(glua.LString(fmt.Sprint(n)))
		return 1, nil
	}})
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
