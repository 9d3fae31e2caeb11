package wire

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The siege: 10,000 connections of people who do not belong to the job, while it
// goes on. They come in waves, and between the waves it is quiet, so that the job's
// pace can be compared with itself.
const (
	waves        = 20
	waveSize     = 500
	roundsInWave = 400
	// wavePause is the time between two strangers. They run on the cores of this
	// very machine; without a pause the job would lose those, not its temper.
	wavePause = 100 * time.Microsecond
	// slowdown is what a median round trip may take more in a wave.
	slowdown = 5
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
			if err := Greet(c, another, 1, 0); err == nil {
				t.Error("another job's rank was let in")
			}
			return false
		},
		func(c net.Conn) bool { // a replay, as soon as the greeting is here
			io.ReadFull(c, make([]byte, len(magic)+nonceSize))
			c.Write(recorded)
			if answer, _ := io.ReadAll(c); len(bytes.Trim(answer, "\x00")) > 0 {
				t.Error("a replayed handshake was answered with more than a refusal")
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
	if err := Greet(&rec, secret, 1, 0); err != nil {
		t.Fatal(err)
	}
	return rec.sent.Bytes()
}

// roundTrips sends messages to and fro until there are n and done says so, and
// returns how long each took.
func roundTrips(t *testing.T, ends []*TCP, n int, done func() bool) []time.Duration {
	t.Helper()
	payload := make([]byte, 64)
	var took []time.Duration
	for len(took) < n || !done() {
		began := time.Now()
		for from := range 2 {
			if err := ends[from].Send(t.Context(), 1-from, Header{Channel: 1}, payload); err != nil {
				t.Fatal(err)
			}
			if _, data, err := ends[1-from].Recv(t.Context(), from, 1); err != nil || !bytes.Equal(data, payload) {
				t.Fatal(data, err)
			}
		}
		took = append(took, time.Since(began))
	}
	return took
}

func (t *TCP) links() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func TestSiege(t *testing.T) {
	kinds := besiegers(t, record(t, mesh(t, 1)[0]))
	before := openDescriptors(t)
	ends := mesh(t, 2)
	roundTrips(t, ends, 100, func() bool { return true }) // opens the links
	var staying []net.Conn
	var quiet, besieged []time.Duration
	for wave := range waves {
		quiet = append(quiet, roundTrips(t, ends, roundsInWave, func() bool { return true })...)
		var over atomic.Bool
		var strangers sync.WaitGroup
		var mu sync.Mutex
		go func() {
			for i := range waveSize {
				strangers.Go(func() {
					c, err := net.Dial("tcp", addressOf(ends[0]))
					if err != nil {
						t.Error(err)
						return
					}
					// Each kind comes in each wave.
					if !kinds[(wave*waveSize+i)%len(kinds)](c) {
						c.Close()
						return
					}
					mu.Lock()
					staying = append(staying, c)
					mu.Unlock()
				})
				time.Sleep(wavePause)
			}
			strangers.Wait()
			over.Store(true)
		}()
		besieged = append(besieged, roundTrips(t, ends, roundsInWave, over.Load)...)
	}
	q, b := median(quiet), median(besieged)
	t.Logf("round trip: %v in peace, %v in a wave; %d strangers stay", q, b, len(staying))
	if b > slowdown*q {
		t.Errorf("a round trip takes %v while strangers knock, and %v otherwise", b, q)
	}
	if n := ends[0].links(); n != 2 {
		t.Errorf("%d links, want those to and from the other rank", n)
	}
	// The door is full of half-open connections, and still an honest rank gets in.
	if len(staying) < maxStrangers {
		t.Errorf("only %d strangers stay, fewer than fill the door", len(staying))
	}
	c, err := Dial(t.Context(), addressOf(ends[0]), secret, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
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
