package vm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
)

// Values pass between Lua and Go as plain data: nil, bool, int64, float64,
// string, []any and map[string]any. A Lua table is a list if its keys are
// 1..n, also if it is empty; otherwise a map, whose keys become strings.
//
// Two things that Lua has no word for survive the way from Go to Lua and
// back: an empty map (a table with its own metatable), and whole numbers that a
// Lua number cannot hold exactly (userdata). Objects of modules become plain
// data by their method Plain.

const (
	emptyMapTypeName = "perigee.map"
	integerTypeName  = "perigee.integer"
)

const (
	// maxDepth bounds the nesting of a table that becomes data, so that one
	// that contains itself is an error.
	maxDepth = 64
	// maxValues bounds how much data a table becomes: one whose elements are the same
	// few tables over and over is small in Lua only.
	maxValues = 1 << 24
)

// Data is an object of a module, behind a userdata, that scripts send and store as the plain data that it stands for.
type Data interface {
	// Plain makes the plain data, and says of how many values it consists. Beyond most it is an error.
	Plain(most int) (plain any, values int, err error)
}

// ToGo turns a Lua value into plain data.
func ToGo(v glua.LValue) (any, error) {
	c := converter{left: maxValues}
	return c.convert(v, 0)
}

// Stored is ToGo for what a result keeps: its keys are text. JSON has no other bytes, and keys that differ in these
// alone would be one key there.
func Stored(v glua.LValue) (any, error) {
	plain, err := ToGo(v)
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
			if err := cmp.Or(CheckKey(k), checkKeys(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckKey refuses a key that is no text in UTF-8.
func CheckKey(k string) error {
	if !utf8.ValidString(k) {
		return fault.New(fault.Script, "what is stored has the key %s, want keys in UTF-8", Quoted(k))
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
		if n, ok := WholeNumber(v); ok && math.Abs(float64(v)) < ExactBelow {
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
		case int64:
			return v, nil
		case Data:
			plain, values, err := v.Plain(c.left)
			c.left -= values
			return plain, err
		}
	}
	return nil, fault.New(fault.Script, "a %s is no data that can be sent or stored", v.Type())
}

func (c *converter) table(t *glua.LTable, depth int) (any, error) {
	n := t.Len()
	count, numbers := 0, 0
	t.ForEach(func(k, _ glua.LValue) {
		count++
		if i, ok := WholeNumber(k); ok && i >= 1 && i <= int64(n) {
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
	var kind glua.LValue // a key, of the type that all have
	t.ForEach(func(k, v glua.LValue) {
		if failed != nil {
			return
		}
		key := k.String()
		if k.Type() != glua.LTString && k.Type() != glua.LTNumber {
			failed = fault.New(fault.Script, "a table that is sent or stored has a key of type %s, want strings or numbers", k.Type())
			return
		}
		if kind == nil {
			kind = k
		} else if kind.Type() != k.Type() { // they would all become strings
			failed = fault.New(fault.Script, "a table that is sent or stored has both numbers and strings as keys: %s and %s",
				Describe(kind), Describe(k)).WithHint("a list has the keys 1, 2, 3 ...; give it a name there")
			return
		}
		m[key], failed = c.convert(v, depth)
	})
	return m, failed
}

// ToLua turns plain data into a Lua value.
func ToLua(L *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case nil:
		return glua.LNil
	case bool:
		return glua.LBool(v)
	case int64:
		if v > -ExactBelow && v < ExactBelow {
			return glua.LNumber(v)
		}
		return NewUserData(L, integerTypeName, v)
	case float64:
		return glua.LNumber(v)
	case string:
		return glua.LString(v)
	case []any:
		t := L.CreateTable(len(v), 0)
		for i, e := range v {
			t.RawSetInt(i+1, ToLua(L, e))
		}
		return t
	case map[string]any:
		t := L.CreateTable(0, len(v))
		if len(v) == 0 {
			t.Metatable = L.GetTypeMetatable(emptyMapTypeName)
		}
		for _, k := range sortedKeys(v) { // the order of pairs, which has to be that of every rank
			t.RawSetString(k, ToLua(L, v[k]))
		}
		return t
	}
	panic(fmt.Sprintf("lua: %T is no plain data", v)) // a defect of the caller
}

// NewUserData wraps an object of a module, whose methods are those of a type (see VM.NewType).
func NewUserData(L *glua.LState, typeName string, object any) *glua.LUserData {
	ud := L.NewUserData()
	ud.Value = object
	L.SetMetatable(ud, L.GetTypeMetatable(typeName))
	return ud
}

// NewList makes a Lua list with a value for each element.
func NewList[T any](L *glua.LState, list []T, value func(T) glua.LValue) *glua.LTable {
	t := L.CreateTable(len(list), 0)
	for _, e := range list {
		t.Append(value(e))
	}
	return t
}

// Numbers makes a Lua list of whole numbers.
func Numbers(L *glua.LState, list []int) *glua.LTable {
	return NewList(L, list, func(n int) glua.LValue { return glua.LNumber(n) })
}

// Texts makes a Lua list of texts.
func Texts(L *glua.LState, list []string) *glua.LTable {
	return NewList(L, list, func(s string) glua.LValue { return glua.LString(s) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
