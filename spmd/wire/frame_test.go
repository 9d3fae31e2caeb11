package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

var testKey = bytes.Repeat([]byte{7}, keySize)

// testSealer returns one end of a link whose key is testKey.
func testSealer(t testing.TB) *sealer {
	t.Helper()
	s, err := newSealer(testKey)
	must.Do(t, err)
	return s
}

// frame builds one by hand; length is what its head announces.
func frame(s *sealer, length uint32, channel uint64, flags byte, payload []byte) []byte {
	b := make([]byte, headSize)
	binary.LittleEndian.PutUint32(b, length)
	b[5] = flags
	binary.LittleEndian.PutUint64(b[12:], channel)
	b = s.seal(b, b)
	if len(payload) == 0 {
		return b
	}
	return s.seal(append(b, payload...), payload)
}

// rawLink is a connection to an endpoint as rank 1, and what seals its frames.
func rawLink(t *testing.T, e *TCP) (net.Conn, *sealer) {
	t.Helper()
	conn, err := greet(dialRaw(t, e), given(secret), 1, 0)
	if err == nil {
		err = conn.confirm()
	}
	must.Do(t, err)
	return conn.Conn, conn.out
}

func TestBrokenFramesBreakOnlyTheirLink(t *testing.T) {
	for name, c := range map[string]struct {
		data func(s *sealer) []byte
		want string
	}{
		"hung up":       {func(s *sealer) []byte { return frame(s, 0, 2, 0, nil) }, "closed by the peer"},
		"torn header":   {func(s *sealer) []byte { return frame(s, 3, 1, 0, nil)[:7] }, "unexpected EOF"},
		"torn payload":  {func(s *sealer) []byte { return frame(s, 3, 1, 0, []byte("abc"))[:frameStart+2] }, "in the middle of a message"},
		"no payload":    {func(s *sealer) []byte { return frame(s, 3, 1, 0, nil) }, "in the middle of a message"},
		"too large":     {func(s *sealer) []byte { return frame(s, maxFrame+1, 1, 0, nil) }, "at most 1048576 allowed"},
		"far too large": {func(s *sealer) []byte { return frame(s, 1<<32-1, 1, 0, nil) }, "at most 1048576 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			ends := mesh(t, 3)
			conn, seal := rawLink(t, ends[0])
			conn.Write(c.data(seal))
			conn.(*net.TCPConn).CloseWrite()
			if _, _, err := ends[0].Recv(t.Context(), 1, 1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			must.Do(t, ends[2].Send(t.Context(), 0, Header{Channel: 1}, []byte("still here")))
			if _, data, err := ends[0].Recv(t.Context(), 2, 1); err != nil || string(data) != "still here" {
				t.Errorf("got %q, %v", data, err)
			}
		})
	}
}

func TestAdmittedRankMustExist(t *testing.T) {
	ends := mesh(t, 2)
	conn := dialRaw(t, ends[0])
	if _, err := greet(conn, given(secret), 7, 0); err == nil {
		t.Error("rank 7 of 2 was let in")
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("rank 7 of 2 was kept")
	}
}

// readFrames is what a link does with the bytes of r, which come in pieces of this size.
func readFrames(t testing.TB, r io.Reader, piece int, deliver func(Header, []byte)) error {
	a, buffer := newAssembler(testSealer(t), deliver), make([]byte, piece)
	for {
		n, err := r.Read(buffer)
		if err == nil {
			err = a.feed(buffer[:n])
		} else {
			err = a.ended(err)
		}
		if err != nil {
			return err
		}
	}
}

// FuzzReadFrames feeds frames, some of them torn or forged, in pieces of several sizes: the outcome must not
// depend on the size.
func FuzzReadFrames(f *testing.F) {
	one := func(frames ...func(s *sealer) []byte) {
		s := testSealer(f)
		var all []byte
		for _, frame := range frames {
			all = append(all, frame(s)...)
		}
		f.Add(all)
	}
	of := func(length uint32, channel uint64, flags byte, payload string) func(*sealer) []byte {
		return func(s *sealer) []byte { return frame(s, length, channel, flags, []byte(payload)) }
	}
	one()
	one(of(3, 1, 0, "abc"))
	one(of(2, 1, flagMore, "ab"), of(1, 1, 0, "c"))
	one(of(2, 1, flagMore, "ab"), of(0, 2, 0, ""))
	one(of(maxFrame+1, 1, 0, ""))
	one(of(100, 1, 0, "torn"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var delivered, messages int
		err := readFrames(t, bytes.NewReader(data), 64, func(_ Header, d []byte) { delivered += len(d); messages++ })
		if err == nil {
			t.Fatal("a link ended without a reason")
		}
		for _, piece := range []int{1, 3, frameStart, 1 << 20} {
			again := 0
			other := readFrames(t, bytes.NewReader(data), piece, func(Header, []byte) { again++ })
			if again != messages || other.Error() != err.Error() {
				t.Fatalf("pieces of %d: %d messages, %v; of 64: %d, %v", piece, again, other, messages, err)
			}
		}
		if delivered+messages*frameStart > len(data) {
			t.Fatalf("%d bytes in %d messages came out of %d", delivered, messages, len(data))
		}
		checkMessages(t, fuzztest.Random(data))
	})
}

// checkMessages sends messages of several frames, and reads them, whole and with one bit changed.
func checkMessages(t *testing.T, random *rand.Rand) {
	s, begun, channel := testSealer(t), "", random.Uint64N(3)
	var sent []byte
	var want []string
	for range 1 + random.IntN(9) {
		flags, payload := byte(random.IntN(2))*flagMore, fuzztest.Bytes(random, 5)
		sent = append(sent, frame(s, uint32(len(payload)), channel, flags, payload)...)
		if begun += string(payload); flags == 0 {
			want = append(want, fmt.Sprintf("%d: %q", channel, begun))
			begun, channel = "", random.Uint64N(3)
		}
	}
	read := func() (got []string, err error) {
		err = readFrames(t, bytes.NewReader(sent), 1+random.IntN(99), func(h Header, d []byte) { got = append(got, fmt.Sprintf("%d: %q", h.Channel, d)) })
		return got, err
	}
	if got, err := read(); err != io.EOF || !slices.Equal(got, want) {
		t.Fatalf("got %v, %v, want %v", got, err, want)
	}
	large := frame(testSealer(t), maxFrame+1+random.Uint32N(2), 1, 0, nil)
	if err := readFrames(t, bytes.NewReader(large), 99, func(Header, []byte) {}); !strings.Contains(err.Error(), "allowed") {
		t.Fatalf("a frame that is too large: %v", err)
	}
	sent[random.IntN(len(sent))] ^= 1 << random.IntN(8)
	if got, err := read(); !errors.Is(err, ErrForged) || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("one bit changed: got %v, %v, of %v", got, err, want)
	}
}

// Without the secret no bytes get a dialer or an acceptor through the handshake.
func FuzzAdmit(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, replySize))
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := script{Reader: bytes.NewReader(data)}
		if _, from, err := admit(conn, nil, secret, 0, nil); err == nil {
			t.Fatalf("admitted as rank %d", from)
		}
		if _, err := greet(conn, given(secret), 1, 0); err == nil {
			t.Fatal("believed an acceptor")
		}
		// Strangers who know some of what a rank knows.
		random := fuzztest.Random(data)
		s := &stranger{secret: secret, role: roleDial, from: random.Uint32N(9), to: 3, names: 3, nonceD: fuzztest.Bytes(random, nonceSize)}
		s.nonceD = append(s.nonceD, make([]byte, nonceSize-len(s.nonceD))...)
		honest, lost := false, false // lost: it has the secret, and wants another rank
		switch random.IntN(7) {
		case 0:
			s.secret = append([]byte{byte(random.Uint32())}, secret...)
		case 1:
			s.role = []string{roleAccept, roleOther, roleCross}[random.IntN(3)]
		case 2:
			s.to = random.Uint32N(3)
			s.names, lost = s.to, true
		case 3:
			s.names = random.Uint32N(3)
		case 4:
			s.damaged = 1 + random.IntN(replySize)
		case 5:
			s.to, s.names, lost = 3+1<<31, 3+1<<31, true
		default:
			honest = true
		}
		_, from, err := admit(s, nil, secret, 3, nil)
		if honest != (err == nil) || honest && from != int(s.from) || !honest && errors.Is(err, ErrProof) == lost {
			t.Fatalf("%+v was admitted as rank %d: %v", s, from, err)
		}
	})
}

// script is a connection whose other end says what a reader has.
type script struct {
	net.Conn
	io.Reader
}

func (s script) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s script) Write(b []byte) (int, error) { return len(b), nil }

// stranger answers an acceptor's greeting with a proof that some secret, role and ranks make; names is the rank that it
// says it wants, to the one in its proof. One byte of what it says may be damaged.
type stranger struct {
	net.Conn
	secret   []byte
	role     string
	from, to uint32
	names    uint32
	nonceD   []byte
	damaged  int // from 1; 0: none
	nonceA   []byte
	answer   bytes.Buffer
}

func (s *stranger) Write(b []byte) (int, error) {
	if s.nonceA != nil {
		return len(b), nil
	}
	s.nonceA = bytes.Clone(b[len(magic) : helloSize-2])
	reply := binary.LittleEndian.AppendUint32(nil, s.from)
	reply = append(binary.LittleEndian.AppendUint32(reply, s.names), s.nonceD...)
	reply = append(reply, transcript{s.secret, s.nonceA, s.nonceD, s.from, s.to}.proof(s.role)...)
	if s.damaged > 0 {
		reply[s.damaged-1] ^= 1
	}
	s.answer.Write(reply)
	return len(b), nil
}

func (s *stranger) Read(b []byte) (int, error) { return s.answer.Read(b) }

func FuzzFramesRoundTrip(f *testing.F) {
	f.Add([]byte("payload"), uint64(1), uint32(2), byte(3), uint16(4))
	f.Add([]byte{}, uint64(0), uint32(0), byte(0), uint16(0))
	f.Add([]byte{0xff}, ^uint64(0), ^uint32(0), ^byte(0), ^uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, channel uint64, seq uint32, op byte, root uint16) {
		want := Header{Channel: channel, Seq: seq, Op: op, Root: root}
		sent := testSealer(t).appendFrame(nil, want, data)
		if n, _ := FrameBytes(len(data)); n != len(sent) {
			t.Errorf("a message of %d bytes takes %d on a link, counted as %d", len(data), len(sent), n)
		}
		n := 0
		readFrames(t, bytes.NewReader(sent), 1+len(data)/3, func(h Header, got []byte) {
			n++
			if h != want || !bytes.Equal(got, data) {
				t.Errorf("sent %+v %q, got %+v %q", want, data, h, got)
			}
		})
		if n != 1 {
			t.Errorf("one message became %d", n)
		}
	})
}
