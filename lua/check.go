package lua

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/result"
	results "perigee/lua/modules/result"
	"perigee/lua/modules/transfer"
	"perigee/lua/vm"
)

// Finding is something wrong, or only doubtful, in a scenario or a module.
type Finding struct {
	Text    string // for people, with file and line
	Warning bool
}

// NewFinding is the finding that an error is.
func NewFinding(err error) Finding {
	text := strings.ReplaceAll(err.Error(), "\n", "\n  | ")
	if hint := fault.HintOf(err); hint != "" {
		text += "\n  hint: " + hint
	}
	return Finding{Text: text}
}

// Check loads a scenario, which runs its top level, and looks in its text and in those of its modules for names that
// nothing has. The runtime is to be closed whatever was found.
func Check(l *Library, name, source string) (*Runtime, []Finding) {
	r := New(io.Discard)
	failed := r.load(l, name, source)
	if _, depends := r.limits.(*glua.LFunction); failed == nil && !depends {
		_, failed = r.Limits(nil)
	}
	var found []Finding
	var all []*vm.Uses
	for _, m := range append([]result.Module{{File: name, Source: source}}, l.Modules...) {
		uses, err := vm.UsesOf(m.File, m.Source)
		if err != nil {
			found = append(found, NewFinding(err))
			continue
		}
		all = append(all, uses)
	}
	found = append(found, r.unknown(all)...)
	if failed == nil {
		found = append(found, r.misread(all)...)
		for _, uses := range all {
			found = append(found, r.miscalled(uses)...)
		}
	}
	same := func(f Finding) bool {
		place, _, _ := strings.Cut(f.Text, ": ")
		return strings.Contains(failed.Error(), place+": ")
	}
	if failed != nil && !slices.ContainsFunc(found, same) {
		found = append(found, NewFinding(failed))
	}
	return r, found
}

// unknown finds globals, and fields of global tables, that neither perigee nor any of the files makes.
func (r *Runtime) unknown(all []*vm.Uses) (found []Finding) {
	globals := r.host.vm.L.G.Global
	written, set, hidden := map[string]bool{}, map[string]bool{}, false
	add := func(file string, line int, warning bool, format string, args ...any) {
		found = append(found, Finding{fmt.Sprintf("%s:%d: %s", file, line, fmt.Sprintf(format, args...)), warning})
	}
	for _, uses := range all {
		for _, w := range uses.Writes {
			if !written[w.Global] {
				add(uses.File, w.Line, true, "warning: %s is a global, which all files share; with local before it, it is this file's",
					w.Global)
			}
			written[w.Global] = true
		}
		maps.Copy(set, uses.Sets)
		for _, u := range uses.Reads {
			if u.Field == "" && slices.Contains([]string{"_G", "setfenv", "getfenv", "loadstring", "load"}, u.Global) {
				add(uses.File, u.Line, true, "warning: unknown variables are not looked for: %s may make any", u.Global)
				hidden = true
			}
		}
	}
	for _, uses := range all {
		for _, u := range uses.Reads {
			t, isTable := globals.RawGetString(u.Global).(*glua.LTable)
			switch {
			case u.Field == "" && !hidden && globals.RawGetString(u.Global) == glua.LNil && !written[u.Global]:
				near := slices.Concat(uses.Locals, slices.Sorted(maps.Keys(written)), vm.Names(globals))
				add(uses.File, u.Line, false, "there is no variable %s%s", u.Global, vm.Instead(u.Global, near))
			case u.Field != "" && isTable && t.RawGetString(u.Field) == glua.LNil &&
				(t.Metatable == glua.LNil || r.host.vm.IsStrict(t)) &&
				!written[u.Global] && !set[u.Field] && !slices.Contains(r.later(u.Global), u.Field):
				near := append(r.later(u.Global), vm.Names(t)...)
				add(uses.File, u.Line, false, "there is no %s.%s%s", u.Global, u.Field, value.Suggestion(u.Field, near))
			}
		}
	}
	return found
}

// misread finds options that the scenario has not, and what its functions ask of a world before there is one.
func (r *Runtime) misread(all []*vm.Uses) (found []Finding) {
	set := map[string]bool{}
	for _, uses := range all {
		maps.Copy(set, uses.Sets)
	}
	add := func(uses *vm.Uses, line int, err error) {
		found = append(found, Finding{Text: fmt.Sprintf("%s:%d: %s", uses.File, line, err)})
	}
	for _, v := range []glua.LValue{r.run, r.ranks, r.limits} {
		f, ok := v.(*glua.LFunction) // print, for example, is none of a script
		if !ok || f.IsG {
			continue
		}
		uses := vm.UsesOfFunction(f)
		for _, u := range vm.FieldsOfArgument(f) {
			if err := r.missing(u.Field); err != nil && !set[u.Field] {
				add(uses, u.Line, err)
			}
		}
		for _, u := range uses.Reads {
			t, isTable := r.host.vm.L.G.Global.RawGetString(u.Global).(*glua.LTable)
			if f != r.run && isTable && slices.Contains(r.later(u.Global), u.Field) {
				add(uses, u.Line, vm.NoMember(u.Global, u.Field, t, r.later(u.Global)))
			}
		}
	}
	return found
}

// miscalled finds, in calls whose arguments stand in the text, fields that a function does not take, and metrics that
// the scenario does not declare.
func (r *Runtime) miscalled(uses *vm.Uses) (found []Finding) {
	add := func(line int, format string, args ...any) {
		found = append(found, Finding{Text: fmt.Sprintf("%s:%d: %s", uses.File, line, fmt.Sprintf(format, args...))})
	}
	unknown := func(what string, t *vm.Literal, known []string) {
		for _, field := range slices.Sorted(maps.Keys(t.Fields)) {
			if !slices.Contains(known, field) {
				add(t.Line, "%s has an unknown field %s; it takes %s%s", what, vm.Quoted(field), strings.Join(known, ", "),
					value.Suggestion(field, known))
			}
		}
	}
	each := func(list *vm.Literal, f func(i int, t *vm.Literal)) {
		if !list.IsTable() {
			return
		}
		for i, t := range list.List {
			if t.IsTable() {
				f(i+1, t)
			}
		}
	}
	prepared := func(t *vm.Literal) {
		unknown("transfer.prepare", t, transfer.Takes["prepare"])
		each(t.Fields["exchange"], func(i int, t *vm.Literal) {
			unknown(fmt.Sprintf("transfer.prepare: element %d of exchange", i), t, transfer.Takes["exchange"])
		})
	}
	for _, call := range uses.Calls {
		if len(call.Args) == 0 || call.Args[0] == nil {
			continue
		}
		first := call.Args[0]
		switch name := call.Global + "." + call.Field; {
		case name == "result.sample" && !first.IsTable():
			if known := r.metricNames(); !slices.Contains(known, first.Text) {
				add(call.Line, "result.sample: the scenario declares no metric %s%s", vm.Quoted(first.Text),
					value.Suggestion(first.Text, known))
			}
		case name == "transfer.prepare_all":
			each(first, func(_ int, t *vm.Literal) { prepared(t) })
		case name == "transfer.prepare" && first.IsTable():
			prepared(first)
		case call.Global == "transfer" && first.IsTable() && transfer.Takes[call.Field] != nil:
			unknown(name, first, transfer.Takes[call.Field])
		case name == "result.table" && first.IsTable():
			unknown(name, first, results.TableTakes)
			each(first.Fields["columns"], func(i int, t *vm.Literal) {
				unknown(fmt.Sprintf("result.table: column %d", i), t, results.ColumnTakes)
			})
		}
	}
	return found
}

func (r *Runtime) metricNames() (names []string) {
	for _, m := range r.Metrics {
		names = append(names, m.Name)
	}
	return names
}

// later are the fields that a module has in a world only.
func (r *Runtime) later(global string) (names []string) {
	for _, m := range r.modules {
		if m.name == global {
			names = m.later
		}
	}
	return slices.Clone(names)
}
