package e2e

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/spmd/launch"
)

// onTerminal runs perigee on a terminal and returns what it wrote, byte by byte.
func onTerminal(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	return harness.Start(t, harness.Command{Dir: dir, Args: args, Env: env, Terminal: harness.NewTerminal(t)}).MustEnd().Stdout
}

// slow is a workload that lasts long enough for a progress bar to be drawn.
func slow(t *testing.T) string {
	return harness.Files(t, map[string]string{
		"c.yaml": "iters: 3\nisolation_iters: 1\n" + pattern("sleep_before_launch_sec: 0.25"), "m.txt": good,
	})
}

// On a terminal there is a bar while the work goes on, and no trace of it after.
func TestProgressOnTerminal(t *testing.T) {
	args := []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm", "--verify-buffers"}
	for name, env := range map[string][]string{
		"colour":    {"TERM=xterm"},
		"no colour": {"TERM=xterm", "NO_COLOR=1"},
	} {
		t.Run(name, func(t *testing.T) {
			written := onTerminal(t, slow(t), env, args...)
			harness.Contains(t, "terminal", written, "runs [", "1 / 4", "3 / 4")
			seen := strings.Join(harness.Screen(written), "\n")
			for _, trace := range []string{" / 4", "runs [", "\x1b"} {
				if strings.Contains(seen, trace) {
					t.Errorf("%q is still to be seen:\n%s", trace, seen)
				}
			}
			for _, line := range harness.Screen(written) {
				if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
					t.Errorf("a line that is no part of the output: %q", line)
				}
			}
			readTable(t, seen, columns...)
			if len(env) > 1 && strings.Contains(written, "\x1b[") {
				t.Errorf("escape sequences in spite of NO_COLOR: %q", written)
			}
		})
	}
}

// A text out of a result reaches a file as it is, and a terminal escaped.
func TestRawTextOnTerminal(t *testing.T) {
	const doc = `{"schema":"perigee.result/1","status":"complete","world":{"size":1},"notes":["\u001b]0;owned\u0007\u009b2J"]}`
	dir := harness.Files(t, map[string]string{"r.json": doc})
	args := []string{"result", "cat", "-r", "r.json", ".notes[0]"}
	if got, want := strings.TrimSpace(onTerminal(t, dir, nil, args...)), `\x1b]0;owned\a\u009b2J`; got != want {
		t.Errorf("a terminal got %q, want %q", got, want)
	}
	if got, want := harness.MustRun(t, dir, args...).Stdout, "\x1b]0;owned\a\u009b2J\n"; got != want {
		t.Errorf("a file got %q, want %q", got, want)
	}
}

// Into files and pipes there goes plain text only.
func TestNoTerminal(t *testing.T) {
	o := harness.MustRun(t, slow(t), "sequential-ct-perftest", "c.yaml", "--engine", "shm", "--verify-buffers")
	if o.Stderr != "" || strings.ContainsAny(o.Stdout, "\r\x1b\t") {
		t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
	}
	for line := range strings.Lines(o.Stdout) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("white space at the end of %q", line)
		}
	}
}

// The output is the same on a terminal and elsewhere, but for the figures.
func TestSameOutput(t *testing.T) {
	args := []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm"}
	// A figure's digits and the blanks before it, which make room for them; a comment goes on below where it is folded.
	figure, folded := regexp.MustCompile(` *[0-9]+`), regexp.MustCompile(`\n#   `)
	shape := func(lines []string) string {
		return figure.ReplaceAllString(folded.ReplaceAllString(strings.Join(lines, "\n"), " "), " 0")
	}
	dir := slow(t)
	plain := shape(strings.Split(strings.TrimRight(harness.MustRun(t, dir, args...).Stdout, "\n"), "\n"))
	shown := shape(harness.Screen(onTerminal(t, dir, []string{"TERM=xterm"}, args...)))
	if plain != shown {
		t.Errorf("into a pipe:\n%s\non a terminal:\n%s", plain, shown)
	}
}

// Ctrl-C at a real terminal: the terminal signals all processes of the
// foreground group.
func TestInterruptAtTerminal(t *testing.T) {
	term := harness.NewTerminal(t)
	p := harness.Start(t, harness.Command{
		Args:     []string{"run", harness.Script(t, "phases.lua"), "--engine", "shm", "--stay", "workload", "--result", "r.json"},
		Terminal: term,
	})
	p.UntilPrints("[2] in workload", "\nin workload")
	term.Type(t, "\x03")
	o := p.Wait()
	if o.Code != int(fault.Interrupt) {
		t.Errorf("exit code %d, want %d", o.Code, fault.Interrupt)
	}
	p.CheckNothingLeft(atOnce)
	seen := strings.Join(harness.Screen(o.Stdout), "\n")
	harness.Contains(t, "terminal", seen, "perigee: ended by signal: interrupt", "perigee: partial result: r.json")
	partial(t, p, fault.Interrupt, -1, "")
}

// The ranks are not in the terminal's foreground, and write to it even where that is not for the background.
func TestTostop(t *testing.T) {
	p := harness.Start(t, harness.Command{
		Argv: []string{"sh", "-c", `stty tostop; exec "$@"`, "sh", harness.Program, "run", harness.Script(t, "phases.lua"), "--engine", "shm",
			"--stay", "workload"},
		Terminal: harness.NewTerminal(t),
	})
	p.UntilPrints("[2] in workload", "\nin workload")
}

// A second Ctrl-C ends the job without waiting for ranks that do not end by
// themselves. What was saved before is still there.
func TestSecondInterruptAtTerminal(t *testing.T) {
	term := harness.NewTerminal(t)
	p := harness.Start(t, harness.Command{
		Args:     []string{"run", harness.Script(t, "phases.lua"), "--engine", "shm", "--stay", "workload", "--result", "r.json"},
		Terminal: term,
	})
	p.UntilPrints("[2] in workload", "\nin workload")
	for _, pid := range p.Ranks() {
		harness.Signal(t, pid, syscall.SIGSTOP)
	}
	term.Type(t, "\x03")
	p.UntilPrints("ended by signal: interrupt")
	time.Sleep(600 * time.Millisecond) // sooner it belongs to the first
	watch := harness.StartWatch()
	term.Type(t, "\x03")
	o := p.Wait()
	watch.Check(t, "the end after the second Ctrl-C", p.EndTime(), launch.Grace/2, 0)
	if o.Code != int(fault.Interrupt) {
		t.Errorf("exit code %d, want %d", o.Code, fault.Interrupt)
	}
	p.CheckNothingLeft(harness.Patience)
	harness.Contains(t, "terminal", strings.Join(harness.Screen(o.Stdout), "\n"), "perigee: partial result: r.json")
	if doc := partial(t, p, fault.Interrupt, -1, ""); countRuns(doc, "isolated") != 1 {
		t.Errorf("%d isolated runs in the partial result, want 1", countRuns(doc, "isolated"))
	}
}
