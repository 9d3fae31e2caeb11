package disagg

import (
	"testing"
	"time"
)

// A controller that is away for a while ends no wait. It is not parallel: the
// other tests need theirs.
func TestControllerKilled(t *testing.T) {
	s := newSite(t)
	s.add("a", "good", 8, "")
	p := s.start("run")
	until(t, "a running job", func() bool { return len(s.ids()) == 1 && s.state(s.ids()[0]) == "RUNNING" })
	if err := s.s.KillController(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * second)
	if err := s.s.StartController(); err != nil {
		t.Fatal(err)
	}
	if c := s.cases(p, 0)["a"]; c.State != "passed" {
		t.Errorf("%s, %q", c.State, c.Reasons)
	}
}
