package watch

import (
	"fmt"
	"testing"

	"perigee/spmd/spmdtest"
)

// A coordinator that reads gets each phase of a job.
func TestPhasesReachTheCoordinator(t *testing.T) {
	c := newCoordinator(t, 1)
	cl := connectClient(t, c, 0)
	if err := cl.Put(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := cl.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	phase := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.members[0].phase
	}
	for i := range 1000 {
		name := fmt.Sprint("phase ", i)
		cl.Phase(name)
		spmdtest.Wait(t, func() bool { return phase() == name })
	}
	for i := range 10_000 {
		cl.Phase(fmt.Sprint("hurried phase ", i))
	}
	spmdtest.Wait(t, func() bool { return phase() == "hurried phase 9999" })
}
