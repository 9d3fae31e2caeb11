package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// logKey is an entry of the list of keys in docs/logs.md.
var logKey = regexp.MustCompile("(?m)^- (`[a-z_, `]+`): ")

// The keys of log lines are those that docs/logs.md explains, and each of them is used.
func TestLogKeys(t *testing.T) {
	known := map[string]bool{}
	_, list, _ := strings.Cut(string(read(t, "docs/logs.md")), "## Keys")
	for _, row := range logKey.FindAllStringSubmatch(list, -1) {
		for key := range strings.SplitSeq(row[1], ",") {
			key = strings.Trim(key, " `")
			known[key] = key == "time" || key == "level" || key == "msg" || key == "phase" // slog and spmd set them
		}
	}
	for _, name := range sources(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, name), nil, 0)
		must.Do(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range logArguments(call) {
				key, ok := stringLiteral(arg)
				where := fset.Position(arg.Pos())
				switch _, listed := known[key]; {
				case !ok:
					t.Errorf("%s:%d: the key of a log line is no string literal", name, where.Line)
				case !listed:
					t.Errorf("%s:%d: the log key %q is not in the list of docs/logs.md, which has %q", name, where.Line, key,
						slices.Sorted(maps.Keys(known)))
				default:
					known[key] = true
				}
			}
			return true
		})
	}
	for key, used := range known {
		if !used {
			t.Errorf("docs/logs.md explains the log key %q, which no line has", key)
		}
	}
}

// logger matches the names of variables, fields and methods that are loggers.
var logger = regexp.MustCompile(`^(l|log|Log|Logger|slog)$`)

// logArguments returns the keys of a call of a logger: log.Info(message, key, value ...), or With(key, value ...).
func logArguments(call *ast.CallExpr) (keys []ast.Expr) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first := 1
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		if !logger.MatchString(lastName(method.X)) {
			return nil
		}
	case "With":
		first = 0
		if _, ok := stringLiteral(call.Args[0]); !ok || len(call.Args) < 2 {
			return nil
		}
	default:
		return nil
	}
	for i := first; i < len(call.Args); i += 2 {
		keys = append(keys, call.Args[i])
	}
	return keys
}

// lastName is the last name of an expression: Log of w.Log().
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return lastName(e.Fun)
	}
	return ""
}

func stringLiteral(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
