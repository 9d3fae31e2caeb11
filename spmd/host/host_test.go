package host

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newSegment(t testing.TB) *Segment {
	t.Helper()
	s, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestBarrierHoldsEverybodyBack(t *testing.T) {
	const parties, rounds = 5, 300
	s := newSegment(t)
	var arrived atomic.Int64
	var wg sync.WaitGroup
	for range parties {
		b, err := s.Barrier(Key([]int{1, 2}), parties, 2)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for round := range rounds {
				arrived.Add(1)
				if err := b.Wait(time.Time{}); err != nil {
					t.Error(err)
					return
				}
				if n := arrived.Load(); n < int64(parties*(round+1)) {
					t.Errorf("round %d: left after %d arrivals", round, n)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestGroupsDoNotDisturbEachOther(t *testing.T) {
	s := newSegment(t)
	a, err := s.Barrier(7, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	// The same place in the table, another group.
	b, err := s.Barrier(7+slotCount, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(time.Now().Add(20 * time.Millisecond)); err != ErrTimeout {
		t.Fatalf("a group of two met alone: %v", err)
	}
}

func TestAbortEndsSleepers(t *testing.T) {
	s := newSegment(t)
	b, err := s.Barrier(3, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- b.Wait(time.Time{}) }()
	for b.slot.sleepers.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Abort()
	if err := <-result; err != ErrAborted {
		t.Fatalf("got %v, want %v", err, ErrAborted)
	}
}

func TestFullTableIsAnError(t *testing.T) {
	s := newSegment(t)
	for i := range uint64(probeLimit) {
		s.slot(5 + i).key.Store(1 << 40)
	}
	if _, err := s.Barrier(5, 2, 2); err == nil {
		t.Fatal("found a place in a full table")
	}
}

func TestOpenRefusesOtherDescriptors(t *testing.T) {
	if s, err := Open(1, 0); err == nil {
		s.Close()
		t.Fatal("opened a descriptor that is no segment")
	}
}
