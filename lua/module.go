package lua

import "errors"

// module is one of the globals that scripts call: its functions, and the state that they share. A new module is a new
// type, in its own file, and an entry in newModules.
type module interface {
	// exports lists the functions that scripts call, by name.
	exports() map[string]function
	// open makes the types of the objects that the functions return, and plain fields. The table of functions is
	// there.
	open()
	// begin is called when the scenario becomes part of a world.
	begin()
	// close releases what scripts have left open, once the state is closed.
	close() error
}

// base holds what modules have in common: the runtime, and nothing to open, to begin or to close.
type base struct{ *Runtime }

func (base) open() {}

func (base) begin() {}

func (base) close() error { return nil }

// named is a module and the global that it is.
type named struct {
	name string
	module
}

// newModules makes the modules of a state, in the order in which they open; they close in the reverse order.
func newModules(r *Runtime) []named {
	b := base{r}
	return []named{
		{"options", optionModule{b}},
		{"config", &configModule{b}},
		{"matrix", &matrixModule{b}},
		{"world", &worldModule{b}},
		{"clock", &clockModule{b}},
		{"transfer", &transferModule{base: b, lanes: map[*luaLanes]bool{}}},
		{"moe", expertModule{b}},
		{"result", &resultModule{base: b}},
	}
}

// expertModule routes tokens between experts; see moe.go.
type expertModule struct{ base }

func (m expertModule) exports() map[string]function { return m.moeModule() }

func (m expertModule) open() { m.planeType() }

func (m expertModule) close() error {
	var errs []error
	for _, p := range m.planes {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
