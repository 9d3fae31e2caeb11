package disagg

import (
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
)

// On a terminal a table shows the jobs while they run, and Ctrl-C asks before it
// cancels them.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add("a", "hang", 0, "")
	argv := []string{harness.Program, "disagg", "run", "--output", s.output, "--root", s.root, "--gpu", "LOCAL", "--poll", "200ms", "--watch", "100ms"}
	ask := func(answer, want string, more ...string) {
		t.Helper()
		term := harness.NewTerminal(t)
		p := harness.Start(t, harness.Command{Argv: append(argv, more...), Terminal: term, Env: []string{"SLURM_CONF=" + s.s.Conf, "TERM=xterm"}})
		p.Until("the table", func() bool { return strings.Contains(term.String(), "RUNNING") })
		term.Type(t, "\x03")
		p.Until("the question", func() bool { return strings.Contains(term.String(), "Cancel the 1 job of this run? [Y/n]") })
		term.Type(t, answer+"\r")
		if o := p.Wait(); o.Code != 130 || !strings.Contains(o.Stdout, want) {
			t.Errorf("%q: exit code %d\n%s", answer, o.Code, o.Stdout)
		}
	}
	ask("n", "1 job left running")
	if state := s.state(s.ids()[0]); state != "RUNNING" {
		t.Errorf("the job is %s", state)
	}
	ask("y", "1 job cancelled", "--resume")
	if ids := s.ids(); len(ids) != 1 {
		t.Errorf("jobs %v", ids)
	}
}
