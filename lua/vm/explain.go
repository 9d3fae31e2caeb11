package vm

import (
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/value"
)

// What the VM says of common mistakes. It names neither the variable nor the function.
var (
	atLine     = lazyre.New(`:(\d+): (.*)$`)
	indexOfNil = lazyre.New(`^attempt to index a non-table object\(nil\) with key '([^']*)'$`)
	member     = lazyre.New(`([A-Za-z_]\w*)\s*[.:]\s*([A-Za-z_]\w*)`)
	call       = lazyre.New(`(\.\.\s*|[.:]\s*)?([A-Za-z_]\w*)\s*[({"'\[]`)
)

// explain adds to an error of the interpreter what its line suggests: the name that is wrong, and the nearest that
// exists.
func (v *VM) explain(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if m := atLine.FindStringSubmatch(first); m != nil {
		lines := v.texts[strings.TrimSuffix(first, m[0])]
		if line, _ := strconv.Atoi(m[1]); 0 < line && line <= len(lines) {
			if what := reason(v.L, m[2], lines[line-1]); what != "" {
				first = strings.TrimSuffix(first, m[2]) + what
			}
		}
	}
	if more {
		first += "\n" + rest
	}
	return first
}

// reason explains one complaint of the VM about a line of the script; "" where it cannot.
func reason(L *glua.LState, complaint, line string) string {
	switch {
	case strings.HasPrefix(complaint, "attempt to call a non-function object"):
		for _, m := range member.Get().FindAllStringSubmatch(line, -1) {
			if t, ok := L.GetGlobal(m[1]).(*glua.LTable); ok && t.RawGetString(m[2]) == glua.LNil {
				return "there is no function " + m[1] + "." + m[2] + value.Suggestion(m[2], Names(t))
			}
		}
		for _, m := range call.Get().FindAllStringSubmatch(line, -1) {
			if m[1] != "" && !strings.HasPrefix(m[1], "..") {
				continue // a member of a table
			}
			if near := value.Suggestion(m[2], Names(L.G.Global)); near != "" && L.GetGlobal(m[2]) == glua.LNil {
				return "there is no function " + m[2] + near
			}
		}
	case strings.HasPrefix(complaint, "__len undefined"):
		return "the length (#) of a value that is neither a table nor a text; functions that gather, such as transfer.collect, return nil at ranks other than 0"
	}
	if key := indexOfNil.FindStringSubmatch(complaint); key != nil {
		for _, m := range member.Get().FindAllStringSubmatch(line, -1) {
			if m[2] == key[1] && L.GetGlobal(m[1]) == glua.LNil {
				return m[1] + " is nil, and " + m[2] + " is asked of it" + Instead(m[1], Names(L.G.Global))
			}
		}
	}
	return ""
}

// Instead says what there is in the place of a global that is not there: a name that is much like it, or, of Lua's
// libraries that scripts have not, what does their work.
func Instead(global string, names []string) string {
	switch global {
	case "os":
		return "; scripts have no os: clock.now() and clock.wall() say the time, options take settings"
	case "io":
		return "; scripts have no io: config.load and matrix.load read files, result.save writes those that the command line names, or with --allow-io all"
	case "debug":
		return "; scripts have no debug"
	}
	return value.Suggestion(global, names)
}

// Names are the keys of a table that are names.
func Names(t *glua.LTable) (list []string) {
	t.ForEach(func(k, _ glua.LValue) {
		if s, ok := k.(glua.LString); ok {
			list = append(list, string(s))
		}
	})
	return list
}
