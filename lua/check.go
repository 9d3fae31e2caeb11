package lua

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/result"
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
				add(uses.File, u.Line, false, "%s", vm.NoVariable(u.Global, near))
			case u.Field != "" && isTable && t.RawGetString(u.Field) == glua.LNil && t.Metatable == glua.LNil &&
				!written[u.Global] && !set[u.Field] && !slices.Contains(r.later(u.Global), u.Field):
				near := append(r.later(u.Global), vm.Names(t)...)
				add(uses.File, u.Line, false, "there is no %s.%s%s", u.Global, u.Field, conf.Suggestion(u.Field, near))
			}
		}
	}
	return found
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
