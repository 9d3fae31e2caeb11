package watch

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/spmd/spmdtest"
)

// Rank 0 closes the coordinator as soon as it knows of a failure. The ranks hear of it all
// the same, even if telling the user takes long.
func TestCloseTellsTheFailureFirst(t *testing.T) {
	c := NewCoordinator(2, []byte("secret"))
	c.Announce = func(Failure) { <-t.Context().Done() }
	ranks := world(t, c, 2)
	c.Fail(Failure{Rank: 1, Kind: fault.Script, Cause: "a typo"})
	c.Close()
	for r, s := range ranks {
		if f := s.hear().Failure; f == nil || f.Cause != "a typo" {
			t.Errorf("rank %d heard %+v", r, f)
		}
		s.hangsUp()
	}
}

// connectFollower connects a Client of a rank to a coordinator inside rank 0.
func connectFollower(t *testing.T, c *Coordinator, rank int) *Client {
	t.Helper()
	ours, theirs := pair(t)
	c.Serve(theirs, rank)
	cl, _, err := NewClient(t.Context(), ours, Self{Rank: rank, Size: c.size}, Leader{Name: "rank 0", Rank: 0, Reports: rank > 0})
	must.Do(t, err)
	return cl
}

// A rank that fails before it has said hello ends the job, and is told what ended it: its own
// failure, or one that came before.
func TestFailureBeforeHello(t *testing.T) {
	c := newCoordinator(t, 3)
	for rank := 1; rank < 3; rank++ {
		early := connectFollower(t, c, rank)
		f := early.Abort(Failure{Phase: "start", Kind: fault.Resource, Cause: "no descriptor is left"})
		if f.Rank != 1 || f.Kind != fault.Resource || f.Cause != "no descriptor is left" || f.Alone {
			t.Errorf("rank %d is told %+v", rank, f)
		}
		if err := early.Leave(t.Context()); err != nil {
			t.Errorf("rank %d leaves: %v", rank, err)
		}
	}
	if f := c.Failure(); f == nil || f.Rank != 1 || f.Kind != fault.Resource {
		t.Errorf("job failed with %+v", f)
	}
}

// One process too many does not end a complete world, whatever it cannot do.
func TestSurplusProcessFailsAlone(t *testing.T) {
	c := newCoordinator(t, 2)
	ranks := world(t, c, 2)
	surplus := connectFollower(t, c, 1)
	f := surplus.Abort(Failure{Phase: "start", Kind: fault.Launch, Cause: "ib7 means no address"})
	if f.Cause != "ib7 means no address" || f.Alone {
		t.Errorf("it is told %+v", f)
	}
	surplus.Leave(t.Context())
	if f := c.Failure(); f != nil {
		t.Errorf("job failed: %+v", f)
	}
	ranks[1].say(message{Is: isGet, Rank: 0})
	if m := ranks[1].hear(); m.Is != isCard {
		t.Errorf("a world at work heard %+v", m)
	}
}

// The missing ranks are named, whichever rank times out first.
func TestMissingRanksAreNamedByAll(t *testing.T) {
	for impatient := range 2 {
		c := newCoordinator(t, 4)
		c.Absence = func() string { return "start them too" }
		ranks := []*Client{connectClient(t, c, 0), connectClient(t, c, 1)}
		for _, r := range ranks {
			r.Put(t.Context(), nil)
		}
		spmdtest.Wait(t, func() bool { return len(c.Missing()) == 2 })
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fault.New(fault.Launch, "not all ranks came within 10s"))
		got := ranks[impatient].Abort(FailureOf(ranks[impatient].Fence(ctx)))
		const want = "2 of 4 ranks have not come: 2 3; "
		if got.Rank != impatient || got.Kind != fault.Launch || got.Hint != "start them too" || !strings.HasPrefix(got.Cause, want) ||
			!strings.HasSuffix(got.Cause, "not all ranks came within 10s") {
			t.Errorf("rank %d is told %+v, want %s", impatient, got, want)
		}
		if f := <-ranks[1-impatient].Failed(); f != got {
			t.Errorf("rank %d is told %+v", 1-impatient, f)
		}
	}
}

// A failure that the rank has been told, and has not looked at yet, is new to it when it leaves.
func TestFailureJustBeforeAFollowersGoodbye(t *testing.T) {
	c := newCoordinator(t, 2)
	f := connectFollower(t, c, 1)
	f.Put(t.Context(), nil)
	c.Fail(Failure{Rank: 0, Kind: fault.Corrupt, Cause: "bytes differ"})
	<-f.down
	c.Close()
	if err := f.Leave(t.Context()); fault.KindOf(err) != fault.Corrupt {
		t.Errorf("left with %v", err)
	}
}

// A rank that does not leave is named by rank 0, and hears of it.
func TestWhoDoesNotLeaveIsNamed(t *testing.T) {
	c := NewCoordinator(3, []byte("secret"))
	own := connectFollower(t, c, 0)
	gone, staying := connectTo(t, c, 1), connectTo(t, c, 2)
	own.Put(t.Context(), nil)
	gone.say(hello(1, 3))
	staying.say(hello(2, 3))
	must.Do(t, own.Fence(t.Context()))
	staying.hear() // that all are there
	staying.say(message{Is: isPhase, Phase: "verdict"})
	gone.say(message{Is: isLeave})
	<-gone.done
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := (&LeadingClient{Client: own, Coordinator: c, Shut: func() {}}).Leave(ctx)
	f, ok := err.(Failure)
	if !ok || f.Rank != 2 || f.Host != "node2" || f.Phase != "verdict" || f.Kind != fault.RankLost || f.Cause != "it did not disconnect in time: stopped, or cut off" {
		t.Errorf("got %#v", err)
	}
	if told := staying.hear().Failure; told == nil || *told != f {
		t.Errorf("it heard %+v", told)
	}
}

// A rank whose goodbye is not answered says so, and names who does not.
func TestGoodbyeIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		leader Leader
		want   string
	}{
		{Leader{Name: "rank 0, the coordinator", Rank: 0}, "rank 0: it has not answered when rank 1 left"},
		{Leader{Name: "the launcher", Rank: -1}, "the launcher has not answered when rank 1 left"},
	} {
		ours, theirs := pair(t)
		(&speaker{t: t, conn: theirs}).say(message{Is: isSecret, Build: new(version.Get())})
		cl, _, err := NewClient(t.Context(), ours, Self{Rank: 1, Size: 2}, c.leader)
		must.Do(t, err)
		err = cl.Leave(ctx)
		f, ok := err.(Failure)
		if !ok || !strings.HasPrefix(err.Error(), c.want) || f.Kind != fault.RankLost || f.Alone != (c.leader.Rank == 0) {
			t.Errorf("got %#v", err)
		}
	}
}

// Where the job fails before all ranks have come, rank 0 stays until all have heard of it: those that say hello, and
// those that fail themselves.
func TestLateRanksHearOfTheFailure(t *testing.T) {
	c := newCoordinator(t, 3)
	lead := &LeadingClient{Client: connectFollower(t, c, 0), Coordinator: c, Shut: func() {}}
	want := Failure{Rank: 0, Phase: "start", Kind: fault.Resource, Cause: "file too large"}
	if f := lead.Abort(want); f != want {
		t.Errorf("rank 0 is told %+v", f)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		lead.AwaitLate(t.Context())
		lead.Leave(t.Context())
	}()
	late := connectFollower(t, c, 1)
	late.Put(t.Context(), nil)
	if err := late.Fence(t.Context()); err != want {
		t.Errorf("rank 1 is told %v", err)
	}
	select {
	case <-gone:
		t.Error("rank 0 has left before rank 2 has come")
	default:
	}
	broken := connectFollower(t, c, 2)
	if f := broken.Abort(Failure{Kind: fault.Launch, Cause: "no address"}); f != want {
		t.Errorf("rank 2 is told %+v", f)
	}
	<-gone
}

// Who gives up, is interrupted while it waits for others, or has lost its launcher does not wait for them.
func TestNothingToWaitFor(t *testing.T) {
	c := newCoordinator(t, 2)
	lead := &LeadingClient{Client: connectFollower(t, c, 0), Coordinator: c, Shut: func() {}}
	lead.Abort(Failure{Kind: fault.Interrupt, Cause: "ended by signal"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	lead.AwaitLate(ctx)
	waits, interrupt := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { interrupt(fault.New(fault.Interrupt, "ended by signal")) })
	lead.AwaitLate(waits)
	died, die := context.WithCancel(t.Context())
	die()
	lead.launcher = died
	lead.AwaitLate(t.Context())
	if took := time.Since(began); took >= lateWait {
		t.Errorf("waited for %v", took)
	}
}

// Ranks that have been told of the failure make room for those that have not.
func TestDismiss(t *testing.T) {
	c := newCoordinator(t, 3)
	told, silent := connectTo(t, c, 1), connectTo(t, c, 2)
	told.say(hello(1, 3))
	spmdtest.Wait(t, func() bool { return len(c.Missing()) == 2 })
	c.Dismiss() // too early
	c.Fail(Failure{Rank: 0, Kind: fault.Resource, Cause: "too many open files"})
	<-c.toldAll
	c.Dismiss()
	if f := told.hear().Failure; f == nil || f.Cause != "too many open files" {
		t.Errorf("heard %+v", f)
	}
	told.hangsUp()
	silent.say(hello(2, 3))
	if f := silent.hear().Failure; f == nil || f.Cause != "too many open files" {
		t.Errorf("the one that came last heard %+v", f)
	}
}

// A rank that has given up a message in the middle, since the coordinator did not read, sends no other behind it.
func TestNothingFollowsATornMessage(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go (&speaker{t: t, conn: theirs}).say(message{Is: isSecret, Build: new(version.Get())})
	cl, _, err := NewClient(t.Context(), ours, Self{Rank: 1, Size: 2}, Leader{Name: "rank 0"})
	must.Do(t, err)
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		io.ReadFull(theirs, make([]byte, 10))
		ours.SetWriteDeadline(time.Unix(1, 0))
	}()
	cl.Phase("torn")
	<-begun
	ours.SetWriteDeadline(time.Time{})
	rest := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(theirs)
		rest <- b
	}()
	cl.Phase("next")
	ours.Close()
	if b := <-rest; len(b) > 0 {
		t.Errorf("it has sent %q", b)
	}
	<-cl.end
}
