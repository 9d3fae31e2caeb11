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
// Each rank has its own Lua state; nothing is shared. This package puts it together of its parts:
//
//	vm       the interpreter: sandbox, errors with their place, arguments, plain data
//	option   the options of a scenario, and their command line
//	files    which files a scenario may write
//	objects  what scripts carry from one module to another
//	modules  what a module is, and below it one package for each module; they do not import each other
//
// math.random is seeded by --seed, so that it gives the same numbers at all ranks.
//
// An error in a function that concerns other ranks (see modules.Host) ends the
// job at once, whether or not the script catches it: the others wait for this rank.
package lua

import (
	_ "embed"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/lua/files"
	"perigee/lua/modules"
	"perigee/lua/modules/clock"
	"perigee/lua/modules/config"
	"perigee/lua/modules/matrix"
	"perigee/lua/modules/moe"
	"perigee/lua/modules/options"
	"perigee/lua/modules/replay"
	results "perigee/lua/modules/result"
	"perigee/lua/modules/transfer"
	"perigee/lua/modules/world"
	"perigee/lua/option"
	"perigee/lua/vm"
)

// Parts of the packages below that callers use.
type (
	// Env holds what a scenario needs from its rank.
	Env = modules.Env
	// Access says which files a scenario may write. It may read any.
	Access = files.Access
	// Option is something that a scenario takes from the command line.
	Option = option.Option
)

// MaxSource bounds the text of a scenario in bytes.
const MaxSource = vm.MaxSource

// module is a module in a VM, and the global that it is.
type module struct {
	name string
	modules.Instance
	table *glua.LTable // of the functions and fields
	later []string     // fields that it has in a world
}

// all are the modules of perigee, in the order in which they open; they close in the reverse order.
var all = []struct {
	name string
	modules.Module
}{
	{"options", options.Module{}},
	{"config", config.Module{}},
	{"matrix", matrix.Module{}},
	{"world", world.Module{}},
	{"clock", clock.Module{}},
	{"transfer", transfer.Module{}},
	{"moe", moe.Module{}},
	{"replay", replay.Module{}},
	{"result", results.Module{}},
}

// Runtime is one Lua state with a loaded scenario.
type Runtime struct {
	Scenario
	// Offered are values that functions of the scenario find among its options, unless it has one of that name.
	Offered map[string]any
	host    *host
	modules []module
}

// Load runs the top level of a script that requires no modules, as LoadWith does.
func Load(name, source string, out io.Writer) (*Runtime, error) {
	return LoadWith(&Library{Closed: true}, name, source, out)
}

// LoadWith runs the top level of a script, which may print to out. name stands in messages. A library that is open gets
// the modules of the script, and is closed. Close the runtime in the end.
func LoadWith(l *Library, name, source string, out io.Writer) (*Runtime, error) {
	return New(out).LoadWith(l, name, source)
}

// LoadWith is the function of that name with a state that was made in advance, and takes it over.
func (r *Runtime) LoadWith(l *Library, name, source string) (*Runtime, error) {
	if err := r.load(l, name, source); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// prelude has the module patterns, which is easier said in Lua.
//
//go:embed prelude.lua
var prelude string

// New makes a state in which no script is loaded yet, so that this can be done in advance.
func New(out io.Writer) *Runtime {
	r := &Runtime{host: newHost(out)}
	v := r.host.vm
	for _, m := range all {
		instance := m.New(r.host)
		exports := instance.Exports()
		opened := module{m.name, instance, v.Functions(exports.Functions), exports.Later}
		opened.set(exports.Fields)
		v.StrictGlobal(m.name, opened.table, opened.later...)
		v.L.SetGlobal(m.name, opened.table)
		r.modules = append(r.modules, opened)
	}
	v.L.SetGlobal("threshold", v.Function(r.threshold))
	return r
}

// reaching are words in every text that can reach the module patterns, or that misspells it.
var reaching = []string{"pat", "PAT", "tern", "require", "_G", "env", "load"}

// openPatterns defines the module patterns if a text may use it: to compile it takes half the time of all that a rank
// does with an empty script.
func (r *Runtime) openPatterns(source string) {
	if !slices.ContainsFunc(reaching, func(word string) bool { return strings.Contains(source, word) }) {
		return
	}
	L := r.host.vm.L
	if limit := L.RemoveContext(); limit != nil { // of the script's time, which may be over
		defer L.SetContext(limit)
	}
	if _, err := r.host.vm.Load("[patterns]", prelude); err != nil {
		panic(err) // part of the binary, and every test runs it
	}
	const name = "patterns"
	r.host.vm.StrictGlobal(name, L.GetGlobal(name).(*glua.LTable))
}

// set sets plain fields of the module.
func (m module) set(fields map[string]glua.LValue) {
	for _, name := range slices.Sorted(maps.Keys(fields)) { // the order of pairs
		m.table.RawSetString(name, fields[name])
	}
}

// Permit sets the scenario's access to files. Without it there is none.
func (r *Runtime) Permit(a Access) { r.host.files.Permit(a, r.Options) }

// Begin makes the scenario part of a world.
func (r *Runtime) Begin(env Env) {
	r.host.begin(env)
	for _, m := range r.modules {
		if b, ok := m.Instance.(modules.Beginner); ok {
			m.set(b.Begin())
		}
	}
}

// Close releases the state and, if there is one, the session.
func (r *Runtime) Close() error {
	r.host.vm.Close()
	var errs []error
	for _, m := range slices.Backward(r.modules) {
		if c, ok := m.Instance.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, r.host.env.Experiment.Close())...)
}

func (r *Runtime) load(l *Library, name, source string) error {
	r.openPatterns(source)
	if err := r.open(l, name, source); err != nil {
		return err
	}
	top, err := r.host.vm.Load(name, source)
	if err != nil {
		return err
	}
	if err := r.describe(name, top); err != nil {
		return err
	}
	r.host.described(r.Metrics)
	l.Closed = true
	r.Library = *l
	return nil
}

// Ranks asks the scenario how many ranks it wants with these options; 0 means
// that it does not say.
func (r *Runtime) Ranks(options map[string]any) (int, error) {
	v, err := r.valueFor("ranks", r.ranks, options)
	if err != nil {
		return 0, err
	}
	if v == glua.LNil {
		return 0, nil
	}
	n, err := vm.Integer(v, 1)
	if err != nil {
		return 0, fault.New(fault.Script, "%s: ranks: %w", r.Name, err)
	}
	return int(n), nil
}

// valueFor is the value of a field of the scenario, which may be a function of the options.
func (r *Runtime) valueFor(field string, v glua.LValue, options map[string]any) (glua.LValue, error) {
	if fn, ok := v.(*glua.LFunction); ok {
		return r.host.vm.Call(field, fn, r.table(options))
	}
	return v, nil
}

// table is the table of options that functions get.
func (r *Runtime) table(options map[string]any) glua.LValue {
	all := maps.Clone(r.Offered)
	if all == nil {
		all = map[string]any{}
	}
	for _, o := range r.Options {
		delete(all, option.Key(o.Name))
	}
	maps.Copy(all, options)
	v := r.host.vm
	t := vm.ToLua(v.L, all).(*glua.LTable)
	v.Strict(t, func(_ *glua.LState, key glua.LValue) error { return r.missing(key.String()) })
	return t
}

// offered are the names of all values that Offered may have.
var offered = []string{"backend", "backend_files"}

// missing is the error of an option that the scenario has not; nil of one that has no value.
func (s *Scenario) missing(key string) error {
	known := slices.Clone(offered)
	for _, o := range s.Options {
		known = append(known, option.Key(o.Name))
	}
	if slices.Contains(known, key) {
		return nil
	}
	return fault.New(fault.Script, "the scenario has no option %s%s", key, value.Suggestion(key, known))
}

// Limits are the thresholds that the script has set, and those that its field thresholds has for these options. The
// field reads no files: every rank asks for it before there is a world.
func (r *Runtime) Limits(options map[string]any) ([]metric.Threshold, error) {
	v, err := r.valueFor("thresholds", r.limits, options)
	if err != nil || v == nil || v == glua.LNil {
		return slices.Clone(r.Thresholds), err
	}
	limits, err := r.limitsFrom(v)
	return slices.Concat(r.Thresholds, limits), err
}

// Run runs the scenario at this rank, after Begin.
func (r *Runtime) Run(options map[string]any) error {
	_, err := r.host.vm.Call("run", r.run, r.table(options))
	return err
}
