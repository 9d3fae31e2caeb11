package lua

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"
	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/traffic/traffictest"
	"perigee/spmd"
)

// everything lists all functions that scripts can call, methods and metamethods
// too, sorted by name.
func everything(r *Runtime) (names []string, functions map[string]glua.LValue) {
	functions = map[string]glua.LValue{}
	collect := func(prefix string, t *glua.LTable) {
		t.ForEach(func(k, v glua.LValue) {
			if v.Type() == glua.LTFunction {
				functions[prefix+k.String()] = v
			}
		})
	}
	r.openPatterns("patterns")
	for _, module := range append(moduleNames(), "patterns") {
		collect(module+".", state(r).GetGlobal(module).(*glua.LTable))
	}
	for prefix, typeName := range map[string]string{
		"matrix": "perigee.matrix", "plan": "perigee.plan", "lanes": "perigee.lanes", "plane": "perigee.plane",
		"bar": "perigee.progress", "t": "perigee.table",
	} {
		collect(prefix+":", methodsOf(r, typeName))
		collect(typeName+" ", state(r).GetTypeMetatable(typeName).(*glua.LTable))
	}
	for _, typeName := range []string{"perigee.matrix.row", "perigee.integer"} {
		collect(typeName+" ", state(r).GetTypeMetatable(typeName).(*glua.LTable))
	}
	return slices.Sorted(maps.Keys(functions)), functions
}

// anyValue draws something that a script could pass.
func anyValue(t *rapid.T, r *Runtime, objects []glua.LValue, depth int) glua.LValue {
	kinds := 7
	if depth == 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return glua.LNil
	case 1:
		return glua.LBool(rapid.Bool().Draw(t, "bool"))
	case 2:
		return glua.LNumber(rapid.Int64Range(-2, 5).Draw(t, "small"))
	case 3:
		return glua.LNumber(rapid.SampledFrom([]float64{0.5, -0.5, math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e300, 1 << 53, 1 << 31, -1 << 31}).Draw(t, "number"))
	case 4:
		return glua.LString(rapid.SampledFrom([]string{"", "x", "64K", "12Q", "dram", "WRITE", "sum", "/no/such/file", "%d", "\x00\xff"}).Draw(t, "text"))
	case 5, 6:
		return rapid.SampledFrom(objects).Draw(t, "object")
	}
	table := state(r).NewTable()
	for i := range rapid.IntRange(0, 4).Draw(t, "elements") {
		var key glua.LValue = glua.LNumber(i + 1)
		if rapid.Bool().Draw(t, "named") {
			key = glua.LString(rapid.SampledFrom([]string{
				"bytes", "ranks", "step", "root", "seed", "density", "min_bytes", "max_bytes", "self", "matrix", "mem", "op", "shards", "name", "metadata", "sleep_before", "sleep_after", "meet", "start",
				"iterations", "record", "title", "columns", "rows", "type", "default", "matrix_file", "choices", "min",
			}).Draw(t, "key"))
		}
		table.RawSet(key, anyValue(t, r, objects, depth-1))
	}
	return table
}

// Whatever a script passes to whatever function, it gets a result or an error, never
// a panic: guarded would make one an error of the kind Internal.
func TestAnyCallIsAnswered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		errs := traffictest.Worlds(t, 1, func(w *spmd.World) error {
			r, err := Load("any.lua", "return { run = print }", io.Discard)
			if err != nil {
				return err
			}
			defer r.Close()
			env := testEnv(w, io.Discard)
			env.Progress = new(bytes.Buffer)
			begun := rapid.Bool().Draw(rt, "begun")
			objects := []glua.LValue{mustMatrix(rt, `{{1}}`, r), state(r).GetGlobal("print"), state(r).GetGlobal("result").(*glua.LTable).RawGetString("null")}
			if begun {
				r.Begin(env)
				if err := state(r).DoString(`m = matrix.ring { bytes = 5 } row = m[0] plan = transfer.prepare { matrix = m } bar = result.progress(2)`); err != nil {
					return err
				}
				for _, name := range []string{"m", "row", "plan", "bar"} {
					objects = append(objects, state(r).GetGlobal(name))
				}
			}
			names, functions := everything(r)
			for range rapid.IntRange(1, 20).Draw(rt, "calls") {
				name := rapid.SampledFrom(names).Draw(rt, "function")
				if name == "clock.sleep" {
					continue // it would
				}
				var args []glua.LValue
				for range rapid.IntRange(0, 4).Draw(rt, "arguments") {
					args = append(args, anyValue(rt, r, objects, 2))
				}
				err := state(r).CallByParam(glua.P{Fn: functions[name], NRet: 1, Protect: true}, args...)
				if err == nil {
					state(r).Pop(1)
					continue
				}
				if api, ok := err.(*glua.ApiError); !ok || api.Type != glua.ApiErrorRun || strings.Contains(err.Error(), "panic") {
					return fmt.Errorf("%s(%v): %w", name, args, err)
				}
				if fault.KindOf(r.host.vm.Fault(err)) == fault.Internal {
					return fmt.Errorf("%s(%v): %w is called a defect", name, args, err)
				}
			}
			return nil
		})
		if errs[0] != nil {
			rt.Fatal(errs[0])
		}
	})
}

func mustMatrix(t *rapid.T, rows string, r *Runtime) glua.LValue {
	must.Do(t, state(r).DoString("return matrix.from "+rows))
	defer state(r).Pop(1)
	return state(r).Get(-1)
}
