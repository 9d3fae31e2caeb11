package hosts

import (
	"errors"
	"testing"

	"perigee/e2e/bench/truth"
	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// What a report says of contention is what follows from how the experiment is made. On a busy machine an experiment may go
// wrong: one of three will do. make bench SECTIONS=truth runs all experiments.
func TestKnownAnswers(t *testing.T) {
	harness.NeedNIXL(t)
	harness.Need(t, "iproute2", "tc")
	l, err := truth.NewLab(harness.Program, t.TempDir())
	must.Do(t, err)
	l.Env = harness.Environ(harness.Token)
	defer l.Close()
	list := []truth.Experiment{truth.Half(), truth.Later(), truth.Disjoint(), truth.Stopped()}
	for _, e := range append(list, truth.CPUs(1)[:2]...) {
		t.Run(e.Name, func(t *testing.T) {
			for range 3 {
				got, ok, err := e.Run(l)
				if errors.Is(err, truth.ErrKernel) {
					t.Skip(err)
				}
				must.Do(t, err)
				if ok {
					return
				}
				t.Logf("got %s", got)
			}
			t.Errorf("want %s", e.Expect)
		})
	}
}
