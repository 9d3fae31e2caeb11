package boot

import (
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/fault"
)

// seat connects a client of a rank to a coordinator.
func seat(t *testing.T, c *Coordinator, rank, size int) *client {
	t.Helper()
	here, there := net.Pipe()
	c.Serve(there)
	cl, _, err := dialCoordinator(t.Context(), here, rank, size, "the coordinator")
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Put(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	return cl
}

// TestTimeoutNamesTheSilentRank has rank 0 give up waiting while rank 2 hears
// nothing, as if it were stopped.
func TestTimeoutNamesTheSilentRank(t *testing.T) {
	c := NewCoordinator(3, nil, nil)
	defer c.Close()
	waiter, patient := seat(t, c, 0, 3), seat(t, c, 1, 3)
	silent, far := net.Pipe()
	defer silent.Close()
	c.Serve(far)
	in := newMemoReader(silent)
	if m, err := in.next(); err != nil || m.Is != isSecret {
		t.Fatal(m, err)
	}
	if _, err := silent.Write([]byte(`{"is":"hello","rank":2,"size":3,"host":"far"}` + "\n" + `{"is":"phase","phase":"isolated"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := patient.Fence(t.Context()); err == nil {
		// The world is complete although rank 2 never reads what it is told.
		waiter.Abort(Failure{Phase: "isolated", Kind: fault.Timeout, Cause: "barrier of 3 ranks"})
	}
	select {
	case f := <-patient.Failed():
		if f.Rank != 2 || f.Host != "far" || f.Kind != fault.Timeout || !strings.Contains(f.Cause, "rank 0 waited") {
			t.Errorf("got %+v", f)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no failure")
	}
}

// TestTimeoutWithoutCulpritStaysWithTheWaiter is a deadlock of ranks that all
// are alive.
func TestTimeoutWithoutCulpritStaysWithTheWaiter(t *testing.T) {
	c := NewCoordinator(2, nil, nil)
	defer c.Close()
	waiter, other := seat(t, c, 0, 2), seat(t, c, 1, 2)
	if err := other.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiter.Abort(Failure{Phase: "workload", Kind: fault.Timeout, Cause: "barrier of 2 ranks"})
	select {
	case f := <-other.Failed():
		if f.Rank != 0 || f.Cause != "barrier of 2 ranks" {
			t.Errorf("got %+v", f)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no failure")
	}
}
