package lua

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/result"
	"perigee/lua/vm"
)

// Library holds the files that a scenario requires. It is filled where the scenario loads first, at rank 0 and in the
// launcher, and closed then: the other ranks, and repetitions of the run, get those files and look for none.
type Library struct {
	Folders []string // where modules are looked for, in this order
	Modules []result.Module
	Closed  bool
}

// ReadSource reads the text of a scenario or a module.
func ReadSource(path string) (string, error) {
	data, err := file.Read(path, MaxSource)
	if err != nil {
		return "", fault.New(fault.Input, "%w", err)
	}
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) { // it would become another text on the way to other ranks, and in the result
			return "", fault.New(fault.Input, "%s:%d: this line is not UTF-8 text: %q", path, line,
				bytes.TrimSpace(text)).
				WithHint(`in a string of Lua any byte can be written with its number, as in "\255"`)
		}
	}
	return string(data), nil
}

// find returns the module that scripts know by a name: dir.name is the file dir/name.lua in one of the folders.
func (l *Library) find(name string) (m result.Module, err error) {
	if i := slices.IndexFunc(l.Modules, func(m result.Module) bool { return m.Name == name }); i >= 0 {
		return l.Modules[i], nil
	}
	bad := func(format string, args ...any) (result.Module, error) {
		return m, fault.New(fault.Script, format, args...).
			WithHint(`require "lib.common" loads lib/common.lua from the script's folder, or from one of --lib DIR`)
	}
	parts := strings.Split(name, ".")
	if slices.Contains(parts, "") || strings.ContainsAny(name, "/\\\x00") || !utf8.ValidString(name) {
		return bad("require %s: wanted the name of a module, with dots between folders and file", vm.Quoted(name))
	}
	if l.Closed {
		return m, fault.New(fault.Script, "module %s has not come with the script", name).
			WithHint("all ranks get the modules that the script requires by a name in quotes, or at its top level")
	}
	var looked []string
	for _, folder := range l.Folders {
		path := strings.Join(parts, "/") + ".lua"
		if folder != "." {
			path = strings.TrimRight(folder, "/") + "/" + path // unclean: a link before ".." would be lost
		}
		source, err := ReadSource(path)
		if err == nil {
			m = result.NewModule(name, path, source)
			l.Modules = append(l.Modules, m)
			return m, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return m, fault.New(fault.Script, "module %s: %w", name, err)
		}
		looked = append(looked, path)
	}
	return bad("there is no module %s: looked for %s", name, strings.Join(looked, ", "))
}

// collect adds the modules that a text requires by a name in quotes, wherever it does so, and those that they require.
// What cannot be found or understood is an error when it is loaded, which need not happen.
func (l *Library) collect(name, source string) {
	uses, err := vm.UsesOf(name, source)
	if err != nil {
		return
	}
	for _, required := range uses.Requires {
		before := len(l.Modules)
		if m, err := l.find(required); err == nil && len(l.Modules) > before {
			l.collect(m.File, m.Source)
		}
	}
}

// open lets scripts require modules of the library.
func (r *Runtime) open(l *Library, name, source string) error {
	r.host.vm.Require(func(name string) (string, string, error) {
		m, err := l.find(name)
		return m.File, m.Source, err
	})
	if !l.Closed {
		l.collect(name, source)
	}
	for _, m := range l.Modules {
		if r.host.vm.L.GetGlobal(m.Name).Type() == glua.LTTable {
			return fault.New(fault.Script, "%s: the module %s is built in, and this file would never run", m.File, m.Name).
				WithHint("give the file another name")
		}
	}
	return nil
}
