package lua

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"math"
	"sort"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
)

// Values pass between Lua and Go as plain data: nil, bool, int64, float64,
// string, []any and map[string]any. A Lua table is a list if its keys are
// 1..n, also if it is empty; otherwise a map, whose keys become strings. Since
// a table cannot hold nil, result.null stands for it in what is stored.

// null is what result.null holds.
type null struct{}

// maxDepth bounds the nesting of a table that becomes data, so that one that
// contains itself is an error.
const maxDepth = 64

func toGo(v glua.LValue) (any, error) { return toGoDepth(v, 0) }

func toGoDepth(v glua.LValue, depth int) (any, error) {
	switch v := v.(type) {
	case *glua.LNilType:
		return nil, nil
	case glua.LBool:
		return bool(v), nil
	case glua.LNumber:
		if i := int64(v); glua.LNumber(i) == v && math.Abs(float64(v)) < 1<<53 {
			return i, nil
		}
		return float64(v), nil
	case glua.LString:
		return string(v), nil
	case *glua.LTable:
		if depth == maxDepth {
			return nil, fault.New(fault.Script, "a table is nested more than %d deep, or contains itself", maxDepth)
		}
		return tableToGo(v, depth+1)
	case *glua.LUserData:
		switch v := v.Value.(type) {
		case *luaMatrix:
			return v.rows(), nil
		case null:
			return nil, nil
		}
	}
	return nil, fault.New(fault.Script, "a %s is no data that can be sent or stored", v.Type())
}

func tableToGo(t *glua.LTable, depth int) (any, error) {
	n := t.Len()
	count := 0
	t.ForEach(func(glua.LValue, glua.LValue) { count++ })
	if count == n {
		list := make([]any, 0, n)
		for i := 1; i <= n; i++ {
			v, err := toGoDepth(t.RawGetInt(i), depth)
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
		if k.Type() != glua.LTString && k.Type() != glua.LTNumber {
			failed = fault.New(fault.Script, "a table that is sent or stored has a key of type %s, want strings or numbers", k.Type())
			return
		}
		var value any
		if value, failed = toGoDepth(v, depth); failed == nil {
			m[k.String()] = value
		}
	})
	return m, failed
}

func (r *Runtime) toLua(v any) glua.LValue { return toLua(r.L, v) }

func toLua(L *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case nil:
		return glua.LNil
	case bool:
		return glua.LBool(v)
	case int:
		return glua.LNumber(v)
	case int64:
		return glua.LNumber(v)
	case float64:
		return glua.LNumber(v)
	case string:
		return glua.LString(v)
	case []any:
		t := L.CreateTable(len(v), 0)
		for _, e := range v {
			t.Append(toLua(L, e))
		}
		return t
	case map[string]any:
		t := L.CreateTable(0, len(v))
		for k, e := range v {
			t.RawSetString(k, toLua(L, e))
		}
		return t
	}
	panic(fmt.Sprintf("lua: %T is no plain data", v)) // a defect of the caller
}

func init() {
	gob.Register([]any{})
	gob.Register(map[string]any{})
}

// envelope lets gob carry a nil.
type envelope struct{ V any }

func encodeValue(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(envelope{v})
	return b.Bytes(), err
}

func decodeValue(data []byte) (any, error) {
	var e envelope
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&e); err != nil {
		return nil, fmt.Errorf("value from another rank: %w", err)
	}
	return e.V, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
