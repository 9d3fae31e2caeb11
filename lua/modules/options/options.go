// Package options is the module options, with which a script declares what it takes from the command line.
//
// options.int { "iters", 1000, "round trips", min = 1 } returns its table with the type added; the scenario lists such
// tables, and perigee/lua/option reads the list. options.reject says in run, or in ranks, that options do not go
// together: its error is one of usage, as if the parser had refused them. The module needs nothing of its host but the
// Lua state.
package options

import (
	glua "github.com/yuin/gopher-lua"

	"perigee/internal/fault"
	"perigee/lua/modules"
	"perigee/lua/option"
	"perigee/lua/vm"
)

// Module is the module options.
type Module struct{}

type instance struct{}

// New makes the module of a VM.
func (Module) New(modules.Host) modules.Instance { return instance{} }

// Exports lists the functions: one for each type of option, and reject.
func (instance) Exports() modules.Exports {
	m := map[string]vm.Function{"reject": reject}
	for _, kind := range option.Types {
		m[kind] = func(L *glua.LState) (int, error) {
			t := L.CheckTable(1)
			t.RawSetString("type", glua.LString(kind))
			return vm.Return(L, t)
		}
	}
	return modules.Exports{Functions: m}
}

// reject(message, hint) says that the options do not go together.
func reject(L *glua.LState) (int, error) {
	return 0, fault.New(fault.Usage, "%s", L.CheckString(1)).WithHint("%s", L.OptString(2, ""))
}
