package vm

import (
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	glua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// plain draws plain data.
func plain(t *rapid.T, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.Float64().Draw(t, "float")
	case 4:
		return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}).Draw(t, "odd")
	case 5:
		return string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
	case 6:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range list {
			list[i] = plain(t, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "keys") {
		m[rapid.String().Draw(t, "key")] = plain(t, depth-1)
	}
	return m
}

func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := plain(rt, 4)
		data := Encode(v)
		got, err := Decode(data)
		must.Do(rt, err)
		must.Equal(rt, v, got, cmpopts.EquateNaNs())
		if _, err := Decode(data[:rapid.IntRange(0, len(data)-1).Draw(rt, "cut")]); err == nil {
			rt.Fatal("a torn value was read without complaint")
		}
		if _, err := Decode(append(data, 0)); err == nil {
			rt.Fatal("a byte too many was read without complaint")
		}
	})
}

// What a Lua value can hold comes back from Lua as it was, but for nil in
// tables and for decimals that are whole.
func TestPlainDataSurvivesLua(t *testing.T) {
	v := New(io.Discard)
	defer v.Close()
	rapid.Check(t, func(rt *rapid.T) {
		data := luaLike(plain(rt, 3))
		got, err := ToGo(ToLua(v.L, data))
		must.Do(rt, err)
		must.Equal(rt, data, got, cmpopts.EquateNaNs())
	})
}

// The order in which scripts see a table is the same at all ranks.
func TestPairsFollowTheKeys(t *testing.T) {
	v := New(io.Discard)
	defer v.Close()
	f, err := v.Load("x.lua", "return function(opt) local all = '' for k in pairs(opt) do all = all .. k end return all end")
	must.Do(t, err)
	options := map[string]any{}
	for _, k := range "qwertyuiopasdfghjklzxcvbnm" {
		options[string(k)] = int64(k)
	}
	for range 50 {
		got, err := v.Call("run", f.(*glua.LFunction), ToLua(v.L, options))
		if err != nil || got.String() != "abcdefghijklmnopqrstuvwxyz" {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

// luaLike takes from plain data what Lua cannot distinguish.
func luaLike(v any) any {
	switch v := v.(type) {
	case float64:
		if math.Trunc(v) == v && math.Abs(v) < ExactBelow {
			return int64(v)
		}
	case []any:
		list := []any{}
		for _, e := range v {
			if e = luaLike(e); e != nil {
				list = append(list, e)
			}
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			if e = luaLike(e); e != nil {
				m[k] = e
			}
		}
		return m
	}
	return v
}

func FuzzDecodeValue(f *testing.F) {
	f.Add(Encode(map[string]any{"a": []any{int64(1), 2.5, "x", nil, true, false, map[string]any{}}}))
	f.Add([]byte("l\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("s\x05abc"))
	f.Add([]byte("llllllllllllllllllllllllll"))
	fuzztest.Run(f, []string{"n", "t", "f", "i", "d", "s", "l", "m", "\x00", "\x01", "\x02", "\x03", "a", "\x7f", "\xff", "l\x01", "l\x02", "m\x01\x01a", "s\x02ab"}, func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(Encode(v))
		must.Do(t, err)
		must.Equal(t, v, again, cmpopts.EquateNaNs())
	})
}
