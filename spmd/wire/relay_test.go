package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/must"
)

// A relay sits between a dialer and an acceptor, passes the handshake of the dialer on, and then does with the frames
// from the dialer what an attacker in the network can do. tamper returns what takes the place of frame n, from 0.
type relay struct {
	net.Listener
	handshake int64
	tamper    func(n int, frame []byte) []byte
	done      sync.WaitGroup
}

func newRelay(t *testing.T, to string, handshake int64, tamper func(n int, frame []byte) []byte) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	r := &relay{Listener: l, handshake: handshake, tamper: tamper}
	t.Cleanup(func() { l.Close(); r.done.Wait() })
	r.done.Go(func() {
		for {
			dialer, err := l.Accept()
			if err != nil {
				return
			}
			acceptor, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			r.done.Go(func() { defer dialer.Close(); io.Copy(dialer, acceptor) })
			r.done.Go(func() { defer acceptor.Close(); r.pass(dialer, acceptor) })
		}
	})
	return r
}

func (r *relay) pass(from io.Reader, to io.Writer) {
	if _, err := io.CopyN(to, from, r.handshake); err != nil {
		return
	}
	for n := 0; ; n++ {
		frame := make([]byte, frameStart)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		if size := int(binary.LittleEndian.Uint32(frame)); size > 0 {
			frame = append(frame, make([]byte, size+tagSize)...)
			if _, err := io.ReadFull(from, frame[frameStart:]); err != nil {
				return
			}
		}
		if _, err := to.Write(r.tamper(n, frame)); err != nil {
			return
		}
	}
}

// attacks are what a relay may do; each begins with frame 2.
func attacks() map[string]func(n int, frame []byte) []byte {
	var kept []byte
	flip := func(at int) func(int, []byte) []byte {
		return func(n int, frame []byte) []byte {
			if n == 2 {
				frame[(at+len(frame))%len(frame)] ^= 0x10
			}
			return frame
		}
	}
	all := map[string]func(n int, frame []byte) []byte{
		"drop": func(n int, frame []byte) []byte {
			if n == 2 {
				return nil
			}
			return frame
		},
		"replay": func(n int, frame []byte) []byte {
			if n == 2 {
				return append(bytes.Clone(frame), frame...)
			}
			return frame
		},
		"replay an old one": func(n int, frame []byte) []byte {
			if n == 0 {
				kept = bytes.Clone(frame)
			}
			if n == 2 {
				return append(bytes.Clone(kept), frame...)
			}
			return frame
		},
		"swap": func(n int, frame []byte) []byte {
			switch n {
			case 2:
				kept = frame
				return nil
			case 3:
				return append(frame, kept...)
			}
			return frame
		},
		"inject": func(n int, frame []byte) []byte {
			if n == 2 {
				forged, _ := newSealer(make([]byte, keySize)) // the attacker has no key of this link
				return append(forged.appendFrame(nil, Header{Channel: 1}, []byte(`{"is":"abort"}`)), frame...)
			}
			return frame
		},
		"inject noise": func(n int, frame []byte) []byte {
			if n == 2 {
				return append(make([]byte, 500), frame...)
			}
			return frame
		},
	}
	for name, at := range map[string]int{
		"length": 0, "high byte of the length": 3, "op": 4, "flags": 5, "root": 6, "sequence number": 8, "channel": 12,
		"tag of the head": headSize, "payload": frameStart, "last byte": -1,
	} {
		all["flip "+name] = flip(at)
	}
	return all
}

// TestForgedFramesAreFound lets a relay attack a link between two ranks. What was sent before arrives, nothing
// that was forged does, and the error names the peer.
func TestForgedFramesAreFound(t *testing.T) {
	for name, tamper := range attacks() {
		t.Run(name, func(t *testing.T) {
			lost := make(chan error, 1)
			receiver, err := ListenTCP(TCPConfig{
				Rank: 0, Size: 2, Secret: secret, Listen: "127.0.0.1:0",
				LinkLost: func(rank int, err error) { lost <- fmt.Errorf("rank %d: %w", rank, err) },
			})
			must.Do(t, err)
			defer receiver.Close()
			between := newRelay(t, addressOf(receiver), replySize+frameStart, tamper)
			sender, err := ListenTCP(TCPConfig{
				Rank: 1, Size: 2, Secret: secret, Listen: "127.0.0.1:0",
				Resolve: func(context.Context, int) ([]string, error) { return []string{between.Addr().String()}, nil },
			})
			must.Do(t, err)
			defer sender.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			for i := range uint32(6) {
				// The link may end meanwhile.
				sender.Send(ctx, 0, Header{Channel: 1, Seq: i, Op: 3, Root: 1}, fmt.Appendf(nil, "message %d", i))
			}
			for i := uint32(0); ; i++ {
				h, data, err := receiver.Recv(ctx, 1, 1)
				if err == nil {
					if h != (Header{Channel: 1, Seq: i, Op: 3, Root: 1}) || string(data) != fmt.Sprintf("message %d", i) || i > 2 {
						t.Fatalf("message %d arrived as %+v %q", i, h, data)
					}
					continue
				}
				if !errors.Is(err, ErrForged) || !bytes.Contains([]byte(err.Error()), []byte("link from rank 1: frame ")) || i < 2 {
					t.Errorf("after %d messages: %v", i, err)
				}
				break
			}
			select {
			case err := <-lost:
				if !errors.Is(err, ErrForged) {
					t.Errorf("LinkLost got %v", err)
				}
			case <-ctx.Done():
				t.Error("LinkLost was not called")
			}
		})
	}
}

// A confirmation that was forged opens no link.
func TestForgedConfirmationIsFound(t *testing.T) {
	lost := make(chan error, 1)
	ends := mesh(t, 2)
	ends[0].cfg.LinkLost = func(_ int, err error) { lost <- err }
	conn, err := greet(dialRaw(t, ends[0]), given(secret), 1, 0)
	must.Do(t, err)
	conn.Conn.Write(make([]byte, frameStart))
	if err := <-lost; !errors.Is(err, ErrForged) {
		t.Errorf("LinkLost got %v", err)
	}
	if _, _, err := ends[0].Recv(t.Context(), 1, 1); !errors.Is(err, ErrForged) {
		t.Errorf("a receiver got %v", err)
	}
	if n := ends[0].countLinks(); n != 0 {
		t.Errorf("there are %d links", n)
	}
}

// TestForgedRecordsAreFound is the same for connections that are read as streams, as those to a coordinator.
func TestForgedRecordsAreFound(t *testing.T) {
	for name, tamper := range attacks() {
		t.Run(name, func(t *testing.T) {
			type outcome struct {
				text string
				err  error
			}
			got := make(chan outcome, 1)
			l, err := Listen(ListenerConfig{Address: "127.0.0.1:0", Secret: secret, Enter: func(c net.Conn, _ int) {
				defer c.Close()
				c.SetReadDeadline(time.Now().Add(5 * time.Minute))
				text, err := io.ReadAll(c)
				got <- outcome{string(text), err}
			}})
			must.Do(t, err)
			defer l.Close()
			between := newRelay(t, fmt.Sprint("127.0.0.1:", l.Port()), replySize, tamper)
			conn, err := Dial(t.Context(), between.Addr().String(), secret, 1, 0)
			must.Do(t, err)
			defer conn.Close()
			for i := range 6 {
				fmt.Fprintf(conn, "line %d\n", i) // the connection may end meanwhile
			}
			o := <-got
			if !errors.Is(o.err, ErrForged) || (o.text != "line 0\nline 1\n" && o.text != "line 0\nline 1\nline 2\n") {
				t.Errorf("read %q, then %v", o.text, o.err)
			}
		})
	}
}

// TestKeysDiffer compares the keys of links: none is used twice, and the two ends agree.
func TestKeysDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		secret, nonceA, nonceD string
		from, to               uint32
	}{
		{"s", "A", "D", 1, 0}, {"t", "A", "D", 1, 0}, {"s", "B", "D", 1, 0}, {"s", "A", "E", 1, 0}, {"s", "A", "D", 2, 0}, {"s", "A", "D", 1, 2},
	} {
		p := transcript{[]byte(c.secret), []byte(c.nonceA), []byte(c.nonceD), c.from, c.to}
		dialer, acceptor, err := p.keys()
		if err != nil || len(dialer) != keySize || len(acceptor) != keySize {
			t.Fatalf("%+v: %d and %d bytes, %v", c, len(dialer), len(acceptor), err)
		}
		for side, key := range map[string]string{"dialer": string(dialer), "acceptor": string(acceptor)} {
			who := fmt.Sprintf("%s of %+v", side, c)
			if other, used := seen[key]; used {
				t.Errorf("%s has the key of %s", who, other)
			}
			seen[key] = who
		}
	}
}

// TestConnCarriesAStream writes and reads pieces of other sizes, both ways at once.
func TestConnCarriesAStream(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), (3*maxFrame+5000)/16)
	echoed := make(chan error, 1)
	l, err := Listen(ListenerConfig{Address: "127.0.0.1:0", Secret: secret, Enter: func(c net.Conn, _ int) {
		defer c.Close()
		_, err := io.CopyBuffer(struct{ io.Writer }{c}, io.LimitReader(c, int64(len(text))), make([]byte, 7001))
		echoed <- err
	}})
	must.Do(t, err)
	defer l.Close()
	conn, err := Dial(t.Context(), fmt.Sprint("127.0.0.1:", l.Port()), secret, 1, 0)
	must.Do(t, err)
	defer conn.Close()
	go conn.Write(text)
	back, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(back, text) {
		t.Errorf("%d bytes of %d came back: %v", len(back), len(text), err)
	}
	if err := <-echoed; err != nil {
		t.Error(err)
	}
}

// TestSealCostsNoAllocation is for the barrier, whose frames are all of this kind.
func TestSealCostsNoAllocation(t *testing.T) {
	s, c := testSealer(t), testSealer(t)
	var buffer []byte
	if n := testing.AllocsPerRun(100, func() {
		buffer = s.appendFrame(buffer[:0], Header{Channel: 1}, nil)
		if !c.check(buffer[:headSize], buffer[headSize:]) {
			t.Error("a right tag was refused")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSeal(b *testing.B) {
	for name, size := range map[string]int{"head": headSize, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			s, c := testSealer(b), testSealer(b)
			data, tag := make([]byte, size), []byte(nil)
			b.SetBytes(int64(size))
			for b.Loop() {
				tag = s.seal(tag[:0], data)
				if !c.check(data, tag) {
					b.Fatal("a right tag was refused")
				}
			}
		})
	}
}
