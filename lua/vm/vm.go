// Package vm is the Lua interpreter that scenarios run in, and what passes between it and Go.
//
// A VM is one Lua state. It has Lua's own base, string, table, math and coroutine libraries, without what reaches
// files, processes or the clock, and with what the interpreter does otherwise than Lua 5.1 put right (library.go).
// math.random gives the same numbers at all ranks.
//
// The modules of perigee consist of Functions. One that returns an error raises it at the line of the script that
// called it, where pcall may catch it as a string; where nothing catches it, Call and Load return the error itself,
// with its kind and its hint (fault.go), and the functions in which it arose (trace.go). Complaints of the interpreter
// itself get the names that it leaves out (explain.go). Scripts require other files (require.go), and the names in a
// text can be looked at without running it (uses.go).
//
// Arguments are read by Fields, IntegerArg, ObjectArg and their like, which word the errors the same way in all
// modules (args.go). Values pass as plain data (value.go), which has a form for the way to other ranks (codec.go).
//
// The package knows neither ranks nor traffic: perigee/lua/modules has what modules need of those.
package vm

import (
	"errors"
	"fmt"
	"io"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
)

// VM is one Lua state.
type VM struct {
	L      *glua.LState
	Out    io.Writer           // what print writes to
	texts  map[string][]string // the lines of what was loaded, by name
	entry  string              // what Go code has called, for errors
	random *generator
	raised *scriptFault // the last error that was raised for Go code

	strict map[*glua.LTable]*glua.LTable // the metatables of tables that are strict
	asked  map[string]map[Use]bool       // see onlyAsked, by file
}

// maxRegistry is how many values Lua functions may hold at a time. The room grows when
// it is needed.
const (
	maxRegistry  = 1 << 20
	registryStep = 1 << 14 // all of it is copied each time
)

// New makes a state in which no script is loaded. Close it in the end.
func New(out io.Writer) *VM {
	L := glua.NewState(glua.Options{SkipOpenLibs: true, RegistryMaxSize: maxRegistry, RegistryGrowStep: registryStep})
	v := &VM{L: L, Out: out, texts: map[string][]string{}, strict: map[*glua.LTable]*glua.LTable{},
		asked: map[string]map[Use]bool{}}
	v.openLibraries()
	v.valueTypes()
	return v
}

// Close releases the state.
func (v *VM) Close() { v.L.Close() }

// Load runs a script and returns its first result. name stands in messages.
func (v *VM) Load(name, source string) (glua.LValue, error) {
	chunk, err := v.function(name, source)
	if err != nil {
		return nil, err
	}
	return v.Call(topLevel, chunk)
}

const topLevel = "the top level"

// function makes a function of the text of a file.
func (v *VM) function(name, source string) (*glua.LFunction, error) {
	v.texts[name] = strings.Split(source, "\n")
	proto, err := compile(name, source)
	if err != nil {
		return nil, err
	}
	return v.L.NewFunctionFromProto(proto), nil
}

// Call calls a function of the script, which errors name as entry, and returns its first result.
func (v *VM) Call(entry string, fn *glua.LFunction, args ...glua.LValue) (glua.LValue, error) {
	defer func(outer string) { v.entry = outer }(v.entry)
	v.entry = entry
	if err := v.L.CallByParam(glua.P{Fn: fn, NRet: 1, Protect: true}, args...); err != nil {
		return nil, v.Fault(err)
	}
	result := v.L.Get(-1)
	v.L.Pop(1)
	return result, nil
}

// Seed makes math.random begin anew.
func (v *VM) Seed(n uint64) { v.random.seed(n) }

// openLibraries opens the sandbox.
func (v *VM) openLibraries() {
	for _, lib := range []struct {
		name string
		open glua.LGFunction
	}{
		{glua.BaseLibName, glua.OpenBase}, {glua.TabLibName, glua.OpenTable}, {glua.StringLibName, glua.OpenString},
		{glua.MathLibName, glua.OpenMath}, {glua.CoroutineLibName, glua.OpenCoroutine},
	} {
		v.L.Push(v.L.NewFunction(lib.open))
		v.L.Push(glua.LString(lib.name))
		v.L.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "require", "module", "collectgarbage", "newproxy",
		"_printregs"} {
		v.L.SetGlobal(name, glua.LNil)
	}
	v.L.SetGlobal("print", v.L.NewFunction(v.print))
	v.random = openRandom(v.L)
	mendLibrary(v.L)
	v.L.GetGlobal(glua.StringLibName).(*glua.LTable).RawSetString("rep", v.Function(stringRep))
	for _, name := range []string{glua.TabLibName, glua.StringLibName, glua.MathLibName, glua.CoroutineLibName} {
		v.StrictGlobal(name, v.L.GetGlobal(name).(*glua.LTable))
	}
}

func (v *VM) print(L *glua.LState) int {
	var parts []string
	for i := 1; i <= L.GetTop(); i++ {
		parts = append(parts, L.ToStringMeta(L.Get(i)).String())
	}
	// One write, so that the lines of ranks do not mix. What a script prints must not command a terminal.
	io.WriteString(v.Out, plaintext.Text(strings.Join(parts, "\t")+"\n"))
	return 0
}

// Functions makes a table of Lua functions.
func (v *VM) Functions(list map[string]Function) *glua.LTable {
	t := v.L.CreateTable(0, len(list))
	for name, f := range list {
		t.RawSetString(name, v.Function(f))
	}
	return t
}

// Function makes a Lua function that raises f's error at the calling line.
func (v *VM) Function(f Function) *glua.LFunction {
	return v.L.NewFunction(func(L *glua.LState) int {
		n, err := f.Guarded(L)
		if err != nil {
			v.raise(L, err)
		}
		return n
	})
}

// raise throws a Go error through Lua, where pcall may catch it as a string.
func (v *VM) raise(L *glua.LState, err error) {
	err = Locate(L, err)
	v.raised = &scriptFault{err: err, text: err.Error()}
	L.Error(glua.LString(v.raised.text), 0)
}

// Fault turns what a protected call returned into the user's error. One
// that Go code raised has its kind and hint again.
func (v *VM) Fault(err error) error {
	api, ok := errors.AsType[*glua.ApiError](err)
	if !ok {
		return fault.New(fault.Script, "%w", err)
	}
	object, isText := api.Object.(glua.LString)
	switch {
	case isText && v.raised != nil && v.raised.text == string(object):
		err = v.raised.err
	case isText:
		err = fault.New(fault.Script, "%s", v.explain(string(object)))
	default:
		what, place := Describe(api.Object), "a script"
		if api.Object == glua.LNil {
			what = "nil"
		}
		if frames := v.frames(api.StackTrace); len(frames) > 0 {
			place, _, _ = strings.Cut(frames[0], ": in ")
		}
		err = fault.New(fault.Script, "%s: error was called with %s", place, what)
	}
	return v.traced(err, api.StackTrace)
}

// NewType makes the metatable of a type of objects. Scripts cannot reach it.
func (v *VM) NewType(name string, metamethods map[string]Function) *glua.LTable {
	mt := v.L.NewTypeMetatable(name)
	for event, f := range metamethods {
		mt.RawSetString(event, v.Function(f))
	}
	mt.RawSetString("__metatable", glua.LString(name))
	return mt
}

// Class describes the objects of a type that scripts use by methods: object:method().
type Class[T any] struct {
	Type    string // of the userdata, as Lua's metatables name it
	Name    string // in messages about a member that does not exist: "a NAME has no ..."
	What    string // in messages about another value in the place of an object
	Methods map[string]Function
	Instead map[string]string // what there is in the place of a member that others may look for
	// Field returns a member that is no method; nil where there is none.
	Field func(L *glua.LState, object T, key glua.LValue) (glua.LValue, error)
	// Meta are metamethods other than __index.
	Meta map[string]Function
}

// Open makes the class's type. A member that does not exist is a mistake, not nil.
func (c Class[T]) Open(v *VM) {
	methods := v.Functions(c.Methods)
	index := On(c.What, func(L *glua.LState, object T) (int, error) {
		if c.Field != nil {
			if field, err := c.Field(L, object, L.Get(2)); err != nil {
				return 0, err
			} else if field != nil {
				return Return(L, field)
			}
		}
		name := L.Get(2).String()
		method := methods.RawGetString(name)
		if method == glua.LNil {
			instead := c.Instead[name]
			if instead != "" {
				instead = ": " + instead
			}
			return 0, fault.New(fault.Script, "a %s has no %s%s", c.Name, Quoted(name), instead)
		}
		return Return(L, method)
	})
	mt := v.NewType(c.Type, c.Meta)
	mt.RawSetString("__index", v.Function(index))
	mt.RawSetString("methods", methods) // for tests, which compare them with the documentation
}

// valueTypes makes the types of values that Lua has no word for.
func (v *VM) valueTypes() {
	v.NewType(emptyMapTypeName, nil)
	text := On("a large whole number", func(L *glua.LState, n int64) (int, error) {
		return Return(L, glua.LString(fmt.Sprint(n)))
	})
	v.NewType(integerTypeName, map[string]Function{"__tostring": text})
}
