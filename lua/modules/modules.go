// Package modules says how the modules of perigee are made: the globals that scripts call, such as transfer or result.
//
// A Module makes an Instance for each VM. The instance has the module's functions and the state that they share; what
// it needs of the rank that it runs at it gets from one Host. Each module is a package below this one, which imports
// no other module: what several need is here, and objects that scripts carry between them are in perigee/lua/objects.
// A new module is a new package and an entry in the list of perigee/lua; its functions need a stub in lua/meta and a
// description in docs/lua.md.
package modules

import (
	"encoding/json"
	"io"
	"slices"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/experiment"
	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/model"
	"perigee/internal/result"
	"perigee/internal/traffic/session"
	"perigee/lua/files"
	"perigee/lua/vm"
	"perigee/spmd"
)

// Module is one of the globals that scripts call.
type Module interface {
	// New makes the module of one VM, and there the types of the objects that its functions return.
	New(h Host) Instance
}

// Instance is a module in a VM. One that has something to do when the scenario becomes part of a world is a Beginner;
// one that closes what scripts have left open, once the state is closed, is an io.Closer.
type Instance interface {
	// Exports is asked once, after New.
	Exports() Exports
}

// Exports lists, by name, the functions and plain fields that scripts find in a module.
type Exports struct {
	Functions map[string]vm.Function
	Fields    map[string]glua.LValue
	Later     []string // fields of Begin
}

// Beginner is an Instance that has plain fields which only a world can fill.
type Beginner interface {
	// Begin returns the fields by name.
	Begin() map[string]glua.LValue
}

// Host is the rank that a module runs at, as modules see it.
type Host interface {
	// VM is the Lua state.
	VM() *vm.VM
	// Env has the experiment, and where the rank writes to.
	Env() *Env
	// Files says which files the scenario may write.
	Files() *files.Files
	// World is the world, which the launcher does not have: there it is an error.
	World() (*spmd.World, error)
	// Session is the experiment's, which opens the engine when it is first needed. It says what engine all ranks use.
	Session() (*session.Session, error)

	// Collective marks a function that concerns other ranks: they meet in it, or wait
	// for what it does. Where there is a world its error ends the job even if the
	// script catches it, since the others cannot know that it was caught.
	Collective(f vm.Function) vm.Function
	// Waiting marks a function that waits and does not touch the result meanwhile.
	Waiting(f vm.Function) vm.Function
	// AtRankZero runs read at rank 0 and gives its plain data to all ranks. what names
	// the reading, which must be the same at all ranks. Without a world it just reads.
	AtRankZero(what string, read func() (plain any, err error)) (any, error)
}

// Env holds what a scenario needs from its rank. Before Begin, as in the launcher, the experiment has no world:
// then only options, config and matrix work.
type Env struct {
	// Experiment has the world, the result at rank 0, and the session; print and tables write to Out.
	*experiment.Experiment
	// Repeat is, at rank 0, the result of which the run is a repetition: files that it
	// holds are not read again. nil where there is none.
	Repeat   *result.Document
	Progress io.Writer // a terminal for progress bars, or nil
	// ProgressLines takes lines of progress where there is no terminal; nil for none.
	ProgressLines io.Writer
	Width         int // characters in a line of Out, if that is a terminal, or 0
	// Exit ends this rank's process, which has departed from the world. nil where a process has several ranks.
	Exit func()
}

// InWorld makes a function of what needs the world.
func InWorld(h Host, f func(L *glua.LState, w *spmd.World) (int, error)) vm.Function {
	return func(L *glua.LState) (int, error) {
		w, err := h.World()
		if err != nil {
			return 0, err
		}
		return f(L, w)
	}
}

// ReadText reads a file as text, as Read does.
func ReadText(h Host, path string) ([]byte, error) {
	return Read(h, path, (*result.Document).Text, conf.Read, (*result.Document).AddText)
}

// Read reads a file with load, or finds it in the result that is repeated, and notes it in the new one. A file that the
// run will write over is refused.
func Read[T any](
	h Host, path string, stored func(d *result.Document, path string) (T, bool, error),
	load func(path string) (T, error), note func(d *result.Document, path string, v T),
) (v T, err error) {
	env, found := h.Env(), false
	if env.Repeat != nil {
		if v, found, err = stored(env.Repeat, path); err != nil {
			return v, fault.New(fault.Input, "%w", err)
		}
	}
	if !found {
		if err := h.Files().NotOver(path); err != nil {
			return v, err
		}
		if v, err = load(path); err != nil {
			return v, err
		}
	}
	if env.Doc != nil {
		note(env.Doc, path, v)
	}
	return v, nil
}

// ModelText reads the files of a model, or finds them in the result that is repeated, and notes them in the new one:
// plain data for ModelFrom, at rank 0. Files that describe no model are refused here, and so is one that the run will
// write over.
func ModelText(h Host, name string) (plain any, err error) {
	env := h.Env()
	var texts model.Texts
	found := false
	if env.Repeat != nil {
		if texts, found, err = model.Restore(name, env.Repeat.Text); err != nil {
			return nil, fault.New(fault.Input, "%w", err)
		}
	}
	if !found {
		if texts, err = model.Read(name); err != nil {
			return nil, err
		}
		for _, f := range texts.Files {
			if err := h.Files().NotOver(f.Path); err != nil {
				return nil, err
			}
		}
	}
	if _, err := texts.Model(); err != nil {
		return nil, err
	}
	if env.Doc != nil {
		for _, f := range texts.Stored() {
			env.Doc.AddText(f.Path, []byte(f.Text))
		}
	}
	return PlainOf[any](texts)
}

// ModelFrom is the model of what ModelText has read, at all ranks.
func ModelFrom(plain any) (*model.Model, error) {
	texts, err := PlainOf[model.Texts](plain)
	if err != nil {
		return nil, err
	}
	return texts.Model()
}

// PlainOf makes plain data of a struct, a map, or of several, a list, by way of JSON.
func PlainOf[T any](v any) (plain T, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	return plain, err
}

// LabelsFrom reads the labels of samples, nil or a table of texts, numbers and booleans. It refuses what is none of the
// scenario's metrics.
func LabelsFrom(h Host, function, metric string, t *glua.LTable) (result.Labels, error) {
	if !slices.ContainsFunc(h.Env().Metrics, func(d result.MetricDef) bool { return d.Name == metric }) {
		return nil, fault.New(fault.Script, "%s: the scenario declares no metric %s", function, vm.Quoted(metric)).
			WithHint("a scenario lists its metrics: metrics = { { %q, \"what it is\" } }", metric)
	}
	if t == nil {
		return nil, nil
	}
	labels := result.Labels{}
	var err error
	t.ForEach(func(k, v glua.LValue) {
		switch v := v.(type) {
		case glua.LString:
			labels[k.String()] = string(v)
		case glua.LBool:
			labels[k.String()] = v.String()
		case glua.LNumber:
			labels[k.String()] = result.LabelNumber(float64(v))
		default:
			err = fault.New(fault.Script, "%s: the label %s is %s, want a string, a number or a boolean", function, k,
				vm.Describe(v))
		}
	})
	if err == nil {
		err = labels.Check()
	}
	return labels, err
}

// AddSamples adds values to one of the scenario's metrics at rank 0, and ends the job if a threshold is violated.
func AddSamples(h Host, name string, labels result.Labels, values ...float64) error {
	e := h.Env()
	if e.Doc == nil {
		return nil
	}
	now := e.World.Now()
	for _, v := range values {
		if err := e.Doc.AddLabelled(name, labels, v, now); err != nil {
			return err
		}
	}
	if err := e.Sampled(); err != nil {
		// The others may not wait in this function, but the job is over.
		return e.World.Fail(err)
	}
	return nil
}

// CheckName refuses a name that results do not take. what says which one it is.
func CheckName(what, name string) error {
	if len(name) > result.MaxName {
		return fault.New(fault.Script, "%s has %d bytes, want at most %d", what, len(name), result.MaxName)
	}
	if !utf8.ValidString(name) {
		return fault.New(fault.Script, "%s is %s, want text in UTF-8", what, vm.Quoted(name))
	}
	return nil
}
