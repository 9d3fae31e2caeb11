package spmd

import (
	"errors"
	"testing"

	"perigee/internal/fault"
	"perigee/spmd/boot/watch"
)

// A rank may hear of a failure when its own work is done, and before it takes leave: it does not end well then.
func TestFailureBeforeTheGoodbye(t *testing.T) {
	errs := ranks(t, 2, nil, func(w *World) error {
		if w.Rank() == 1 {
			return fault.New(fault.Resource, "no room")
		}
		<-w.Context().Done()
		return nil
	})
	if f, ok := errors.AsType[watch.Failure](errs[0]); !ok || f.Rank != 1 || f.Kind != fault.Resource {
		t.Errorf("rank 0 has %v, want the failure of rank 1", errs[0])
	}
}
