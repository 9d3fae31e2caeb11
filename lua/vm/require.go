package vm

import (
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
)

// Require gives scripts the function require. find returns the text of a module, and the name of its file for messages.
// Each module runs once. Tables that are globals now, such as the modules of perigee, count as modules that have run.
func (v *VM) Require(find func(name string) (file, source string, err error)) {
	loaded := map[string]glua.LValue{}
	v.L.G.Global.ForEach(func(name, value glua.LValue) {
		if value.Type() == glua.LTTable {
			loaded[name.String()] = value
		}
	})
	var loading []string
	run := func(L *glua.LState, name string) {
		if slices.Contains(loading, name) {
			chain := strings.Join(slices.Concat(loading[slices.Index(loading, name):], []string{name}), " -> ")
			v.raise(L, fault.New(fault.Script, "modules require each other: %s", chain).
				WithHint("let one of them require the other inside the function that needs it"))
		}
		file, source, err := find(name)
		var chunk *glua.LFunction
		if err == nil {
			chunk, err = v.function(file, source)
		}
		if err != nil {
			v.raise(L, err)
		}
		loading = append(loading, name)
		defer func() { loading = loading[:len(loading)-1] }()
		L.Push(chunk)
		L.Push(glua.LString(name))
		L.Call(1, 1)
		if loaded[name] = L.Get(-1); loaded[name] == glua.LNil {
			loaded[name] = glua.LTrue
		}
	}
	v.L.SetGlobal("require", v.L.NewFunction(func(L *glua.LState) int {
		name := L.CheckString(1)
		if loaded[name] == nil {
			run(L, name)
		}
		L.Push(loaded[name])
		return 1
	}))
}
