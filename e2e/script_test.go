package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
)

// TestScripts runs testdata/script. Beside the usual commands the scripts have
//
//	perigee ARGS...         run perigee; it must go well (with ! before it: it must not)
//	exits CODE ARGS...      run perigee; it must end with this exit code
//	refuses CODE TEXT... -- ARGS...
//	                        run perigee; it must end with this exit code and one message, which has these texts, and
//	                        leave all files as they are
//	write FILE TEXT         write a file; the text has escapes as in Go
//	need-nixl               fail, with instructions, where there is no NIXL
//	[race]                  a condition: the program is built with the race detector
func TestScripts(t *testing.T) {
	harness.LookAtSources(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(5 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(harness.Program)+string(os.PathListSeparator)+os.Getenv("PATH"))
			e.Setenv("NIXL_LIBRARY", os.Getenv("NIXL_LIBRARY"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "race" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return harness.RaceEnabled, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"perigee": func(ts *testscript.TestScript, neg bool, args []string) {
				results := harness.LookForResults(ts.MkAbs("."), args)
				err := ts.Exec(harness.Program, args...)
				ts.Check(results.Check())
				if (err != nil) != neg {
					ts.Fatalf("perigee: %v", err)
				}
			},
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) == 0 {
					ts.Fatalf("usage: exits CODE ARGS...")
				}
				exits(ts, args[0], args[1:])
			},
			"refuses": func(ts *testscript.TestScript, _ bool, args []string) {
				end := slices.Index(args, "--")
				if end < 1 {
					ts.Fatalf("usage: refuses CODE TEXT... -- ARGS...")
				}
				before, err := tree(ts.MkAbs("."))
				ts.Check(err)
				kind := exits(ts, args[0], args[end+1:])
				o := harness.Outcome{Code: int(kind), Stderr: ts.ReadFile("stderr")}
				for _, problem := range problemsOf(o, kind, args[1:end]...) {
					ts.Fatalf("%s", problem)
				}
				after, err := tree(ts.MkAbs("."))
				ts.Check(err)
				if !slices.Equal(before, after) {
					ts.Fatalf("files before: %q, after: %q", before, after)
				}
			},
			"write": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) != 2 {
					ts.Fatalf("usage: write FILE TEXT")
				}
				text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
			},
			"need-nixl": func(ts *testscript.TestScript, _ bool, _ []string) {
				if os.Getenv("NIXL_LIBRARY") == "" {
					ts.Fatalf("this script needs NIXL, and NIXL_LIBRARY is not set: run make test, which sets it")
				}
			},
		},
	})
}

// exits runs perigee, which must end with an exit code, and returns it.
func exits(ts *testscript.TestScript, code string, args []string) fault.Kind {
	want, err := strconv.Atoi(code)
	ts.Check(err)
	results := harness.LookForResults(ts.MkAbs("."), args)
	got := 0
	if err := ts.Exec(harness.Program, args...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("perigee: %v", err)
		}
		got = exit.ExitCode()
	}
	ts.Check(results.Check())
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	return fault.Kind(want)
}
