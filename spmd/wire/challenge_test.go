package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

// challenged starts a listener with a challenge and returns its address.
func challenged(t *testing.T, challenge func() []byte, secret string) (address string, admitted <-chan int) {
	t.Helper()
	in := make(chan int, 8)
	d, err := Listen(ListenerConfig{Address: "127.0.0.1:0", Challenge: challenge, Secret: []byte(secret), Enter: func(c net.Conn, from int) {
		in <- from
		c.Close()
	}})
	must.Do(t, err)
	t.Cleanup(d.Close)
	return fmt.Sprint("127.0.0.1:", d.Port()), in
}

func TestChallengedDial(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	address, admitted := challenged(t, func() []byte { return []byte("secret, backwards: terces") }, "terces")
	open := func(challenge []byte) ([]byte, error) {
		_, s, _ := strings.Cut(string(challenge), ": ")
		return []byte(s), nil
	}
	conn, secret, err := DialChallenged(ctx, address, open, 3, 0)
	if err != nil || string(secret) != "terces" {
		t.Fatalf("learnt %q, %v", secret, err)
	}
	conn.Close()
	if from := <-admitted; from != 3 {
		t.Errorf("admitted rank %d", from)
	}
	if _, _, err := DialChallenged(ctx, address, func([]byte) ([]byte, error) { return []byte("guess"), nil }, 3, 0); !errors.Is(err, ErrProof) {
		t.Errorf("a wrong guess: %v", err)
	}
	refusal := errors.New("not for me")
	if _, _, err := DialChallenged(ctx, address, func([]byte) ([]byte, error) { return nil, refusal }, 3, 0); !errors.Is(err, refusal) {
		t.Errorf("a challenge that cannot be opened: %v", err)
	}
	if _, err := Dial(ctx, address, []byte("terces"), 3, 0); !errors.Is(err, ErrNoChallenge) {
		t.Errorf("dialled with the secret where a challenge is sent: %v", err)
	}
	plain, _ := challenged(t, nil, "terces")
	if _, _, err := DialChallenged(ctx, plain, open, 3, 0); !errors.Is(err, ErrNoChallenge) {
		t.Errorf("dialled for a challenge where none is sent: %v", err)
	}
	if len(admitted) > 0 {
		t.Errorf("rank %d was admitted too", <-admitted)
	}
}

func TestChallengeTooLong(t *testing.T) {
	address, _ := challenged(t, func() []byte { return make([]byte, math.MaxUint16+1) }, "s")
	if _, _, err := DialChallenged(t.Context(), address, func(l []byte) ([]byte, error) { return l, nil }, 1, 0); err == nil {
		t.Error("a challenge of any length was received")
	}
}

// What a listener says first is read as it was said, and nothing behind it.
func FuzzChallenge(f *testing.F) {
	f.Add([]byte("challenge"))
	f.Add([]byte(magic + "\xff\xff"))
	f.Add([]byte{})
	enough := errors.New("enough")
	hear := func(said io.Reader) (challenge []byte, heard bool) {
		_, err := greet(script{Reader: said}, func(c []byte) ([]byte, error) { challenge = c; return nil, enough }, 1, 0)
		return challenge, err == enough
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if challenge, heard := hear(bytes.NewReader(data)); heard && !bytes.HasSuffix(data[:helloSize+len(challenge)], challenge) {
			t.Fatalf("%q is read as %q", data, challenge)
		}
		random := fuzztest.Random(data)
		want := make([]byte, []int{random.IntN(600), math.MaxUint16 - random.IntN(2), math.MaxUint16 + 1, random.IntN(1 << 16)}[random.IntN(4)])
		said := &saying{}
		_, _, err := admit(said, want, secret, 0, nil)
		if said.Len() == 0 {
			if len(want) <= math.MaxUint16 {
				t.Fatalf("a challenge of %d bytes: %v", len(want), err)
			}
			return
		}
		said.WriteString("the answer")
		got, heard := hear(&said.Buffer)
		if !heard || !bytes.Equal(got, want) || said.String() != "the answer" {
			t.Fatalf("a challenge of %d bytes: %d bytes, %q left", len(want), len(got), said.String())
		}
	})
}

// saying is a connection that keeps what is written, and has nothing to read before that.
type saying struct {
	net.Conn
	bytes.Buffer
}

func (s *saying) Write(b []byte) (int, error) { return s.Buffer.Write(b) }
func (s *saying) Read(b []byte) (int, error)  { return 0, io.EOF }
