package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

var (
	secret  = []byte("the job's secret")
	another = []byte("another job's secret")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openDescriptors counts this process's open files.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(entries)
}

// mesh opens n endpoints on the loopback interface that know each other.
func mesh(t testing.TB, n int) []*TCP {
	t.Helper()
	ends := make([]*TCP, n)
	for r := range ends {
		e, err := ListenTCP(TCPConfig{
			Rank: r, Size: n, Secret: secret, Listen: "127.0.0.1:0",
			Resolve: func(_ context.Context, rank int) ([]string, error) { return []string{addressOf(ends[rank])}, nil },
		})
		must.Do(t, err)
		ends[r] = e
		t.Cleanup(func() { e.Close() })
	}
	return ends
}

func addressOf(e *TCP) string { return fmt.Sprint("127.0.0.1:", e.Port()) }

func dialRaw(t testing.TB, e *TCP) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addressOf(e))
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// endpoints runs a test over both kinds of network.
func endpoints(t *testing.T, n int, body func(t *testing.T, ends []Endpoint)) {
	t.Run("tcp", func(t *testing.T) {
		var ends []Endpoint
		for _, e := range mesh(t, n) {
			ends = append(ends, e)
		}
		body(t, ends)
	})
	t.Run("memory", func(t *testing.T) {
		m := NewMemory(n)
		var ends []Endpoint
		for r := range n {
			ends = append(ends, m.Endpoint(r))
		}
		body(t, ends)
	})
}

func TestMessagesOfAllSizesArriveInOrder(t *testing.T) {
	endpoints(t, 2, func(t *testing.T, ends []Endpoint) {
		ctx := t.Context()
		sizes := []int{0, 1, maxFrame - 1, maxFrame, maxFrame + 1, 2 * maxFrame, 3*maxFrame + 7, 0, 5}
		message := func(i int) []byte {
			b := make([]byte, sizes[i])
			for j := range b {
				b[j] = byte(j*7 + i)
			}
			return b
		}
		for _, to := range []int{1, 0} { // 0 sends to itself
			for i := range sizes {
				data := message(i)
				must.Do(t, ends[0].Send(ctx, to, Header{Channel: 9, Seq: uint32(i), Op: 3}, data))
				clear(data) // it is ours again
			}
			for i := range sizes {
				h, data, err := ends[to].Recv(ctx, 0, 9)
				must.Do(t, err)
				if want := (Header{Channel: 9, Seq: uint32(i), Op: 3}); h != want || !bytes.Equal(data, message(i)) {
					t.Errorf("message %d of %d bytes to %d: got %+v and %d bytes", i, sizes[i], to, h, len(data))
				}
			}
		}
	})
}

func TestChannelsAndSendersDoNotMix(t *testing.T) {
	const channels, each = 6, 20
	endpoints(t, 3, func(t *testing.T, ends []Endpoint) {
		ctx := t.Context()
		var wg sync.WaitGroup
		text := func(from, ch, i int) string {
			return fmt.Sprintf("%d/%d/%d", from, ch, i) + strings.Repeat("x", 60_000*(ch%2))
		}
		for from := range 2 {
			for ch := range channels {
				wg.Go(func() {
					for i := range each {
						if err := ends[from].Send(ctx, 2, Header{Channel: uint64(ch)}, []byte(text(from, ch, i))); err != nil {
							t.Error(err)
						}
					}
				})
				wg.Go(func() {
					for i := range each {
						_, data, err := ends[2].Recv(ctx, from, uint64(ch))
						if err != nil || string(data) != text(from, ch, i) {
							t.Errorf("message %d of channel %d from %d: %.20q, %v", i, ch, from, data, err)
						}
					}
				})
			}
		}
		wg.Wait()
	})
}

func TestRecvEndsWithItsContext(t *testing.T) {
	endpoints(t, 2, func(t *testing.T, ends []Endpoint) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if _, _, err := ends[0].Recv(ctx, 1, 1); err != why {
			t.Errorf("got %v, want the context's cause", err)
		}
		if err := ends[0].Send(t.Context(), 2, Header{}, nil); err == nil || !strings.Contains(err.Error(), "rank 2 does not exist") {
			t.Errorf("sent to a rank that does not exist: %v", err)
		}
	})
}

func TestEndOfPeerEndsReceiversAfterTheLastMessage(t *testing.T) {
	endpoints(t, 2, func(t *testing.T, ends []Endpoint) {
		ctx := t.Context()
		must.Do(t, ends[1].Send(ctx, 0, Header{Channel: 1}, []byte("last words")))
		// Over TCP only what was read counts as arrived.
		if tcp, ok := ends[0].(*TCP); ok {
			spmdtest.Wait(t, func() bool { tcp.box.mu.Lock(); defer tcp.box.mu.Unlock(); return len(tcp.box.queues) == 1 })
		}
		ends[1].Close()
		if _, data, err := ends[0].Recv(ctx, 1, 1); err != nil || string(data) != "last words" {
			t.Errorf("got %q, %v", data, err)
		}
		if _, _, err := ends[0].Recv(ctx, 1, 1); err == nil || !strings.Contains(err.Error(), "link from rank 1") {
			t.Errorf("received from a rank that is gone: %v", err)
		}
	})
}

func TestCloseEndsWhoeverStillWaits(t *testing.T) {
	ends := mesh(t, 2)
	// A peer that admits the link and then reads nothing.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	admitted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _, err = admit(c, nil, secret, 1, nil)
		}
		if err != nil {
			t.Error(err)
		}
		admitted <- c
	}()
	ends[0].cfg.Resolve = func(context.Context, int) ([]string, error) { return []string{l.Addr().String()}, nil }
	results := make(chan error, 2)
	go func() {
		results <- ends[0].Send(context.Background(), 1, Header{}, make([]byte, 64<<20))
	}()
	go func() {
		_, _, err := ends[0].Recv(context.Background(), 1, 5)
		results <- err
	}()
	defer (<-admitted).Close()
	ends[0].Close()
	for range 2 {
		if err := <-results; err == nil {
			t.Error("a wait ended well in a closed endpoint")
		}
	}
	if err := ends[0].Send(context.Background(), 1, Header{}, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
}

func TestSendEndsWithItsContextThoughThePeerStalls(t *testing.T) {
	ends := mesh(t, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel only
	must.Do(t, err)
	defer l.Close()
	ends[0].cfg.Size = 2
	ends[0].cfg.Resolve = func(context.Context, int) ([]string, error) { return []string{l.Addr().String()}, nil }
	slow := errors.New("too slow")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, slow)
	defer cancel()
	err = ends[0].Send(ctx, 1, Header{}, nil)
	want := "link to rank 1: none yet (" + l.Addr().String() + ": no greeting: "
	if !errors.Is(err, slow) || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), ": too slow") {
		t.Errorf("got %v, want the context's cause, and why there is no link", err)
	}
}

func TestDialTriesAllAddresses(t *testing.T) {
	ends := mesh(t, 3)
	port := spmdtest.FreePort(t)
	dead := fmt.Sprint("127.0.0.1:", port)
	good := addressOf(ends[1])
	// An unused port, the wrong rank, the right one.
	ends[0].cfg.Resolve = func(context.Context, int) ([]string, error) {
		return []string{dead, addressOf(ends[0]), good}, nil
	}
	must.Do(t, ends[0].Send(t.Context(), 1, Header{}, []byte("hi")))
	ends[2].cfg.Resolve = func(context.Context, int) ([]string, error) {
		return []string{dead, good}, nil
	}
	err := ends[2].Send(t.Context(), 0, Header{}, nil)
	if err == nil || !strings.Contains(err.Error(), dead) || !errors.Is(err, ErrOtherRank) {
		t.Errorf("got %v, want what is wrong with each address", err)
	}
}

// A job goes on talking while strangers knock, and nothing of them stays.
func TestStrangersDisturbNobody(t *testing.T) {
	before := openDescriptors(t)
	ends := mesh(t, 2)
	var strangers sync.WaitGroup
	for i := range 500 {
		strangers.Go(func() {
			c, err := net.Dial("tcp", addressOf(ends[i%2]))
			if err != nil {
				t.Error(err)
				return
			}
			if i%5 > 0 { // the others stay half open until the end
				defer c.Close()
			} else {
				t.Cleanup(func() { c.Close() })
			}
			switch i % 5 {
			case 1:
				c.Write(bytes.Repeat([]byte{byte(i)}, 100_000)) // a wrong proof, and more than is read
				io.Copy(io.Discard, c)
			case 2:
				c.Write([]byte("GET / HTTP/1.1\r\n\r\n")) // too short
			case 3:
				greet(c, given(another), 1, 0)
			}
		})
	}
	for i := range 300 {
		from, to := i%2, 1-i%2
		must.Do(t, ends[from].Send(t.Context(), to, Header{Channel: 1, Seq: uint32(i)}, make([]byte, 10_000)))
		if h, data, err := ends[to].Recv(t.Context(), from, 1); err != nil || len(data) != 10_000 || h.Seq != uint32(i) {
			t.Fatalf("message %d: %+v, %d bytes, %v", i, h, len(data), err)
		}
	}
	strangers.Wait()
	for _, e := range ends {
		e.Close()
	}
	// 100 strangers still hold their own ends.
	if n := openDescriptors(t) - before; n > 105 {
		t.Errorf("%d descriptors more than before, 100 of them the strangers'", n)
	}
}

// handshake runs both halves over a pipe.
func handshake(dialer func(net.Conn) error, acceptor func(net.Conn) (int, error)) (from int, dialErr, acceptErr error) {
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		dialErr = dialer(b)
		b.Close()
	}()
	from, acceptErr = acceptor(a)
	a.Close()
	<-done
	return from, dialErr, acceptErr
}

func TestHandshake(t *testing.T) {
	admit := func(s []byte, self int) func(net.Conn) (int, error) {
		return func(c net.Conn) (int, error) { _, from, err := admit(c, nil, s, self, nil); return from, err }
	}
	greet := func(s []byte, from, to int) func(net.Conn) error {
		return func(c net.Conn) error { _, err := greet(c, given(s), from, to); return err }
	}
	from, dialErr, acceptErr := handshake(greet(secret, 5, 2), admit(secret, 2))
	if from != 5 || dialErr != nil || acceptErr != nil {
		t.Errorf("two of one job: rank %d, %v, %v", from, dialErr, acceptErr)
	}
	_, dialErr, acceptErr = handshake(greet(another, 5, 2), admit(secret, 2))
	if !errors.Is(dialErr, ErrProof) || !errors.Is(acceptErr, ErrProof) {
		t.Errorf("two secrets: %v, %v", dialErr, acceptErr)
	}
	_, dialErr, acceptErr = handshake(greet(secret, 5, 3), admit(secret, 2))
	if !errors.Is(dialErr, ErrOtherRank) || acceptErr == nil || !strings.Contains(acceptErr.Error(), "rank 5 looked for rank 3, but this is rank 2") {
		t.Errorf("wrong rank: %v, %v", dialErr, acceptErr)
	}
	_, dialErr, _ = handshake(greet(secret, 5, 2), func(c net.Conn) (int, error) {
		_, err := c.Write(append([]byte("perigee9"), make([]byte, helloSize-len(magic))...))
		return 0, err
	})
	if dialErr == nil || !strings.Contains(dialErr.Error(), "another version of perigee") {
		t.Errorf("other version: %v", dialErr)
	}
	// An impostor that admits every rank, to hear what it says.
	_, dialErr, _ = handshake(greet(secret, 5, 2), admitAnybody)
	if !errors.Is(dialErr, ErrProof) {
		t.Errorf("an impostor was believed: %v", dialErr)
	}
	// A listener that dies instead of answering.
	_, dialErr, _ = handshake(greet(secret, 5, 2), func(c net.Conn) (int, error) {
		if _, err := c.Write(append([]byte(magic), make([]byte, helloSize-len(magic))...)); err != nil {
			return 0, err
		}
		_, err := io.ReadFull(c, make([]byte, replySize))
		return 0, err
	})
	if dialErr == nil || errors.Is(dialErr, ErrProof) || !strings.Contains(dialErr.Error(), "hung up in the middle") {
		t.Errorf("an end without an answer: %v", dialErr)
	}
}

func admitAnybody(c net.Conn) (int, error) {
	if _, err := c.Write(append([]byte(magic), make([]byte, helloSize-len(magic))...)); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, make([]byte, replySize)); err != nil {
		return 0, err
	}
	_, err := c.Write(make([]byte, proofSize))
	return 0, err
}

func admitRank0(c net.Conn) (int, error) {
	_, from, err := admit(c, nil, secret, 0, nil)
	return from, err
}

func greetRank0(c net.Conn) error {
	_, err := greet(c, given(secret), 1, 0)
	return err
}

// recorder keeps what passes through a connection, from its own side.
type recorder struct {
	net.Conn
	sent, got bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) { r.sent.Write(p); return r.Conn.Write(p) }
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.got.Write(p[:n])
	return n, err
}

func TestRecordedHandshakesAreWorthless(t *testing.T) {
	var rec recorder
	_, dialErr, acceptErr := handshake(func(c net.Conn) error {
		rec.Conn = c
		_, err := greet(&rec, given(secret), 1, 0)
		return err
	}, admitRank0)
	if dialErr != nil || acceptErr != nil {
		t.Fatal(dialErr, acceptErr)
	}
	// The dialer's half again, to the acceptor.
	_, _, acceptErr = handshake(func(c net.Conn) error {
		if _, err := io.ReadFull(c, make([]byte, helloSize)); err != nil {
			return err
		}
		_, err := c.Write(rec.sent.Bytes())
		return err
	}, admitRank0)
	if !errors.Is(acceptErr, ErrProof) {
		t.Errorf("a replayed dialer was admitted: %v", acceptErr)
	}
	// The acceptor's half again, to a dialer.
	hello, answer := rec.got.Bytes()[:helloSize], rec.got.Bytes()[helloSize:]
	_, dialErr, _ = handshake(greetRank0, func(c net.Conn) (int, error) {
		if _, err := c.Write(hello); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, make([]byte, replySize)); err != nil {
			return 0, err
		}
		_, err := c.Write(answer)
		return 0, err
	})
	if !errors.Is(dialErr, ErrProof) {
		t.Errorf("a replayed acceptor was believed: %v", dialErr)
	}
	// A dialer's own words, thrown back at it, prove nothing.
	_, dialErr, _ = handshake(greetRank0, func(c net.Conn) (int, error) {
		if _, err := c.Write(hello); err != nil {
			return 0, err
		}
		reply := make([]byte, replySize)
		if _, err := io.ReadFull(c, reply); err != nil {
			return 0, err
		}
		_, err := c.Write(reply[8+nonceSize:])
		return 0, err
	})
	if !errors.Is(dialErr, ErrProof) {
		t.Errorf("a reflected proof was believed: %v", dialErr)
	}
}
