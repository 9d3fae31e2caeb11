package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"perigee/e2e/internal/harness"
)

// TestScripts runs testdata/script. Beside the usual commands the scripts have
//
//	perigee ARGS...         run perigee; it must go well (with ! before it: it must not)
//	exits CODE ARGS...      run perigee; it must end with this exit code
//	need-nixl               fail, with instructions, where there is no NIXL
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
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				results := harness.LookForResults(ts.MkAbs("."), args[1:])
				got := 0
				if err := ts.Exec(harness.Program, args[1:]...); err != nil {
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
			},
			"need-nixl": func(ts *testscript.TestScript, _ bool, _ []string) {
				if os.Getenv("NIXL_LIBRARY") == "" {
					ts.Fatalf("this script needs NIXL, and NIXL_LIBRARY is not set: run make test, which sets it")
				}
			},
		},
	})
}
