package vm

import (
	"errors"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
)

// mostFrames is how many functions an error names, from the innermost.
const mostFrames = 3

// frame matches a function of a script in a traceback of the interpreter: its place, and its name where there is one.
var frame = lazyre.New(`^\t([^\[].*:\d+): in (?:function '(.*)'|function (<.*>)|.*)$`)

// frames are the innermost functions of a traceback, as place: name.
func (v *VM) frames(trace string) (list []string) {
	for line := range strings.Lines(trace) {
		m := frame.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil || len(list) == mostFrames {
			continue
		}
		name := m[2] + m[3]
		if name == "" { // the interpreter knows no caller
			name = v.entry
		} else if strings.HasSuffix(name, ":0>") { // of a module
			name = topLevel
		}
		list = append(list, m[1]+": in "+name)
	}
	return list
}

// traced is an error whose text ends with the functions in which it arose.
type traced struct{ error }

func (t traced) Unwrap() error { return t.error }

// traced adds to an error of a script the functions in which it arose, unless there is only the one whose place the
// error names.
func (v *VM) traced(err error, trace string) error {
	kind, list := fault.KindOf(err), v.frames(trace)
	if errors.As(err, new(traced)) || len(list) == 0 || kind != fault.Script && kind != fault.Internal {
		return err
	}
	if place, _, _ := strings.Cut(list[0], ": in "); len(list) == 1 && strings.HasPrefix(err.Error(), place+":") {
		return err
	}
	return fault.New(kind, "%w\n%s", traced{err}, strings.Join(list, "\n"))
}

// Located is err with its place, as [Locate] gives it, and the functions that are being called.
func (v *VM) Located(L *glua.LState, err error) error {
	L.Push(L.NewFunction(func(L *glua.LState) int { L.RaiseError(""); return 0 }))
	failed, _ := errors.AsType[*glua.ApiError](L.PCall(0, 0, nil))
	return v.traced(Locate(L, err), failed.StackTrace)
}
