// Package lua runs scenarios: Lua scripts that say which traffic flows between
// the ranks of a world.
//
// A script returns one table that describes it:
//
//	about       one line for people
//	options     what it takes from the command line, a list made by the options module
//	ranks       how many ranks it wants if the user does not say: a number, or a function of the options
//	metrics     its own figures, for thresholds and comparisons
//	thresholds  limits on what it measures: a list of texts, or a function of the options that returns one
//	run         the function that every rank runs, with the options as its argument
//
// Loading a script runs nothing but its top level, so the same script serves for
// --help, for the launcher's question how many ranks to start, and at the ranks.
//
// Each rank has its own Lua state; nothing is shared. Scripts see the modules of
// this package (one Go type each, listed in module.go) and Lua's own base, string, table, math and
// coroutine libraries without what reaches files, processes or the clock.
// math.random is seeded by --seed, so that it gives the same numbers at all ranks.
//
// An error in a function that concerns other ranks (see collective) ends the
// job at once, whether or not the script catches it: the others wait for this rank.
package lua

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/fault"
	"perigee/internal/metric"
	"perigee/internal/pack"
	"perigee/internal/plaintext"
	"perigee/internal/result"
	"perigee/spmd"
)

// Env holds what a scenario needs from its rank. Before Begin, as in the launcher, the experiment has no world:
// then only options, config and matrix work.
type Env struct {
	// Experiment has the world, the result at rank 0, and the session; Out is what print and tables write to.
	*experiment.Experiment
	// Repeat is, at rank 0, the result of which the run is a repetition: files that it
	// holds are not read again. nil where there is none.
	Repeat   *result.Document
	Progress io.Writer // a terminal for progress bars, or nil
	// ProgressLines is what lines of progress are written to where there is no terminal, or nil.
	ProgressLines io.Writer
	Width         int // characters in a line of Out, if that is a terminal, or 0
	// Exit ends this rank's process, which has departed from the world. nil where a process has several ranks.
	Exit func()
}

// Runtime is one Lua state with a loaded scenario.
type Runtime struct {
	Scenario
	L   *glua.LState
	env Env

	random  *rand.Rand
	modules []named
	file    string   // name of the script
	lines   []string // of its text, for errors
	files   files
	planes  []*luaPlane  // open ones, of the module moe
	opened  int          // planes so far
	raised  *scriptFault // the last error that was raised for Go code
}

// Scenario holds the members of the table that a script returns.
type Scenario struct {
	Name    string
	About   string
	Options []Option
	Metrics []result.MetricDef // its own
	// Thresholds are those that the script has set.
	Thresholds []metric.Threshold

	ranks  glua.LValue
	limits glua.LValue // thresholds that depend on the options
	run    *glua.LFunction
}

// maxRegistry is how many values Lua functions may hold at a time. The room grows when
// it is needed.
const (
	maxRegistry  = 1 << 20
	registryStep = 1 << 14 // all of it is copied each time
)

// Load runs the top level of a script, which may print to out. name stands in
// messages. Close the runtime in the end.
func Load(name, source string, out io.Writer) (*Runtime, error) {
	r := newRuntime(out)
	if err := r.load(name, source); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// newRuntime makes a state in which no script is loaded.
func newRuntime(out io.Writer) *Runtime {
	blank := &experiment.Experiment{Config: experiment.Config{Out: out}}
	r := &Runtime{env: Env{Experiment: blank}, files: newFiles()}
	r.L = glua.NewState(glua.Options{SkipOpenLibs: true, RegistryMaxSize: maxRegistry, RegistryGrowStep: registryStep})
	r.openLibraries()
	return r
}

// Begin makes the scenario part of a world.
func (r *Runtime) Begin(env Env) {
	r.env = env
	r.seed(env.Seed)
	for _, m := range r.modules {
		m.begin()
	}
}

// Close releases the state and, if there is one, the session.
func (r *Runtime) Close() error {
	r.L.Close()
	var errs []error
	for _, m := range slices.Backward(r.modules) {
		errs = append(errs, m.close())
	}
	return errors.Join(append(errs, r.env.Experiment.Close())...)
}

func (r *Runtime) load(name, source string) error {
	r.file, r.lines = name, strings.Split(source, "\n")
	chunk, err := compile(r.L, name, source)
	if err != nil {
		return err
	}
	top, err := r.call(chunk)
	if err != nil {
		return err
	}
	return r.describe(name, top)
}

// describe reads the table that a script has returned.
func (r *Runtime) describe(name string, v glua.LValue) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Script, "%s: "+format, append([]any{name}, args...)...).
			WithHint("a scenario returns a table with about, options, ranks and run; see docs/lua.md")
	}
	t, ok := v.(*glua.LTable)
	if !ok {
		return bad("the script returned %s, want a table", v.Type())
	}
	r.Scenario = Scenario{Name: name, ranks: glua.LNil, Thresholds: r.Thresholds}
	f := newFields("the scenario", t)
	r.About, r.ranks, r.limits = f.text("about", ""), f.get("ranks"), f.get("thresholds")
	if k := r.limits.Type(); k != glua.LTNil && k != glua.LTTable && k != glua.LTFunction {
		f.fail("thresholds", "a list or a function", r.limits)
	}
	if k := r.ranks.Type(); k != glua.LTNil && k != glua.LTNumber && k != glua.LTFunction {
		f.fail("ranks", "a number or a function", r.ranks)
	}
	if f.get("run") == glua.LNil {
		return bad("the scenario has no function run")
	}
	if r.run, ok = f.get("run").(*glua.LFunction); !ok {
		f.fail("run", "a function", f.get("run"))
	}
	list, own := f.table("options"), f.table("metrics")
	if err := f.err(); err != nil {
		return bad("%w", err)
	}
	var err error
	if r.Options, err = optionsFrom(list); err != nil {
		return bad("options: %w", err)
	}
	if r.Metrics, err = metricsFrom(own); err != nil {
		return bad("metrics: %w", err)
	}
	for _, t := range r.Thresholds {
		if err := metric.Check(t.Metric, r.Metrics); err != nil {
			return fault.New(fault.Script, "%s: %w", t.From, err)
		}
	}
	return nil
}

// Ranks asks the scenario how many ranks it wants with these options; 0 means
// that it does not say.
func (r *Runtime) Ranks(options map[string]any) (int, error) {
	v, err := r.valueFor(r.ranks, options)
	if err != nil {
		return 0, err
	}
	if v == glua.LNil {
		return 0, nil
	}
	n, err := integerFrom(v, 1)
	if err != nil {
		return 0, fault.New(fault.Script, "%s: ranks is %w", r.Name, err)
	}
	return int(n), nil
}

// valueFor is the value of a field of the scenario, which may be a function of the options.
func (r *Runtime) valueFor(v glua.LValue, options map[string]any) (glua.LValue, error) {
	if fn, ok := v.(*glua.LFunction); ok {
		return r.call(fn, toLua(r.L, options))
	}
	return v, nil
}

// Run runs the scenario at this rank, after Begin.
func (r *Runtime) Run(options map[string]any) error {
	_, err := r.call(r.run, toLua(r.L, options))
	return err
}

// call calls a function of the script and returns its first result.
func (r *Runtime) call(fn *glua.LFunction, args ...glua.LValue) (glua.LValue, error) {
	if err := r.L.CallByParam(glua.P{Fn: fn, NRet: 1, Protect: true}, args...); err != nil {
		return nil, r.scriptError(err)
	}
	v := r.L.Get(-1)
	r.L.Pop(1)
	return v, nil
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
	for _, name := range []string{"dofile", "loadfile", "require", "module", "collectgarbage", "newproxy",
		"_printregs"} {
		r.L.SetGlobal(name, glua.LNil)
	}
	r.L.SetGlobal("print", r.L.NewFunction(r.print))
	r.openRandom()
	r.mendLibrary()
	r.valueTypes()
	r.modules = newModules(r)
	for _, m := range r.modules {
		r.L.SetGlobal(m.name, r.functions(m.exports()))
		m.open()
	}
	r.L.SetGlobal("threshold", r.function(r.threshold))
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

// functions makes a table of Lua functions.
func (r *Runtime) functions(list map[string]function) *glua.LTable {
	t := r.L.CreateTable(0, len(list))
	for name, f := range list {
		t.RawSetString(name, r.function(f))
	}
	return t
}

// function makes a Lua function that raises f's error at the calling line.
func (r *Runtime) function(f function) *glua.LFunction {
	return r.L.NewFunction(func(L *glua.LState) int {
		n, err := guarded(f, L)
		if err != nil {
			r.raise(L, err)
		}
		return n
	})
}

// collective marks a function that concerns other ranks: they meet in it, or wait
// for what it does. Where there is a world its error ends the job even if the
// script catches it, since the others cannot know that it was caught.
func (r *Runtime) collective(f function) function {
	return r.concerning(func(L *glua.LState) (int, error) {
		if w := r.env.World; w != nil && len(w.Lost()) > 0 {
			return 0, fault.New(fault.Script, "ranks %v have ended in moe.elastic: all ranks cannot do anything together any more",
				w.Lost()).WithHint("let what the others do come before it")
		}
		return f(L)
	})
}

// waiting marks a function that waits and does not touch the result meanwhile.
func (r *Runtime) waiting(f function) function {
	return func(L *glua.LState) (int, error) {
		r.env.Idle(time.Time{})
		defer r.env.Busy()
		return f(L)
	}
}

// concerning is collective for what a world can do some of whose ranks have ended.
func (r *Runtime) concerning(f function) function {
	return func(L *glua.LState) (int, error) {
		n, err := guarded(f, L)
		if err != nil && r.env.World != nil {
			r.env.World.Fail(r.locate(L, err))
		}
		return n, err
	}
}

// guarded calls f. What Lua raises for wrong arguments comes back as an error,
// and so does a panic, which would be a defect of perigee.
func guarded(f function, L *glua.LState) (n int, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *glua.ApiError:
			err = &scriptFault{err: fault.New(fault.Script, "%s", p.Object.String()), placed: true}
		default:
			err = fault.New(fault.Internal, "panic: %v", p).
				WithHint("this is a defect of perigee; please report it with the scenario")
		}
	}()
	return f(L)
}

// scriptFault is an error on its way through Lua, where it is a string.
type scriptFault struct {
	err    error
	text   string // what Lua sees
	placed bool   // err says where in the script it arose
}

func (e *scriptFault) Error() string { return e.err.Error() }

func (e *scriptFault) Unwrap() error { return e.err }

// locate gives a mistake of the script, or a defect of perigee, its place in
// the script. Other errors concern things outside and stay as they are. An
// error without a kind is the script's: it comes from an argument.
func (r *Runtime) locate(L *glua.LState, err error) error {
	if e, ok := errors.AsType[*scriptFault](err); ok && e.placed {
		return e.err
	}
	kind := fault.Script
	if f, ok := errors.AsType[*fault.Error](err); ok {
		kind = f.Kind
	}
	if kind != fault.Script && kind != fault.Internal {
		return err
	}
	return fault.New(kind, "%s%w", place(L), err)
}

// place is the file and line, with a colon, of the innermost Lua function that is being
// called. Between it and the Go function there may be others, such as pcall.
func place(L *glua.LState) string {
	const most = 10
	for level := 1; level < most; level++ {
		if where := L.Where(level); where != "" && !strings.HasPrefix(where, "[G]") {
			return strings.TrimSuffix(where, " ") + " "
		}
	}
	return ""
}

// raise throws a Go error through Lua, where pcall may catch it as a string.
func (r *Runtime) raise(L *glua.LState, err error) {
	err = r.locate(L, err)
	r.raised = &scriptFault{err: err, text: err.Error()}
	L.Error(glua.LString(r.raised.text), 0)
}

// scriptError turns what a protected call returned into the user's error. One
// that Go code raised has its kind and hint again.
func (r *Runtime) scriptError(err error) error {
	api, ok := errors.AsType[*glua.ApiError](err)
	if !ok {
		return fault.New(fault.Script, "%w", err)
	}
	switch v := api.Object.(type) {
	case glua.LString:
		if r.raised != nil && r.raised.text == string(v) {
			return r.raised.err
		}
		return fault.New(fault.Script, "%s", r.explain(string(v)))
	case *glua.LTable, *glua.LUserData, *glua.LFunction:
		return fault.New(fault.Script, "%s: error was called with %s", r.file, describe(v))
	}
	return fault.New(fault.Script, "%s: error was called with %s", r.file, api.Object)
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
	return name + ": " + strings.TrimPrefix(text, name+" ")
}

func (r *Runtime) print(L *glua.LState) int {
	var parts []string
	for i := 1; i <= L.GetTop(); i++ {
		parts = append(parts, L.ToStringMeta(L.Get(i)).String())
	}
	// One write, so that the lines of ranks do not mix. What a script prints must not command a terminal.
	io.WriteString(r.env.Out, plaintext.Text(strings.Join(parts, "\t")+"\n"))
	return 0
}

func (r *Runtime) seed(n uint64) { r.random = rand.New(rand.NewPCG(n, 0)) }

// openRandom replaces math.random by one that gives the same numbers at all
// ranks and in every run with the same --seed.
func (r *Runtime) openRandom() {
	r.seed(0)
	mathTable := r.L.GetGlobal("math").(*glua.LTable)
	mathTable.RawSetString("random", r.L.NewFunction(func(L *glua.LState) int {
		switch L.GetTop() {
		case 0:
			L.Push(glua.LNumber(r.random.Float64()))
			return 1
		case 1:
			L.Push(pick(L, r.random, 1, bound(L, 1)))
		default:
			L.Push(pick(L, r.random, bound(L, 1), bound(L, 2)))
		}
		return 1
	}))
	mathTable.RawSetString("randomseed", r.L.NewFunction(func(L *glua.LState) int {
		r.seed(uint64(L.CheckInt64(1)))
		return 0
	}))
}

// bound is a bound of math.random, without its fraction.
func bound(L *glua.LState, arg int) int64 {
	const most = 1 << 53 // numbers beyond are not all there
	n := float64(L.CheckNumber(arg))
	if !(-most <= n && n <= most) {
		L.ArgError(arg, fmt.Sprintf("wanted a number from -2^53 to 2^53, got %v", n))
	}
	return int64(n)
}

// pick draws from low to high.
func pick(L *glua.LState, source *rand.Rand, low, high int64) glua.LNumber {
	if high < low {
		L.RaiseError("random: the interval from %d to %d is empty", low, high)
	}
	return glua.LNumber(low + source.Int64N(high-low+1))
}

// world returns the world, which the launcher does not have.
func (r *Runtime) world() (*spmd.World, error) {
	if r.env.World == nil {
		return nil, fault.New(fault.Script, "there is no world yet: only the function run has one")
	}
	return r.env.World, nil
}

// atRankZero runs read at rank 0 and gives its data to all ranks. what names
// the reading, which must be the same at all ranks. Without a world it just reads.
func (r *Runtime) atRankZero(what string, read func() ([]byte, error)) ([]byte, error) {
	if r.run == nil {
		return nil, fault.New(fault.Script, "%s at the top level of a script, which every rank runs by itself", what).
			WithHint("read files in run, or in the function ranks")
	}
	w := r.env.World
	if w == nil {
		return read()
	}
	var packed []byte
	if w.Rank() == 0 {
		data, err := read()
		if err != nil {
			return nil, err
		}
		packed = pack.AppendBytes(pack.AppendText(nil, what), data)
	}
	packed, err := w.All().Broadcast(0, packed)
	if err != nil {
		return nil, err
	}
	p := pack.Read(packed)
	theirs, data := p.Text(), p.Bytes()
	if err := p.End("what rank 0 has read"); err != nil {
		return nil, err
	}
	if theirs != what {
		return nil, fault.New(fault.Script, "rank 0 is in %s, this rank in %s", theirs, what)
	}
	return data, nil
}

// context ends when the job has failed.
func (r *Runtime) context() context.Context {
	if r.env.World == nil {
		return context.Background()
	}
	return r.env.World.Context()
}
