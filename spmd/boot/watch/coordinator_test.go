package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/spmd/spmdtest"
)

// pair returns two ends of a connection with buffers, as a launcher makes it.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns[0], conns[1]
}

// speaker is a rank that says what a test wants.
type speaker struct {
	t    testing.TB
	conn net.Conn
	in   *json.Decoder
	done <-chan struct{} // closed when the coordinator is through with it
}

func newCoordinator(t testing.TB, size int) *Coordinator {
	c := NewCoordinator(size, []byte("secret"))
	t.Cleanup(c.Close)
	return c
}

// connect meets the coordinator and has heard the secret.
func connectTo(t testing.TB, c *Coordinator, rank int) *speaker {
	t.Helper()
	ours, theirs := pair(t)
	s := &speaker{t: t, conn: ours, in: json.NewDecoder(ours), done: c.Serve(theirs, rank)}
	ours.SetReadDeadline(time.Now().Add(5 * time.Minute))
	if m := s.hear(); m.Is != isSecret || string(m.Secret) != "secret" {
		t.Fatalf("first words: %+v", m)
	}
	return s
}

func (s *speaker) say(m message) {
	s.t.Helper()
	if err := json.NewEncoder(s.conn).Encode(m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *speaker) hear() message {
	s.t.Helper()
	var m message
	if err := s.in.Decode(&m); err != nil {
		s.t.Fatalf("heard %v", err)
	}
	return m
}

func (s *speaker) hangsUp() {
	s.t.Helper()
	var m message
	if err := s.in.Decode(&m); err == nil {
		s.t.Fatalf("heard %+v instead of the end", m)
	}
}

func hello(rank, size int) message {
	return message{Is: isHello, Size: size, Host: fmt.Sprint("node", rank), Card: []byte{byte(rank)}, Build: new(version.Get())}
}

// world lets n ranks say hello and hear that all are there.
func world(t testing.TB, c *Coordinator, n int) []*speaker {
	t.Helper()
	ranks := make([]*speaker, n)
	for r := range ranks {
		ranks[r] = connectTo(t, c, r)
		ranks[r].say(hello(r, n))
	}
	for _, s := range ranks {
		if m := s.hear(); m.Is != isReady {
			t.Fatalf("heard %+v instead of ready", m)
		}
	}
	return ranks
}

func TestCardsReachEverybody(t *testing.T) {
	c := newCoordinator(t, 3)
	ranks := world(t, c, 3)
	for asker, s := range ranks {
		for r := range 3 {
			s.say(message{Is: isGet, Rank: r})
			if m := s.hear(); m.Is != isCard || m.Rank != r || !bytes.Equal(m.Card, []byte{byte(r)}) {
				t.Errorf("rank %d asked for the card of %d, got %+v", asker, r, m)
			}
		}
		s.say(message{Is: isGet, Rank: 3}) // not answered, not fatal
		s.say(message{Is: isGet, Rank: -1})
		s.say(message{Is: "a word of a later version"})
	}
	for _, s := range ranks {
		s.say(message{Is: isLeave})
		s.hangsUp()
	}
	<-c.Finished()
	if f := c.Failure(); f != nil {
		t.Errorf("all left well: %v", f)
	}
}

// Whatever goes wrong with one rank, and whenever: the others are told.
func TestLossIsToldWithItsPhase(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *speaker)
		phase string
		cause string
	}{
		"gone after the start":  {func(s *speaker) { s.conn.Close() }, "start", "its process is gone"},
		"gone in a later phase": {func(s *speaker) { s.say(message{Is: isPhase, Phase: "measure 7"}); s.conn.Close() }, "measure 7", "its process is gone"},
		"garbage":               {func(s *speaker) { fmt.Fprintln(s.conn, "GET / HTTP/1.1") }, "start", "invalid character"},
		"binary garbage":        {func(s *speaker) { s.conn.Write([]byte("\x00\xff\xfe\n")) }, "start", "invalid character"},
		"a torn line":           {func(s *speaker) { io.WriteString(s.conn, `{"is":"ph`); s.conn.Close() }, "start", "its process is gone"},
		"an abort": {func(s *speaker) {
			s.say(message{Is: isAbort, Failure: &Failure{Rank: 0, Phase: "verify", Kind: fault.Corrupt, Cause: "bad bytes", Hint: "look"}})
		}, "verify", "bad bytes"},
		"an abort, then the end": {func(s *speaker) { s.say(message{Is: isAbort, Failure: &Failure{Cause: "why"}}); s.conn.Close() }, "start", "why"},
	} {
		t.Run(name, func(t *testing.T) {
			co := newCoordinator(t, 3)
			ranks := world(t, co, 3)
			c.spoil(ranks[1])
			for _, r := range []int{0, 2} {
				f := ranks[r].hear().Failure
				if f == nil || f.Rank != 1 || f.Host != "node1" || f.Phase != c.phase || !strings.Contains(f.Cause, c.cause) {
					t.Errorf("rank %d heard %+v, want rank 1 on node1 in phase %s: %s", r, f, c.phase, c.cause)
				}
			}
			<-co.Failed()
		})
	}
}

func TestTheLauncherKnowsBetterHowARankEnded(t *testing.T) {
	c := newCoordinator(t, 2)
	c.Launched = true
	ranks := world(t, c, 2)
	ranks[0].conn.Close()
	<-ranks[0].done
	c.Ended(0, "exit code of rank 0")
	if f := ranks[1].hear().Failure; f == nil || f.Rank != 0 || f.Cause != "exit code of rank 0" {
		t.Errorf("heard %+v", f)
	}
}

func TestEndOfAProcessThatNeverReported(t *testing.T) {
	c := newCoordinator(t, 2)
	s := connectTo(t, c, 0)
	s.say(hello(0, 2))
	c.Ended(1, "exit code 3")
	if f := s.hear().Failure; f == nil || f.Rank != 1 || f.Phase != "start" || f.Cause != "exit code 3" || f.Kind != fault.RankLost {
		t.Errorf("heard %+v", f)
	}
}

func TestFirstFailureWins(t *testing.T) {
	c := newCoordinator(t, 3)
	ranks := world(t, c, 3)
	c.Fail(Failure{Rank: 2, Kind: fault.Script, Cause: "first"})
	c.Fail(Failure{Rank: 1, Kind: fault.Internal, Cause: "second"})
	ranks[0].conn.Close()
	ranks[1].say(message{Is: isAbort, Failure: &Failure{Cause: "third"}})
	for _, r := range []int{1, 2} {
		if f := ranks[r].hear().Failure; f == nil || f.Cause != "first" || f.Host != "node2" {
			t.Errorf("rank %d heard %+v", r, f)
		}
	}
	<-ranks[0].done
	if f := c.Failure(); f.Cause != "first" {
		t.Errorf("failure is now %v", f)
	}
}

func TestALateRankHearsOfTheFailure(t *testing.T) {
	c := newCoordinator(t, 2)
	c.Fail(Failure{Rank: 1, Kind: fault.Script, Cause: "early"})
	s := connectTo(t, c, 0)
	s.say(hello(0, 2))
	if f := s.hear().Failure; f == nil || f.Cause != "early" {
		t.Errorf("heard %+v", f)
	}
}

func TestGoodbyeThenSilenceIsNoFailure(t *testing.T) {
	c := newCoordinator(t, 2)
	ranks := world(t, c, 2)
	ranks[0].say(message{Is: isLeave})
	ranks[0].hangsUp()
	ranks[0].conn.Close()
	<-ranks[0].done
	c.Ended(0, "exited with code 0")
	if f := c.Failure(); f != nil {
		t.Errorf("a goodbye became %v", f)
	}
	select {
	case <-c.Finished():
		t.Error("finished with one of two ranks")
	default:
	}
	if missing := c.Missing(); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
}

func TestWhoCannotBelongIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		rank, size int
		want       string
	}{
		"taken":      {0, 3, "two processes have rank 0, one on node0 and one on node0"},
		"too high":   {3, 3, "rank 3 on node3 does not exist in a world of 3"},
		"negative":   {-1, 3, "does not exist"},
		"other size": {1, 4, "was told of 4 ranks, the coordinator of the job of 3"},
	} {
		t.Run(name, func(t *testing.T) {
			co := newCoordinator(t, 3)
			first := connectTo(t, co, 0)
			first.say(hello(0, 3))
			spmdtest.Wait(t, func() bool { return len(co.Missing()) == 2 })
			bad := connectTo(t, co, c.rank)
			bad.say(hello(c.rank, c.size))
			for who, s := range map[string]*speaker{"the refused": bad, "the first": first} {
				if f := s.hear().Failure; f == nil || !strings.Contains(f.Cause, c.want) {
					t.Errorf("%s heard %+v, want %q", who, f, c.want)
				}
			}
			bad.hangsUp()
		})
		t.Run(name+" in a complete world", func(t *testing.T) {
			co := newCoordinator(t, 3)
			ranks := world(t, co, 3)
			bad := connectTo(t, co, c.rank)
			bad.say(hello(c.rank, c.size))
			if f := bad.hear().Failure; f == nil {
				t.Error("not refused")
			}
			bad.hangsUp()
			<-bad.done
			ranks[0].say(message{Is: isGet, Rank: 1})
			if m := ranks[0].hear(); m.Is != isCard {
				t.Errorf("a world at work heard %+v", m)
			}
		})
	}
}

func TestBeforeHello(t *testing.T) {
	c := newCoordinator(t, 2)
	for _, line := range []string{"", "x\n", "{}\n", `{"is":"leave"}` + "\n", `{"is":"abort"}` + "\n"} {
		s := connectTo(t, c, 1)
		io.WriteString(s.conn, line)
		s.conn.(*net.UnixConn).CloseWrite()
		s.hangsUp()
		<-s.done
		if f := c.Failure(); f != nil || len(c.Missing()) != 2 {
			t.Fatalf("after %q: %v, missing %v", line, f, c.Missing())
		}
	}
	world(t, c, 2)
	for _, is := range []string{isAbort, isCause} {
		c = newCoordinator(t, 2)
		s := connectTo(t, c, 1)
		s.say(message{Is: is, Failure: &Failure{Rank: 1, Kind: fault.Resource, Cause: "no memory"}})
		<-c.Failed()
		if f := c.Failure(); f.Rank != 1 || f.Cause != "no memory" || f.Kind != fault.Resource {
			t.Errorf("%s: got %+v", is, f)
		}
	}
}

// One rank asks for megabytes and reads nothing; the job goes on, and Close
// does not wait for it for long.
func TestSlowReaderBlocksNobody(t *testing.T) {
	c := newCoordinator(t, 2)
	ranks := make([]*speaker, 2)
	for r := range ranks {
		ranks[r] = connectTo(t, c, r)
		h := hello(r, 2)
		h.Card = make([]byte, 16<<10)
		ranks[r].say(h)
	}
	for _, s := range ranks {
		s.hear()
	}
	for range 200 {
		ranks[0].say(message{Is: isGet, Rank: 1})
	}
	for range 50 {
		ranks[1].say(message{Is: isGet, Rank: 0})
		if m := ranks[1].hear(); m.Is != isCard {
			t.Fatalf("heard %+v", m)
		}
	}
	c.Fail(Failure{Rank: -1, Kind: fault.Interrupt, Cause: "enough"})
	if f := ranks[1].hear().Failure; f == nil || f.Cause != "enough" {
		t.Errorf("heard %+v", f)
	}
	start := time.Now()
	c.Close()
	if d := time.Since(start); d > 3*flushTimeout {
		t.Errorf("closing took %v", d)
	}
}

func TestCloseSendsTheLastWords(t *testing.T) {
	c := NewCoordinator(2, []byte("secret"))
	ranks := world(t, c, 2)
	c.Fail(Failure{Rank: -1, Cause: "over"})
	c.Close()
	for _, s := range ranks {
		if f := s.hear().Failure; f == nil || f.Cause != "over" {
			t.Errorf("heard %+v", f)
		}
		s.hangsUp()
	}
	late, theirs := pair(t)
	<-c.Serve(theirs, 0)
	if _, err := late.Read(make([]byte, 1)); err == nil {
		t.Error("a closed coordinator talks")
	}
}

// Client connects a real Client to a coordinator.
func connectClient(t testing.TB, c *Coordinator, rank int) *Client {
	t.Helper()
	ours, theirs := pair(t)
	c.Serve(theirs, rank)
	cl, secret, err := NewClient(t.Context(), ours, Self{Rank: rank, Size: c.size}, Leader{Name: "the launcher", Rank: -1})
	if err != nil || string(secret) != "secret" {
		t.Fatalf("%q, %v", secret, err)
	}
	return cl
}

func TestClients(t *testing.T) {
	ctx := t.Context()
	c := newCoordinator(t, 2)
	a, b := connectClient(t, c, 0), connectClient(t, c, 1)
	must.Do(t, errors.Join(a.Put(ctx, []byte("A")), b.Put(ctx, []byte("B")), a.Fence(ctx), b.Fence(ctx)))
	if card, err := a.Get(ctx, 1); err != nil || string(card) != "B" {
		t.Errorf("%q, %v", card, err)
	}
	b.Phase("warm-up")
	verdict := b.Abort(Failure{Phase: "warm-up", Kind: fault.Script, Cause: strings.Repeat("ä", 1<<20), Hint: "h"})
	f := <-a.Failed()
	if verdict != f {
		t.Errorf("the culprit was told %v", verdict)
	}
	if f.Rank != 1 || f.Phase != "warm-up" || len(f.Cause) > maxText+4 || !strings.HasPrefix(f.Cause, "ää") || f.Hint != "h" {
		t.Errorf("heard rank %d, phase %s, %d bytes of cause", f.Rank, f.Phase, len(f.Cause))
	}
	if err := a.Leave(ctx); err == nil {
		t.Error("left a failed job as if it were a good one")
	}
	if err := b.Leave(ctx); err != nil {
		t.Errorf("the culprit leaves: %v", err)
	}
}

func TestClientWhoseCoordinatorDies(t *testing.T) {
	c := NewCoordinator(2, []byte("secret"))
	a := connectClient(t, c, 0)
	must.Do(t, a.Put(t.Context(), nil))
	c.Close()
	err := a.Fence(t.Context())
	must.Fail(t, err, fault.RankLost, "lost the connection to the launcher")
	if f := <-a.Failed(); f.Rank != -1 {
		t.Errorf("heard %+v", f)
	}
	if _, err := a.Get(t.Context(), 1); err == nil {
		t.Error("got a card after the connection was lost")
	}
	a.Leave(t.Context())
}

func TestClientGivesUpWithItsContext(t *testing.T) {
	ours, theirs := pair(t) // the other end stays silent
	defer theirs.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Interrupt, "interrupted"))
	_, _, err := NewClient(ctx, ours, Self{Rank: 0, Size: 1}, Leader{Name: "the launcher", Rank: -1})
	if fault.KindOf(err) != fault.Interrupt {
		t.Errorf("connecting: %v", err)
	}
	c := newCoordinator(t, 2)
	a := connectClient(t, c, 0)
	defer a.Leave(ctx)
	a.Put(ctx, nil)
	must.Fail(t, a.Fence(ctx), fault.Interrupt, "rank 0 waited for the other ranks")
}

func TestClientRefusesAStrangeCoordinator(t *testing.T) {
	for _, line := range []string{"", "SSH-2.0-OpenSSH\n", `{"is":"ready"}` + "\n"} {
		ours, theirs := pair(t)
		io.WriteString(theirs, line)
		theirs.Close()
		if _, _, err := NewClient(t.Context(), ours, Self{Rank: 0, Size: 1}, Leader{Name: "the launcher", Rank: -1}); fault.KindOf(err) != fault.Launch {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// The Client survives a coordinator that says the same thing twice, or nonsense.
func TestClientSurvivesOddMemos(t *testing.T) {
	ours, theirs := pair(t)
	for _, m := range []message{{Is: isSecret}, {Is: isReady}, {Is: isReady}, {Is: isCard, Rank: 5}, {Is: isAbort}, {Is: "?"},
		{Is: isAbort, Failure: &Failure{Cause: "one"}}, {Is: isAbort, Failure: &Failure{Cause: "two"}}} {
		must.Do(t, json.NewEncoder(theirs).Encode(m))
	}
	c, _, err := NewClient(t.Context(), ours, Self{Rank: 0, Size: 1}, Leader{Name: "the launcher", Rank: -1})
	must.Do(t, err)
	if f := <-c.Failed(); f.Cause != "one" {
		t.Errorf("heard %+v", f)
	}
	theirs.Close()
	c.Leave(t.Context())
}

// Nothing that an admitted connection says may break the coordinator.
func FuzzCoordinator(f *testing.F) {
	f.Add([]byte(`{"is":"hello","rank":0,"size":1,"card":"AA=="}` + "\n" + `{"is":"get","rank":0}` + "\n" + `{"is":"leave"}` + "\n"))
	f.Add([]byte(`{"is":"hello","rank":0,"size":1}` + "\n" + `{"is":"hello","rank":0,"size":1}` + "\n" + `{"is":"abort"}` + "\n"))
	f.Add([]byte(`{"is":"hello","rank":-5,"size":1}` + "\n"))
	f.Add([]byte(`{"is":"abort","failure":{"rank":0}}` + "\n"))
	f.Add([]byte(`{"is":"hello","rank":0,"size":1}` + "\n" + `{"is":"phase","phase":"x"}` + "\n" + `{"is":"alive"}` + "\n" + `{"is":"cause","failure":{"rank":0,"kind":9,"cause":"y"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewCoordinator(1, nil)
		a, b := net.Pipe()
		done := c.Serve(b, 0)
		go io.Copy(io.Discard, a)
		a.Write(data)
		a.Close()
		<-done
		c.Close()
	})
}
