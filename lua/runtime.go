// Package lua runs scenarios: Lua scripts that say which traffic flows between
// the ranks of a world.
//
// A script returns one table that describes it:
//
//	about    one line for people
//	options  what it takes from the command line, a list made by the options module
//	ranks    how many ranks it wants if nobody says: a number, or a function of the options
//	run      the function that every rank runs, with the options as its argument
//
// Loading a script runs nothing but its top level, so the same script serves for
// --help, for the launcher's question how many ranks to start, and at the ranks.
//
// Each rank has its own Lua state; nothing is shared. Scripts see the modules of
// this package (one Go file each) and Lua's own base, string, table, math and
// coroutine libraries without what reaches files, processes or the clock.
// math.random is seeded by --seed, so that it gives the same numbers at all ranks.
package lua

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic"
	"perigee/nixl"
	"perigee/spmd"
)

// Env is what a scenario needs from its rank. Before Begin, as in the launcher,
// there is none: then only options, config and matrix work.
type Env struct {
	World *spmd.World
	// OpenEngine is called when the first transfer is prepared. note says what
	// the user should know of the choice.
	OpenEngine func() (engine nixl.Engine, note string, err error)
	// GPU reports whether this rank has a GPU, and which.
	GPU func() (ordinal int, ok bool)
	// Doc is the result at rank 0, nil elsewhere. Checkpoint saves it.
	Doc        *result.Document
	Checkpoint func()
	Out        io.Writer // what print and tables write to
	Progress   io.Writer // a terminal for progress bars, or nil
	Seed       uint64
	AllowIO    bool // let the script write any file
}

// Runtime is one Lua state with a loaded scenario.
type Runtime struct {
	Scenario
	L   *glua.LState
	env Env

	opened     *traffic.Session
	defaultMem *nixl.Mem
	recorded   map[runKey]int // runs already in the result
	outputs    map[string]bool
}

// runKey counts the runs of a plan in a phase.
type runKey struct {
	plan  int
	phase string
}

// Scenario is what a script says of itself.
type Scenario struct {
	Name    string
	About   string
	Options []Option

	ranks glua.LValue
	run   *glua.LFunction
}

// Load runs the top level of a script, which may print to out. name stands in
// messages. Close the runtime in the end.
func Load(name, source string, out io.Writer) (*Runtime, error) {
	r := &Runtime{env: Env{Out: out}, recorded: map[runKey]int{}, outputs: map[string]bool{}}
	r.L = glua.NewState(glua.Options{SkipOpenLibs: true, IncludeGoStackTrace: false})
	r.openLibraries()
	if err := r.load(name, source); err != nil {
		r.L.Close()
		return nil, err
	}
	return r, nil
}

// Begin makes the scenario part of a world.
func (r *Runtime) Begin(env Env) {
	r.env = env
	r.seedRandom()
	r.worldFields()
}

// Close releases the state and, if there is one, the session.
func (r *Runtime) Close() error {
	r.L.Close()
	if r.opened != nil {
		return r.opened.Close()
	}
	return nil
}

func (r *Runtime) load(name, source string) error {
	fn, err := r.L.Load(strings.NewReader(source), name)
	if err != nil {
		return fault.New(fault.Script, "%s", syntaxError(name, err))
	}
	r.L.Push(fn)
	if err := r.L.PCall(0, 1, nil); err != nil {
		return scriptError(err)
	}
	top := r.L.Get(-1)
	r.L.Pop(1)
	return r.describe(name, top)
}

// describe reads the table that a script has returned.
func (r *Runtime) describe(name string, v glua.LValue) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Script, "%s: %s", name, fmt.Sprintf(format, args...)).
			WithHint("a scenario returns a table with about, options, ranks and run; see docs/lua.md")
	}
	t, ok := v.(*glua.LTable)
	if !ok {
		return bad("the script returned %s, want a table", v.Type())
	}
	r.Scenario = Scenario{Name: name, ranks: glua.LNil}
	var err error
	t.ForEach(func(k, v glua.LValue) {
		if err != nil {
			return
		}
		switch k.String() {
		case "about":
			r.About = v.String()
		case "options":
			r.Options, err = optionsFrom(v)
			if err != nil {
				err = bad("options: %v", err)
			}
		case "ranks":
			if v.Type() != glua.LTNumber && v.Type() != glua.LTFunction {
				err = bad("ranks is a %s, want a number or a function", v.Type())
			}
			r.ranks = v
		case "run":
			fn, ok := v.(*glua.LFunction)
			if !ok {
				err = bad("run is a %s, want a function", v.Type())
			}
			r.run = fn
		default:
			err = bad("the scenario has an unknown field %q", k.String())
		}
	})
	if err == nil && r.run == nil {
		err = bad("the scenario has no function run")
	}
	return err
}

// Ranks asks the scenario how many ranks it wants with these options; 0 means
// that it does not say.
func (r *Runtime) Ranks(options map[string]any) (int, error) {
	v := r.ranks
	if fn, ok := v.(*glua.LFunction); ok {
		if err := r.L.CallByParam(glua.P{Fn: fn, NRet: 1, Protect: true}, r.toLua(options)); err != nil {
			return 0, scriptError(err)
		}
		v = r.L.Get(-1)
		r.L.Pop(1)
	}
	if v == glua.LNil {
		return 0, nil
	}
	n, ok := v.(glua.LNumber)
	if !ok || n != glua.LNumber(int(n)) || n < 1 {
		return 0, fault.New(fault.Script, "%s: ranks is %s, want a whole number of at least 1", r.Name, v)
	}
	return int(n), nil
}

// Run runs the scenario at this rank, after Begin.
func (r *Runtime) Run(options map[string]any) error {
	for _, path := range r.Outputs(options) {
		r.outputs[path] = true
	}
	if err := r.L.CallByParam(glua.P{Fn: r.run, NRet: 0, Protect: true}, r.toLua(options)); err != nil {
		return scriptError(err)
	}
	return nil
}

// openLibraries opens the sandbox.
func (r *Runtime) openLibraries() {
	for _, lib := range []struct {
		name string
		open glua.LGFunction
	}{
		{glua.BaseLibName, glua.OpenBase}, {glua.TabLibName, glua.OpenTable}, {glua.StringLibName, glua.OpenString},
		{glua.MathLibName, glua.OpenMath}, {glua.CoroutineLibName, glua.OpenCoroutine},
	} {
		r.L.Push(r.L.NewFunction(lib.open))
		r.L.Push(glua.LString(lib.name))
		r.L.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "require", "module", "collectgarbage", "newproxy", "_printregs"} {
		r.L.SetGlobal(name, glua.LNil)
	}
	r.L.SetGlobal("print", r.L.NewFunction(r.print))
	r.seedRandom()
	for name, functions := range r.modules() {
		t := r.L.NewTable()
		for fname, f := range functions {
			t.RawSetString(fname, r.function(f))
		}
		r.L.SetGlobal(name, t)
	}
	r.resultFields()
	r.matrixTypes()
	r.planType()
	r.barType()
	if err := r.L.DoString(prelude); err != nil {
		panic(err) // part of the binary, and every test runs it
	}
}

// prelude is what is easier said in Lua: the module patterns.
//
//go:embed prelude.lua
var prelude string

// function is what a module offers to scripts. An error it returns becomes
// an error in the script.
type function func(L *glua.LState) (results int, err error)

// modules lists every function that scripts can call.
func (r *Runtime) modules() map[string]map[string]function {
	return map[string]map[string]function{
		"options":  optionsModule,
		"config":   r.configModule(),
		"matrix":   r.matrixModule(),
		"world":    r.worldModule(),
		"clock":    r.clockModule(),
		"transfer": r.transferModule(),
		"result":   r.resultModule(),
	}
}

// function makes a Lua function that raises f's error at the calling line.
func (r *Runtime) function(f function) *glua.LFunction {
	return r.L.NewFunction(func(L *glua.LState) int {
		n, err := f(L)
		if err != nil {
			raise(L, err)
		}
		return n
	})
}

// raise throws a Go error through Lua, where pcall may catch it.
func raise(L *glua.LState, err error) {
	ud := L.NewUserData()
	ud.Value = &thrown{err: err, where: strings.TrimSuffix(L.Where(1), " ")}
	mt := L.NewTypeMetatable("perigee.error")
	mt.RawSetString("__tostring", L.NewFunction(func(L *glua.LState) int {
		L.Push(glua.LString(L.CheckUserData(1).Value.(*thrown).Error()))
		return 1
	}))
	L.SetMetatable(ud, mt)
	L.Error(ud, 0)
}

// thrown is a Go error on its way through Lua.
type thrown struct {
	err   error
	where string // "file:line:"
}

func (t *thrown) Error() string {
	if fault.KindOf(t.err) == fault.Script || fault.KindOf(t.err) == fault.Internal {
		return t.where + " " + t.err.Error()
	}
	return t.err.Error()
}

func (t *thrown) Unwrap() error { return t.err }

// scriptError turns what a protected call returned into the user's error.
func scriptError(err error) error {
	api, ok := errors.AsType[*glua.ApiError](err)
	if !ok {
		return fault.New(fault.Script, "%w", err)
	}
	if ud, ok := api.Object.(*glua.LUserData); ok {
		if t, ok := ud.Value.(*thrown); ok {
			return blame(t)
		}
	}
	return fault.New(fault.Script, "%s", api.Object.String())
}

// blame gives the error a kind, and a script's own mistakes their line.
func blame(t *thrown) error {
	kind := fault.KindOf(t.err)
	if kind == fault.Internal {
		kind = fault.Script
	}
	if kind != fault.Script {
		return t.err
	}
	return fault.New(kind, "%w", t).WithHint("%s", fault.HintOf(t.err))
}

// syntaxError words the parser's complaint as file:line: what.
func syntaxError(name string, err error) string {
	text := strings.TrimSpace(err.Error())
	if api, ok := errors.AsType[*glua.ApiError](err); ok {
		text = strings.TrimSpace(api.Object.String())
	}
	text = strings.Join(strings.Fields(text), " ")
	// The parser says "NAME line:L(column:C) near 'X': syntax error".
	if rest, ok := strings.CutPrefix(text, name+" line:"); ok {
		line, rest, _ := strings.Cut(rest, "(")
		_, rest, _ = strings.Cut(rest, ")")
		return fmt.Sprintf("%s:%s: %s", name, line, strings.TrimSpace(rest))
	}
	return name + ": " + text
}

func (r *Runtime) print(L *glua.LState) int {
	var parts []string
	for i := 1; i <= L.GetTop(); i++ {
		parts = append(parts, L.ToStringMeta(L.Get(i)).String())
	}
	// One write, so that the lines of ranks do not mix.
	io.WriteString(r.env.Out, strings.Join(parts, "\t")+"\n")
	return 0
}

// seedRandom replaces math.random by one that gives the same numbers at all
// ranks and in every run with the same --seed.
func (r *Runtime) seedRandom() {
	source := rand.New(rand.NewPCG(r.env.Seed, 0))
	mathTable := r.L.GetGlobal("math").(*glua.LTable)
	mathTable.RawSetString("random", r.L.NewFunction(func(L *glua.LState) int {
		switch L.GetTop() {
		case 0:
			L.Push(glua.LNumber(source.Float64()))
			return 1
		case 1:
			L.Push(glua.LNumber(1 + pick(L, source, 1, L.CheckInt64(1))))
		default:
			low := L.CheckInt64(1)
			L.Push(glua.LNumber(low + pick(L, source, low, L.CheckInt64(2))))
		}
		return 1
	}))
	mathTable.RawSetString("randomseed", r.L.NewFunction(func(L *glua.LState) int {
		source = rand.New(rand.NewPCG(uint64(L.CheckInt64(1)), 0))
		return 0
	}))
}

// pick draws from 0 to high-low.
func pick(L *glua.LState, source *rand.Rand, low, high int64) int64 {
	if high < low || high-low < 0 || high-low == 1<<63-1 {
		L.RaiseError("random: the interval from %d to %d is empty or too wide", low, high)
	}
	return source.Int64N(high - low + 1)
}

// world returns the world, which the launcher does not have.
func (r *Runtime) world() (*spmd.World, error) {
	if r.env.World == nil {
		return nil, fault.New(fault.Script, "there is no world yet: only the function run has one")
	}
	return r.env.World, nil
}

// atRankZero runs read at rank 0 and gives its data to all ranks. Without a
// world it just reads.
func (r *Runtime) atRankZero(read func() ([]byte, error)) ([]byte, error) {
	w := r.env.World
	if w == nil {
		return read()
	}
	var data []byte
	if w.Rank() == 0 {
		var err error
		if data, err = read(); err != nil {
			return nil, err
		}
	}
	return w.All().Broadcast(0, data)
}

// context ends when the job has failed.
func (r *Runtime) context() context.Context {
	if r.env.World == nil {
		return context.Background()
	}
	return r.env.World.Context()
}

// mayWrite refuses files that the user has not named.
func (r *Runtime) mayWrite(path string) error {
	if r.env.AllowIO || r.outputs[path] {
		return nil
	}
	return fault.New(fault.Script, "the scenario may not write %s", path).
		WithHint("declare an option of type output and let the user name the file, or run with --allow-io")
}
