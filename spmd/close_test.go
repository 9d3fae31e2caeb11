package spmd

import (
	"errors"
	"testing"

	"perigee/internal/kit/fault"
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

// A rank of a failed job begins no collective, though all messages for it may be there: a loop of them ends.
func TestNoCollectiveAfterFailure(t *testing.T) {
	sent := make(chan struct{})
	errs := ranks(t, 2, nil, func(w *World) error {
		if w.Rank() == 1 { // a root waits for nothing
			for range 2 {
				if _, err := w.All().Broadcast(1, nil); err != nil {
					return err
				}
			}
			close(sent)
			<-w.Context().Done()
			return nil
		}
		if _, err := w.All().Broadcast(1, nil); err != nil {
			return err
		}
		<-sent
		w.Fail(fault.New(fault.Resource, "no room"))
		if _, err := w.All().Broadcast(1, nil); err == nil {
			t.Error("a collective went well after the failure")
		}
		return nil
	})
	if f, ok := errors.AsType[watch.Failure](errs[1]); !ok || f.Rank != 0 || f.Kind != fault.Resource {
		t.Errorf("rank 1 has %v, want the failure of rank 0", errs[1])
	}
}
