package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
)

// seat connects a Client of a rank to a coordinator.
func seat(t *testing.T, c *Coordinator, rank, size int) *Client {
	t.Helper()
	return seatAt(t, c, rank, size, "")
}

// seatAt is seat for a rank on a host; "" is this one.
func seatAt(t *testing.T, c *Coordinator, rank, size int, host string) *Client {
	t.Helper()
	here, there := net.Pipe()
	c.Serve(there, rank)
	cl, _, err := NewClient(t.Context(), here, Self{Rank: rank, Size: size, Host: host}, Leader{Name: "the coordinator", Rank: -1})
	must.Do(t, err)
	must.Do(t, cl.Put(t.Context(), nil))
	t.Cleanup(func() { here.Close() })
	return cl
}

// TestTimeoutNamesTheSilentRank has rank 0 give up waiting while rank 2 hears
// nothing, as if it were stopped.
func TestTimeoutNamesTheSilentRank(t *testing.T) {
	c := NewCoordinator(3, nil)
	defer c.Close()
	waiter, patient := seat(t, c, 0, 3), seat(t, c, 1, 3)
	defer mute(t, c, 2, 3, "far", "isolated").Close()
	if err := patient.Fence(t.Context()); err == nil {
		// The world is complete although rank 2 never reads what it is told.
		waiter.Abort(Failure{Phase: "isolated", Kind: fault.Timeout, Cause: "barrier of 3 ranks"})
	}
	select {
	case f := <-patient.Failed():
		if f.Rank != 2 || f.Host != "far" || f.Kind != fault.Timeout || !strings.Contains(f.Cause, "rank 0 timed out waiting") {
			t.Errorf("got %+v", f)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("no failure")
	}
}

// TestTimeoutWithoutCulpritStaysWithTheWaiter is a deadlock of ranks that all
// are alive.
func TestTimeoutWithoutCulpritStaysWithTheWaiter(t *testing.T) {
	c := NewCoordinator(2, nil)
	defer c.Close()
	waiter, other := seat(t, c, 0, 2), seat(t, c, 1, 2)
	must.Do(t, other.Fence(t.Context()))
	waiter.Abort(Failure{Phase: "workload", Kind: fault.Timeout, Cause: "barrier of 2 ranks"})
	select {
	case f := <-other.Failed():
		if f.Rank != 0 || f.Cause != "barrier of 2 ranks" {
			t.Errorf("got %+v", f)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("no failure")
	}
}

// mute connects a rank that says where it is and in what phase, and nothing more.
func mute(t *testing.T, c *Coordinator, rank, size int, host, phase string) net.Conn {
	t.Helper()
	silent, far := net.Pipe()
	t.Cleanup(func() { silent.Close() })
	c.Serve(far, rank)
	var m message
	if err := json.NewDecoder(silent).Decode(&m); err != nil || m.Is != isSecret {
		t.Fatal(m, err)
	}
	if _, err := fmt.Fprintf(silent, `{"is":"hello","rank":%d,"size":%d,"host":%q,"build":{"version":"`+version.Version+`"}}`+"\n"+`{"is":"phase","phase":%q}`+"\n", rank, size, host, phase); err != nil {
		t.Fatal(err)
	}
	return silent
}

// TestWhoIsBlamed has rank 0, on host "alive", report what may be an echo while
// some ranks are silent.
func TestWhoIsBlamed(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  fault.Kind
		hosts []string // of ranks 1, 2, ...; "!" before those that do not answer
		rank  int
		cause string
		want  fault.Kind
	}{
		{"all answer", fault.RankLost, []string{"alive", "b"}, 0, "link from rank 1", fault.RankLost},
		{"an engine fails by itself", fault.Engine, []string{"b", "c"}, 0, "link from rank 1", fault.Engine},
		{"an engine fails since a host is cut off", fault.Engine, []string{"b", "!c"}, 2,
			"it does not answer: cut off, or its host is down; rank 0 timed out waiting (link from rank 1)", fault.RankLost},
		{"a host is cut off", fault.RankLost, []string{"!b", "c", "!b"}, 1,
			"ranks 1 3 on b do not answer: cut off, or its host is down; rank 0 timed out waiting (link from rank 1)", fault.RankLost},
		{"two of three hosts", fault.Timeout, []string{"!b", "!c", "d"}, 1,
			"ranks 1 on b, 2 on c do not answer: stopped, or cut off; rank 0 timed out waiting (link from rank 1)", fault.Timeout},
		{"the only other host", fault.RankLost, []string{"alive", "!b"}, 2,
			"it does not answer: cut off, or its host is down; rank 0 timed out waiting (link from rank 1)", fault.RankLost},
		{"many ranks", fault.RankLost, slices.Concat([]string{"c"}, slices.Repeat([]string{"!b"}, 10)), 2,
			"ranks 2 3 4 5 6 7 8 9 on b and 2 more do not answer: cut off, or its host is down; rank 0 timed out waiting (link from rank 1)", fault.RankLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			size := 1 + len(test.hosts)
			c := NewCoordinator(size, nil)
			defer c.Close()
			reporter := seat(t, c, 0, size)
			for i, h := range test.hosts {
				if name, silent := strings.CutPrefix(h, "!"); silent {
					defer mute(t, c, i+1, size, name, "workload").Close()
				} else {
					seatAt(t, c, i+1, size, name)
				}
			}
			must.Do(t, reporter.Fence(t.Context()))
			reporter.Abort(Failure{Phase: "workload", Kind: test.kind, Cause: "link from rank 1"})
			// Who has reported it learns, like all others, what it was.
			f := <-reporter.Failed()
			if f.Rank != test.rank || f.Cause != test.cause || f.Kind != test.want || f.Phase != "workload" {
				t.Errorf("got rank %d in %s, kind %d: %s\nwant rank %d, kind %d: %s", f.Rank, f.Phase, f.Kind, f.Cause, test.rank, test.want, test.cause)
			}
		})
	}
}

// TestRankZeroIsCutOff has all other hosts silent: then rank 0's own is to blame.
func TestRankZeroIsCutOff(t *testing.T) {
	c := NewCoordinator(4, nil)
	defer c.Close()
	reporter := seat(t, c, 0, 4)
	own := reporter.self.Host
	seatAt(t, c, 1, 4, own)
	for rank, host := range map[int]string{2: "b", 3: "c"} {
		defer mute(t, c, rank, 4, host, "isolated").Close()
	}
	must.Do(t, reporter.Fence(t.Context()))
	reporter.Phase("isolated")
	c.lost(c.members[2], fmt.Errorf("read: %w", syscall.ETIMEDOUT))
	f := <-reporter.Failed()
	const want = "this host is cut off from all others, or they are: ranks 2 on b, 3 on c do not answer (read: connection timed out)"
	if f.Rank != 0 || f.Host != own || f.Kind != fault.RankLost || f.Cause != want {
		t.Errorf("got %+v, want %s", f, want)
	}
}

// A rank that has to end since another is lost is not the first failure, though that loss is still looked into.
func TestLossBeforeSignal(t *testing.T) {
	c := NewCoordinator(3, nil)
	defer c.Close()
	reporter := seat(t, c, 0, 3)
	seat(t, c, 1, 3)
	defer mute(t, c, 2, 3, "far", "workload").Close()
	must.Do(t, reporter.Fence(t.Context()))
	c.lost(c.members[2], fmt.Errorf("read: %w", syscall.ETIMEDOUT))
	f := reporter.Abort(Failure{Kind: fault.Interrupt, Cause: "ended by signal: terminated"})
	if f.Rank != 2 || f.Host != "far" || f.Kind != fault.RankLost {
		t.Errorf("got %+v", f)
	}
}

// TestSlowIsNotStopped has two ranks silent for a second, of which one is only slow.
func TestSlowIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCoordinator(3, nil)
		defer c.Close()
		reporter := seat(t, c, 0, 3)
		stopped, slow := mute(t, c, 1, 3, "b", "workload"), mute(t, c, 2, 3, "c", "workload")
		defer stopped.Close()
		defer slow.Close()
		must.Do(t, reporter.Fence(t.Context()))
		probed := time.Now()
		time.AfterFunc(probeTime+countStep, func() { fmt.Fprintln(slow, `{"is":"alive"}`) })
		f := reporter.Abort(Failure{Phase: "workload", Kind: fault.Timeout, Cause: "barrier of 3 ranks"})
		const want = "it does not answer: stopped, or cut off; rank 0 timed out waiting (barrier of 3 ranks)"
		if f.Rank != 1 || f.Cause != want {
			t.Errorf("got rank %d: %s\nwant rank 1: %s", f.Rank, f.Cause, want)
		}
		if took := time.Since(probed); took < probeTime*probeRounds || took > probeTime*probeRounds+announceLimit {
			t.Errorf("took %v", took)
		}
	})
}

// TestSignOfLife has rank 0 say once that it looks into the failure, and then nothing
// more: it is to blame only some time after its last word.
func TestSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		go io.Copy(io.Discard, theirs)
		say := func(m message) { json.NewEncoder(theirs).Encode(m) }
		go say(message{Is: isSecret, Build: new(version.Get())})
		c, _, err := NewClient(t.Context(), ours, Self{Rank: 1, Size: 3}, Leader{Name: "rank 0", Rank: 0})
		must.Do(t, err)
		begun := time.Now()
		time.AfterFunc(2*time.Second, func() { say(message{Is: isProbe}) })
		f := c.Abort(Failure{Phase: "workload", Kind: fault.Timeout, Cause: "barrier of 3 ranks"})
		if f.Rank != 0 || !f.Alone || !strings.HasPrefix(f.Cause, "it does not answer: stopped, or cut off; rank 1 timed out waiting") {
			t.Errorf("got %+v", f)
		}
		if took := time.Since(begun); took < 2*time.Second+verdictWait-countStep || took > 2*time.Second+verdictWait {
			t.Errorf("took %v", took)
		}
	})
}
