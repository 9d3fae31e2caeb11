// Package options is the module options, with which a script declares what it takes from the command line.
//
// options.int { "iters", 1000, "round trips", min = 1 } returns its table with the type added; the scenario lists such
// tables, and perigee/lua/option reads the list. options.reject says in run, or in ranks, that options do not go
// together: its error is one of usage, as if the parser had refused them. options.words reads a list of known words,
// options.numbers one of numbers.
// The module needs nothing of its host but the Lua state.
package options

import (
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/lua/modules"
	"perigee/lua/option"
	"perigee/lua/vm"
)

// Module is the module options.
type Module struct{}

type instance struct{}

// New makes the module of a VM.
func (Module) New(modules.Host) modules.Instance { return instance{} }

// Exports lists the functions: one for each type of option, reject, words and numbers.
func (instance) Exports() modules.Exports {
	m := map[string]vm.Function{"reject": reject, "words": words, "numbers": numbers}
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

// words(name, text, known) returns the words of an option's text, which has commas between them; each is a known one.
func words(L *glua.LState) (int, error) {
	name, text := L.CheckString(1), L.CheckString(2)
	var known []string
	err := vm.Each(L.CheckTable(3), "options.words: word %d", "text", func(_ int, word glua.LString) error {
		known = append(known, string(word))
		return nil
	})
	if err != nil {
		return 0, err
	}
	list := L.NewTable()
	for _, word := range strings.Split(text, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(known, word) {
			return 0, fault.New(fault.Usage, "--%s: wanted one of %s, got %q%s", name, strings.Join(known, ", "), word,
				value.Suggestion(word, known)).WithHint("several have commas between them")
		}
		list.Append(glua.LString(word))
	}
	return vm.Return(L, list)
}

// numbers(name, text) returns the whole numbers of an option's text, which has commas between them. Tokens take k.
func numbers(L *glua.LState) (int, error) {
	name, list := L.CheckString(1), L.NewTable()
	f := value.Whole(1, 1<<31-1)
	if name == "tokens" {
		f.Type = name
	}
	for _, word := range strings.Split(L.CheckString(2), ",") {
		n, err := f.Parse(strings.TrimSpace(word))
		if err != nil {
			return 0, fault.New(fault.Usage, "--%s: %w", name, err).WithHint("several have commas between them")
		}
		list.Append(glua.LNumber(n.(int64)))
	}
	return vm.Return(L, list)
}
