package host

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/memory"
	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

func newSegment(t testing.TB) *Segment {
	t.Helper()
	s, err := Create(7)
	must.Do(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestBarrierHoldsEverybodyBack(t *testing.T) {
	const parties, rounds = 5, 100
	s := newSegment(t)
	var arrived atomic.Int64
	var wg sync.WaitGroup
	for range parties {
		b, err := s.Barrier(Key([]int{1, 2}), parties, 2)
		must.Do(t, err)
		wg.Go(func() {
			for round := range rounds {
				arrived.Add(1)
				if err := b.Wait(1, 0); err != nil {
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

// Each party brings another number in each round, so that one of another round would be seen.
func TestMaxIsThatOfTheRound(t *testing.T) {
	const parties, rounds = 4, 500
	s := newSegment(t)
	var wg sync.WaitGroup
	for party := range int64(parties) {
		b, err := s.Barrier(Key([]int{3, 4}), parties, 2)
		must.Do(t, err)
		wg.Go(func() {
			for round := range int64(rounds) {
				falls := 10*(rounds-round) + party
				got, err := b.Max(1, 0, [2]int64{falls, round%7*10 + (party+round)%parties})
				if want := [2]int64{10*(rounds-round) + parties - 1, round%7*10 + parties - 1}; err != nil || got != want {
					t.Errorf("party %d, round %d: got %v and %v, want %v", party, round, got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Who brings numbers notices those who bring none, in whatever round.
func TestMaxBesideWait(t *testing.T) {
	for rounds := range 7 {
		s := newSegment(t)
		var wg sync.WaitGroup
		for party := range 3 {
			b, err := s.Barrier(5, 3, 2)
			must.Do(t, err)
			wg.Go(func() {
				for range rounds {
					if _, err := b.Max(1, 0, [2]int64{1, 2}); err != nil {
						t.Errorf("party %d: %v", party, err)
					}
				}
				if party == 1 {
					if err := b.Wait(1, 0); err != nil {
						t.Error(err)
					}
				} else if _, err := b.Max(1, 0, [2]int64{1, 2}); !errors.Is(err, ErrMixed) {
					t.Errorf("party %d after %d rounds: got %v, want %v", party, rounds, err, ErrMixed)
				}
			})
		}
		wg.Wait()
	}
}

// A process with several ranks has mapped as many segments, and then a rank that waits sleeps sooner.
func TestMappedSegmentsAreCounted(t *testing.T) {
	before := mapped.Load()
	s := newSegment(t)
	other, err := Open(os.Getpid(), s.FD(), 7)
	must.Do(t, err)
	if n := mapped.Load() - before; n != 2 {
		t.Errorf("%d segments are mapped, want 2", n)
	}
	for range 2 { // the second Close does nothing
		if err := errors.Join(s.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}
	if n := mapped.Load() - before; n != 0 {
		t.Errorf("%d segments are mapped after Close, want 0", n)
	}
}

func TestGroupsDoNotDisturbEachOther(t *testing.T) {
	s := newSegment(t)
	a, err := s.Barrier(7, 2, 2)
	must.Do(t, err)
	// The same place in the table, another group.
	b, err := s.Barrier(7+slotCount, 1, 2)
	must.Do(t, err)
	must.Do(t, b.Wait(1, 0))
	if err := a.Wait(1, 20*time.Millisecond); err != ErrTimeout {
		t.Fatalf("a group of two met alone: %v", err)
	}
}

func TestAbortEndsSleepers(t *testing.T) {
	s := newSegment(t)
	b, err := s.Barrier(3, 2, 2)
	must.Do(t, err)
	result := make(chan error)
	go func() { result <- b.Wait(1, 0) }()
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

func TestOpen(t *testing.T) {
	s := newSegment(t)
	again, err := Open(os.Getpid(), s.FD(), 7)
	must.Do(t, err)
	defer again.Close()
	if again.Abort(); s.head().aborted.Load() == 0 {
		t.Error("it is not the same memory")
	}
	if err := unix.Ftruncate(s.FD(), 0); err == nil {
		t.Error("it can be made shorter, and those who use it would be killed")
	}
	// One of an earlier version, or of a process that wants others to die of a page that is not there.
	short, err := memory.CreateFile(memoryName, 0)
	must.Do(t, err)
	defer unix.Close(short)
	must.Do(t, errors.Join(unix.Ftruncate(short, int64(segSize)-4096), memory.SealFile(short)))
	unsealed, err := memory.CreateFile(memoryName, 0)
	must.Do(t, err)
	defer unix.Close(unsealed)
	must.Do(t, unix.Ftruncate(unsealed, int64(segSize)))
	for name, c := range map[string]struct {
		pid, fd int
		job     uint64
		want    string
	}{
		"standard input": {1, 0, 7, "does not share"}, "short": {os.Getpid(), short, 7, "wanted"},
		"not sealed": {os.Getpid(), unsealed, 7, "does not share"}, "another job": {os.Getpid(), s.FD(), 8, "another job"},
	} {
		if s, err := Open(c.pid, c.fd, c.job); err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCloseEndsWaits(t *testing.T) {
	s, err := Create(7)
	must.Do(t, err)
	b, err := s.Barrier(3, 2, 2)
	must.Do(t, err)
	result := make(chan error)
	go func() { result <- b.Wait(1, 0) }()
	for b.Called() != 1 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if b.Called() != 0 {
		t.Error("a rank waits in a closed segment")
	}
	if err := <-result; err != ErrClosed {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
	if err := b.Wait(1, 0); err != ErrClosed {
		t.Errorf("wait in a closed segment: %v", err)
	}
	if _, err := s.Barrier(4, 2, 2); err != ErrClosed {
		t.Errorf("barrier in a closed segment: %v", err)
	}
	s.Abort()
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// The wake-up comes from the last arrival, not from the next look.
func TestSleepersAreWoken(t *testing.T) {
	s := newSegment(t)
	waiter, err := s.Barrier(3, 2, 2)
	must.Do(t, err)
	waiter.nap = time.Hour
	late, err := s.Barrier(3, 2, 2)
	must.Do(t, err)
	for range 10 {
		left := make(chan error, 1)
		go func() { left <- waiter.Wait(1, 0) }()
		spmdtest.Wait(t, func() bool { return late.slot.sleepers.Load() > 0 })
		must.Do(t, late.Wait(1, 0))
		select {
		case err := <-left:
			must.Do(t, err)
		case <-time.After(spmdtest.Patience):
			t.Fatal("the sleeper was not woken")
		}
	}
}

// A rank that waits long must leave the CPU to those who work.
func TestLongWaitsCostNoCPU(t *testing.T) {
	s := newSegment(t)
	for _, parties := range []int{2, 9} { // fewer and more than the cores it is told of
		b, err := s.Barrier(uint64(parties), parties, 4)
		must.Do(t, err)
		used := make(chan time.Duration)
		go func() {
			runtime.LockOSThread()
			before := cpuTime(t)
			if err := b.Wait(1, 250*time.Millisecond); err != ErrTimeout {
				t.Errorf("got %v, want %v", err, ErrTimeout)
			}
			used <- cpuTime(t) - before
		}()
		if d := <-used; d > 5*time.Millisecond {
			t.Errorf("waiting 250 ms for %d parties took %v of CPU", parties, d)
		}
	}
}

// cpuTime is what the calling thread has used.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Error(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A rank that was late to say in which call it waits, though that is over, must not hide the call in which another waits.
func TestCalledIsThatOfTheLastWait(t *testing.T) {
	s := newSegment(t)
	b, err := s.Barrier(7, 2, 2)
	must.Do(t, err)
	done := make(chan error)
	go func() { done <- b.Wait(3, 0) }()
	spmdtest.Wait(t, func() bool { return b.Called() == 3 })
	b.slot.call.Store(2)
	spmdtest.Wait(t, func() bool { return b.Called() == 3 })
	if err := b.Wait(3, 0); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
