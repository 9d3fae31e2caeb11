package vm

import (
	"errors"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
)

// Function is what a module offers to scripts: it reads its arguments from the stack of L, pushes its results there and
// says how many they are. An error that it returns becomes an error in the script.
type Function func(L *glua.LState) (results int, err error)

// Return pushes the one result of a function.
func Return(L *glua.LState, v glua.LValue) (results int, err error) {
	L.Push(v)
	return 1, nil
}

// On makes a method of a function that takes an object of type T as its first argument. what names the object in
// messages.
func On[T any](what string, f func(L *glua.LState, object T) (int, error)) Function {
	return func(L *glua.LState) (int, error) {
		object, err := ObjectArg[T](L, 1, what)
		if err != nil {
			return 0, err
		}
		return f(L, object)
	}
}

// Guarded calls the function. What Lua raises for wrong arguments comes back as an error,
// and so does a panic, which would be a defect of perigee.
func (f Function) Guarded(L *glua.LState) (n int, err error) {
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

// Locate gives a mistake of the script, or a defect of perigee, its place in
// the script. Other errors concern things outside and stay as they are. An
// error without a kind is the script's: it comes from an argument.
func Locate(L *glua.LState, err error) error {
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
	return fault.New(kind, "%s%w", Place(L), err)
}

// Place is the file and line, with a colon, of the innermost function of a script that is being called. Between it and
// the Go function there may be others, such as pcall and those of perigee, whose file's name begins with a bracket.
func Place(L *glua.LState) string {
	const most = 10
	for level := 1; level < most; level++ {
		if where := L.Where(level); where != "" && !strings.HasPrefix(where, "[") {
			return strings.TrimSuffix(where, " ") + " "
		}
	}
	return ""
}
