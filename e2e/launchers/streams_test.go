package launchers

import (
	"slices"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
)

// The reader of a job's output goes away: mpirun perigee run | head -n 1. What the
// launcher says to that is its own affair, but the job ends. Not so under srun: it
// continues to take output that has no reader, and the ranks never hear of it.
func TestReaderLeaves(t *testing.T) {
	for _, w := range ways {
		if isSrun(w) {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			words, env := w.command(t, 2)
			watch := harness.StartWatch()
			p := start(t, harness.Command{
				Argv: slices.Concat([]string{"sh", "-c", `"$@" | head -n 1`, "sh"}, words, []string{harness.Program, "run", harness.Script(t, "endless.lua"), "--engine", "shm"}),
				Env:  env,
			})
			o := p.Wait()
			watch.Check(t, "the job", p.EndTime(), 2*atOnce, 0)
			if !strings.HasPrefix(o.Stdout, "# perigee ") || strings.Count(o.Stdout, "\n") != 1 {
				t.Errorf("stdout %q, want the first line", o.Stdout)
			}
			if strings.Contains(o.Stderr, "goroutine ") || strings.Contains(o.Stderr, "panic") {
				t.Errorf("perigee fell over:\n%s", o.Stderr)
			}
			t.Logf("after %v: %s", o.Took, o.Stderr)
		})
	}
}

// A job needs no standard input.
func TestClosedStandardInput(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			words, env := w.command(t, 2)
			o := start(t, harness.Command{
				Argv: slices.Concat([]string{"sh", "-c", `exec "$@" <&-`, "sh"}, words, []string{harness.Program, "run", harness.Script(t, "whoami.lua")}),
				Env:  env,
			}).MustEnd()
			harness.Contains(t, "stdout", o.Stdout, "rank 1 of 2")
		})
	}
}
