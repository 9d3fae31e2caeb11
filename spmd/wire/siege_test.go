package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/spmd/spmdtest"
)

// The siege: 10,000 connections of people who do not belong to the job, while it
// goes on. They come in waves, and in between another job does
// the same undisturbed, so that the paces of the two can be compared.
const (
	waves        = 20
	waveSize     = 500
	roundsOfRest = 400
	// apart is how many round trips lie between two strangers, who run on the cores of
	// this very machine. If they came by the clock they would pile up where others use
	// those cores, and be all that is measured.
	apart = 4
	// slowdown is how many times as long a median round trip may take in a wave.
	slowdown = 5
	// siegeTime is many times what it all takes.
	siegeTime = 3 * spmdtest.Patience
)

// besiegers are what strangers do with a connection. recorded is what an honest
// dialer has sent in its own handshake. One that returns true stays.
func besiegers(t *testing.T, recorded []byte) []func(c net.Conn) (stays bool) {
	noise := func(n int) []byte {
		b := make([]byte, n)
		rand.Read(b)
		return b
	}
	say := func(b []byte) func(net.Conn) bool {
		return func(c net.Conn) bool {
			c.Write(b)
			return false
		}
	}
	return []func(net.Conn) bool{
		func(net.Conn) bool { return false },                      // a port scanner
		func(c net.Conn) bool { return true },                     // half open, says nothing
		func(c net.Conn) bool { c.Write(noise(20)); return true }, // half a reply, and then nothing
		say(noise(1)), say(noise(8 + nonceSize + proofSize)), // a wrong proof
		say(noise(100_000)), // a flood
		say([]byte("GET / HTTP/1.1\r\nHost: rank0\r\n\r\n")), // a browser
		say([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}),   // TLS
		func(c net.Conn) bool { // another job
			if _, err := greet(c, another, 1, 0); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("another job's rank was not turned away: %v", err)
			}
			return false
		},
		func(c net.Conn) bool { // a replay, as soon as the greeting is here
			io.ReadFull(c, make([]byte, len(magic)+nonceSize))
			c.Write(recorded)
			answer, err := io.ReadAll(c)
			if len(bytes.Trim(answer, "\x00")) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a replayed handshake was not turned away: %d bytes, %v", len(answer), err)
			}
			return false
		},
	}
}

// record returns what rank 1 sends in an honest handshake with a rank 0.
func record(t *testing.T, e *TCP) []byte {
	t.Helper()
	rec := recorder{Conn: dialRaw(t, e)}
	defer rec.Close()
	if _, err := greet(&rec, secret, 1, 0); err != nil {
		t.Fatal(err)
	}
	return rec.sent.Bytes()
}

// roundTrips sends n messages to and fro, calls before with the number of each, and
// returns the median of what they took.
func roundTrips(t *testing.T, ctx context.Context, ends []*TCP, n int, before func(i int)) time.Duration {
	t.Helper()
	payload := make([]byte, 64)
	took := make([]time.Duration, n)
	for i := range took {
		before(i)
		began := time.Now()
		for from := range 2 {
			if err := ends[from].Send(ctx, 1-from, Header{Channel: 1}, payload); err != nil {
				t.Fatalf("round trip %d of %d: %v", i, n, err)
			}
			if _, data, err := ends[1-from].Recv(ctx, from, 1); err != nil || !bytes.Equal(data, payload) {
				t.Fatalf("round trip %d of %d: %q, %v", i, n, data, err)
			}
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[n/2]
}

func (t *TCP) countLinks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.links)
}

func TestSiege(t *testing.T) {
	kinds := besiegers(t, record(t, mesh(t, 1)[0]))
	ctx, cancel := context.WithTimeout(t.Context(), siegeTime)
	defer cancel()
	calm := mesh(t, 2)
	inPeace := func(int) {}
	roundTrips(t, ctx, calm, 100, inPeace) // opens the links
	before := openDescriptors(t)
	ends := mesh(t, 2)
	roundTrips(t, ctx, ends, 100, inPeace)
	var staying []net.Conn
	best := math.Inf(1) // of the waves before a full door
	for wave := range waves {
		quiet := roundTrips(t, ctx, calm, roundsOfRest, inPeace)
		full := len(staying) >= maxPending
		var strangers sync.WaitGroup
		var mu sync.Mutex
		besieged := roundTrips(t, ctx, ends, waveSize*apart, func(i int) {
			if i%apart > 0 {
				return
			}
			strangers.Go(func() {
				c, err := net.Dial("tcp", addressOf(ends[0]))
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(spmdtest.Patience))
				// Each kind comes in each wave.
				if !kinds[(wave*waveSize+i/apart)%len(kinds)](c) {
					c.Close()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				staying = append(staying, c)
			})
		})
		strangers.Wait()
		if t.Failed() {
			return
		}
		t.Logf("round trip: %v in peace, %v in a wave; %d strangers stay", quiet, besieged, len(staying))
		if full {
			best = min(best, float64(besieged)/float64(quiet))
		}
	}
	// What others do on this machine may spoil a wave, but hardly all.
	if best > slowdown {
		t.Errorf("a round trip takes %.1f times as long while strangers knock", best)
	}
	if n := ends[0].countLinks(); n != 1 {
		t.Errorf("%d links, want the one to the other rank", n)
	}
	// The door is full of half-open connections, and still an honest rank gets in.
	if len(staying) < maxPending {
		t.Errorf("only %d strangers stay, fewer than fill the door", len(staying))
	}
	if _, err := Dial(t.Context(), addressOf(ends[0]), secret, 1, 0); !errors.Is(err, errCrossed) {
		t.Errorf("an honest rank that has a link already: %v", err)
	}
	for _, c := range staying {
		c.Close()
	}
	for _, e := range ends {
		e.Close()
	}
	if n := openDescriptors(t); n > before {
		t.Errorf("%d descriptors more than before", n-before)
	}
}

// However fast strangers come, no more of them wait than the bound says, and they are no reason to run out of
// descriptors.
func TestPendingIsBounded(t *testing.T) {
	l := &Listener{bound: pendingBound(100)}
	for i := range 3 * l.bound {
		conn, other := net.Pipe()
		defer conn.Close()
		defer other.Close()
		if !l.wait(conn) || len(l.pending) > l.bound || l.pending[len(l.pending)-1] != conn {
			t.Fatalf("connection %d: %d wait, want at most %d with this as the last", i, len(l.pending), l.bound)
		}
	}
	for _, c := range []struct {
		descriptors uint64
		want        int
	}{{0, 1}, {1, 1}, {100, 25}, {1024, 256}, {4096, maxPending}, {math.MaxUint64, maxPending}} {
		if got := pendingBound(c.descriptors); got != c.want {
			t.Errorf("%d descriptors: %d, want %d", c.descriptors, got, c.want)
		}
	}
}

// Strangers that hold the last descriptors keep no rank from linking to another.
func TestStrangersHoldAllDescriptors(t *testing.T) {
	const strangers = 8
	ends := mesh(t, 2)
	for _, e := range ends {
		for range strangers {
			c := dialRaw(t, e)
			defer c.Close()
		}
		spmdtest.Wait(t, func() bool {
			e.listener.mu.Lock()
			defer e.listener.mu.Unlock()
			return len(e.listener.pending) == strangers
		})
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Dup(0) // the lowest
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	ctx, cancel := context.WithTimeout(t.Context(), spmdtest.Patience)
	defer cancel()
	if err := ends[0].Send(ctx, 1, Header{}, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ends[1].Recv(ctx, 0, 0); err != nil || string(data) != "hi" {
		t.Errorf("got %q, %v", data, err)
	}
}

// A connection that has proven itself is not closed for others that come.
func TestProvenConnectionsStay(t *testing.T) {
	entered := make(chan int, 1)
	var l *Listener
	listening := make(chan struct{})
	l, err := Listen(ListenerConfig{
		Address: "127.0.0.1:0", Secret: secret,
		Claim: func(int) bool {
			<-listening
			for range 2 * l.bound {
				stranger, theirs := net.Pipe()
				theirs.Close()
				l.wait(stranger)
			}
			return true
		},
		Unclaim: func(int) {},
		Enter:   func(conn net.Conn, from int) { conn.Close(); entered <- from },
	})
	if err != nil {
		t.Fatal(err)
	}
	close(listening)
	defer l.Close()
	conn, err := Dial(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())), secret, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if from := <-entered; from != 3 {
		t.Errorf("rank %d was let in, want 3", from)
	}
}

// closingDoor is where every connection is closed at once.
func closingDoor(t *testing.T) (address string) {
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { closing.Close(); done.Wait() })
	done.Go(func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	})
	return closing.Addr().String()
}

// A handshake that ends without an answer is tried again: the listener had to close it, or its rank was stopped.
func TestUnansweredHandshakes(t *testing.T) {
	ends := mesh(t, 2)
	closing := closingDoor(t)
	tries := 0
	ends[0].resolve = func(context.Context, int) ([]string, error) {
		if tries++; tries <= 3 {
			return []string{closing}, nil
		}
		return []string{addressOf(ends[1])}, nil
	}
	if err := ends[0].Send(t.Context(), 1, Header{}, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := ends[1].Recv(t.Context(), 0, 0); err != nil || string(data) != "hi" || tries != 4 {
		t.Errorf("got %q, %v after %d tries", data, err, tries)
	}
}

// Where all of them end so until time is up, the error says what was wrong with the last, and the log is not filled.
func TestNeverAnswered(t *testing.T) {
	ends := mesh(t, 2)
	closing := closingDoor(t)
	var text bytes.Buffer
	ends[0].log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo}))
	over := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	tries := 0
	ends[0].resolve = func(context.Context, int) ([]string, error) {
		if tries++; tries == 3 {
			cancel(over)
		}
		return []string{closing}, nil
	}
	err := ends[0].Send(ctx, 1, Header{}, nil)
	if !errors.Is(err, over) || !strings.HasPrefix(err.Error(), "link to rank 1: none yet ("+closing+": ") {
		t.Errorf("got %v", err)
	}
	if text.Len() > 0 {
		t.Errorf("logged:\n%s", &text)
	}
}

// Something that closes every connection, where a rank should be, ends the search for it in the end.
func TestRebuffedForEver(t *testing.T) {
	ends := mesh(t, 2)
	closing := closingDoor(t)
	ends[0].maxRebuffs = 4
	tries := 0
	ends[0].resolve = func(context.Context, int) ([]string, error) { tries++; return []string{closing}, nil }
	ctx, cancel := context.WithTimeout(t.Context(), spmdtest.Patience)
	defer cancel()
	err := ends[0].Send(ctx, 1, Header{}, nil)
	const want = "link to rank 1: each of 4 connections was closed before it was greeted, as by another program: "
	if err == nil || !strings.HasPrefix(err.Error(), want+closing) || tries != 4 {
		t.Errorf("got %v after %d tries", err, tries)
	}
}
