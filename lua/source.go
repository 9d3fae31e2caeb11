package lua

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"perigee/internal/fault"
	"perigee/internal/size"
)

// A scenario may come from anybody. What its text may ask for is bounded before it is compiled: the compiler calls
// itself for everything that is inside of something else, and Go ends the process where its stack becomes too large.
const (
	// MaxSource bounds the text of a scenario in bytes.
	MaxSource = 256 << 10
	// maxNesting bounds how deep statements and expressions stand inside each other. Each operator of a chain such
	// as a..b..c is one level.
	maxNesting = 1000
	// What the numbers in compiled instructions hold: positional elements of a list, instructions over which a jump
	// leads, and variables of the functions around one. The compiler goes on where they do not suffice, and what it
	// makes then loses elements, or jumps anywhere.
	maxElements     = 511 * 50
	maxInstructions = 1<<17 - 1
	maxUpvalues     = 255
)

// compile makes a function of the text of a script.
func (r *Runtime) compile(L *glua.LState, name, source string) (*glua.LFunction, error) {
	if len(source) > MaxSource {
		return nil, fault.New(fault.Script, "%s: wanted at most %s of text, got %s", name, size.Binary(MaxSource),
			size.Decimal(int64(len(source)))).
			WithHint("large data belongs into a file that config.load or matrix.load reads")
	}
	if err := checkBrackets(name, source); err != nil {
		return nil, err
	}
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, fault.New(fault.Script, "%s", syntaxError(name, err))
	}
	if err := checkTree(name, chunk); err != nil {
		return nil, err
	}
	proto, err := glua.Compile(boundConcat(chunk), name)
	if err != nil {
		return nil, fault.New(fault.Script, "%s", syntaxError(name, err))
	}
	if err := checkSize(name, proto); err != nil {
		return nil, err
	}
	L.Push(L.NewFunctionFromProto(proto))
	L.Push(r.concat)
	L.Call(1, 1)
	f := L.Get(-1).(*glua.LFunction)
	L.Pop(1)
	return f, nil
}

func tooDeep(name string, line int) error {
	return fault.New(fault.Script, "%s:%d: wanted at most %d levels of expressions and statements inside each other, got more", name, line, maxNesting).
		WithHint("divide it: put parts into local variables")
}

// checkBrackets bounds what the parser keeps of expressions that have not ended: runs of opening brackets and of
// operators that stand in front.
func checkBrackets(name, source string) error {
	line, run := 1, 0
	for i := range len(source) {
		switch c := source[i]; {
		case c == '\n':
			line++
		case c == ' ' || c == '\t' || c == '\r':
		case strings.IndexByte("({[#", c) >= 0:
			if run++; run > maxNesting {
				return tooDeep(name, line)
			}
		default:
			run = 0
		}
	}
	return nil
}

// node is a part of a syntax tree and its depth.
type node struct {
	v     reflect.Value
	depth int
	line  int
}

// checkTree bounds the depth of a syntax tree, and the elements of the lists in it, without calling itself.
func checkTree(name string, chunk []ast.Stmt) error {
	return walk(chunk, func(n node) error {
		if n.depth > maxNesting {
			return tooDeep(name, n.line)
		}
		if n.v.Kind() != reflect.Pointer {
			return nil
		}
		table, ok := n.v.Interface().(*ast.TableExpr)
		if !ok {
			return nil
		}
		elements := 0
		for _, f := range table.Fields {
			if f.Key == nil {
				elements++
			}
		}
		if elements > maxElements {
			return fault.New(fault.Script, "%s:%d: wanted at most %d elements in the text of a list, got %d", name,
				max(n.line, table.Line()), maxElements, elements).
				WithHint("let a file that config.load reads hold them, or make the list of several")
		}
		return nil
	})
}

// checkSize bounds what the instructions of a function and of those in it can count.
func checkSize(name string, f *glua.FunctionProto) error {
	for what, count := range map[string][2]int{
		"instructions":                         {len(f.Code), maxInstructions},
		"variables of the functions around it": {len(f.DbgUpvalues), maxUpvalues},
	} {
		if count[0] > count[1] {
			return fault.New(fault.Script, "%s:%d: a function has %d %s, wanted at most %d", name, max(f.LineDefined, 1),
				count[0], what, count[1]).WithHint("divide it into several functions")
		}
	}
	for _, inner := range f.FunctionPrototypes {
		if err := checkSize(name, inner); err != nil {
			return err
		}
	}
	return nil
}

// replaceConcat puts calls in the place of chains of "..".
func replaceConcat(chunk []ast.Stmt) {
	walk(chunk, func(n node) error {
		if n.v.Kind() == reflect.Interface && !n.v.IsNil() {
			if chain, ok := n.v.Interface().(*ast.StringConcatOpExpr); ok {
				n.v.Set(reflect.ValueOf(concatCall(chain)))
			}
		}
		return nil
	})
}

// walk visits a syntax tree from the outside to the inside.
func walk(chunk []ast.Stmt, visit func(n node) error) error {
	open := []node{{reflect.ValueOf(chunk), 0, 1}}
	for len(open) > 0 {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if err := visit(n); err != nil {
			return err
		}
		switch n.v.Kind() {
		case reflect.Interface:
			if !n.v.IsNil() {
				open = append(open, node{n.v.Elem(), n.depth, n.line})
			}
		case reflect.Pointer:
			if n.v.IsNil() {
				continue
			}
			depth := n.depth
			if p, ok := n.v.Interface().(ast.PositionHolder); ok {
				n.line = max(n.line, p.Line())
				depth++
			}
			open = append(open, node{n.v.Elem(), depth, n.line})
		case reflect.Slice:
			for i := range n.v.Len() {
				open = append(open, node{n.v.Index(i), n.depth, n.line})
			}
		case reflect.Struct:
			for i := range n.v.NumField() {
				if n.v.Type().Field(i).IsExported() {
					open = append(open, node{n.v.Field(i), n.depth, n.line})
				}
			}
		}
	}
	return nil
}

// maxArray bounds the keys of a table that are kept in a list: setting one fills the list up to it, which no watch of
// the memory interrupts. Larger ones are kept as other keys are.
const maxArray = 1 << 24

func init() { glua.MaxArrayIndex = maxArray + 1 }

// maxResumes bounds how many coroutines may have resumed each other: each takes part of Go's stack.
const maxResumes = 190 // as in Lua itself

// boundCoroutines makes resume and wrap count how deep coroutines resume each other.
func (r *Runtime) boundCoroutines() {
	lib := r.L.GetGlobal(glua.CoroutineLibName).(*glua.LTable)
	bounded := func(f glua.LGFunction) glua.LGFunction {
		return func(L *glua.LState) int {
			if r.resumes++; r.resumes > maxResumes {
				r.resumes--
				L.RaiseError("%s", fmt.Sprintf("coroutines resume each other more than %d deep", maxResumes))
			}
			defer func() { r.resumes-- }()
			return f(L)
		}
	}
	resume := lib.RawGetString("resume").(*glua.LFunction).GFunction
	create := lib.RawGetString("create").(*glua.LFunction).GFunction
	wrap := lib.RawGetString("wrap").(*glua.LFunction).GFunction
	yield := lib.RawGetString("yield").(*glua.LFunction).GFunction
	lib.RawSetString("yield", r.L.NewFunction(func(L *glua.LState) int {
		if L.Parent != nil && calledByGo() {
			L.RaiseError("attempt to yield across pcall, a metamethod, an iterator, or a function that the library calls")
		}
		return yield(L)
	}))
	lib.RawSetString("resume", r.L.NewFunction(bounded(resume)))
	body := r.coroutineBody()
	lib.RawSetString("create", r.L.NewFunction(func(L *glua.LState) int {
		body(L)
		return create(L)
	}))
	lib.RawSetString("wrap", r.L.NewFunction(func(L *glua.LState) int {
		body(L)
		n := wrap(L)
		f := L.Get(-1).(*glua.LFunction)
		L.Pop(1)
		var upvalues []glua.LValue
		for _, u := range f.Upvalues {
			upvalues = append(upvalues, u.Value())
		}
		L.Push(L.NewClosure(bounded(f.GFunction), upvalues...))
		return n
	}))
}

// coroutineBody returns what puts another function in the place of the argument that is to run as a coroutine. The
// interpreter loses track of a coroutine whose outermost function ends with a call of yield, or is no Lua function.
func (r *Runtime) coroutineBody() func(L *glua.LState) {
	const source = `local first = select return function(f) return function(...) return first(1, f(...)) end end`
	if err := r.L.DoString(source); err != nil {
		panic(err) // part of the binary, and every test runs it
	}
	around := r.L.Get(-1)
	r.L.Pop(1)
	return func(L *glua.LState) {
		f := L.CheckFunction(1)
		L.Push(around)
		L.Push(f)
		L.Call(1, 1)
		L.Replace(1, L.Get(-1))
		L.Pop(1)
	}
}

// calledByGo reports whether the function that calls it was called, within the coroutine that runs, by Go code: that is
// lost when the coroutine yields, and so is what it was about to do.
func calledByGo() bool {
	var pcs [16]uintptr // the interpreter needs five for a call from Lua
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".threadRun"):
			return false
		case strings.HasSuffix(f.Function, ").callR") || !more:
			return true
		}
	}
}

// boundLoad makes load and loadstring compile as [Load] does.
func (r *Runtime) boundLoad() {
	compiled := func(L *glua.LState, source, name string) int {
		f, err := r.compile(L, name, source)
		if err != nil {
			L.Push(glua.LNil)
			L.Push(glua.LString(err.Error()))
			return 2
		}
		L.Push(f)
		return 1
	}
	r.L.SetGlobal("loadstring", r.L.NewFunction(func(L *glua.LState) int {
		return compiled(L, L.CheckString(1), L.OptString(2, "<string>"))
	}))
	r.L.SetGlobal("load", r.L.NewFunction(func(L *glua.LState) int {
		if text, ok := L.Get(1).(glua.LString); ok {
			return compiled(L, string(text), L.OptString(2, "<string>"))
		}
		f := L.CheckFunction(1)
		var source strings.Builder
		for source.Len() <= MaxSource {
			L.Push(f)
			L.Call(0, 1)
			piece := L.Get(-1)
			L.Pop(1)
			if piece.String() == "" || piece == glua.LNil {
				break
			}
			if !glua.LVCanConvToString(piece) {
				L.RaiseError("load: the function returned a %s, want a string", piece.Type())
			}
			source.WriteString(piece.String())
		}
		return compiled(L, source.String(), L.OptString(2, "?"))
	}))
}
