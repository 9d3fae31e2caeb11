package disagg

import (
	"testing"
	"time"

	"perigee/internal/kit/must"
)

// A controller that is away for a while ends no wait. It is not parallel: the
// other tests need theirs.
func TestControllerKilled(t *testing.T) {
	s := newSite(t)
	s.add("a", "good", 15, "")
	p := s.start("run")
	until(t, "a running job", func() bool { return len(s.ids()) == 1 && s.state(s.ids()[0]) == "RUNNING" })
	running := time.Now()
	// Another job is something to write down.
	if out, err := s.s.Tool("sbatch", "--output=/dev/null", "--wrap", "true"); err != nil {
		t.Fatal(err, out)
	}
	until(t, "the state of the job on the disk", func() bool { return s.s.Saved(running) })
	must.Do(t, s.s.KillController())
	time.Sleep(10 * second)
	must.Do(t, s.s.StartController())
	if c := s.cases(p, 0)["a"]; c.State != "passed" {
		t.Errorf("%s, %q", c.State, c.Reasons)
	}
}
