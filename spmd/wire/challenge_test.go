package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"perigee/internal/fuzztest"
)

// challenged starts a listener with a challenge and returns its address.
func challenged(t *testing.T, challenge func() []byte, secret string) (address string, admitted <-chan int) {
	t.Helper()
	in := make(chan int, 8)
	d, err := Listen(ListenerConfig{Address: "127.0.0.1:0", Challenge: challenge, Secret: []byte(secret), Enter: func(c net.Conn, from int) {
		in <- from
		c.Close()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return fmt.Sprint("127.0.0.1:", d.Port()), in
}

func TestChallengedDial(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
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
	if err := sendChallenge(&bytes.Buffer{}, make([]byte, maxChallenge+1)); err == nil {
		t.Error("a challenge of any length was sent")
	}
	address, _ := challenged(t, func() []byte { return make([]byte, maxChallenge+1) }, "s")
	if _, _, err := DialChallenged(t.Context(), address, func(l []byte) ([]byte, error) { return l, nil }, 1, 0); err == nil {
		t.Error("a challenge of any length was received")
	}
}

func FuzzChallenge(f *testing.F) {
	var b bytes.Buffer
	sendChallenge(&b, []byte("challenge"))
	f.Add(b.Bytes())
	f.Add([]byte(challengeMagic + "\xff\xff"))
	f.Add([]byte(magic + "\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if challenge, err := receiveChallenge(bytes.NewReader(data)); err == nil {
			var again bytes.Buffer
			if err := sendChallenge(&again, challenge); err != nil || !bytes.HasPrefix(data, again.Bytes()) {
				t.Fatalf("%q is read as %q: %v", data, challenge, err)
			}
		}
		random := fuzztest.Random(data)
		want := make([]byte, []int{random.IntN(600), maxChallenge - random.IntN(2), maxChallenge + 1, random.IntN(1 << 16)}[random.IntN(4)])
		link := bytes.NewBuffer(append(binary.LittleEndian.AppendUint16([]byte(challengeMagic), uint16(len(want))), want...))
		link.WriteString("the greeting")
		got, err := receiveChallenge(link)
		if len(want) > maxChallenge {
			if err == nil {
				t.Fatalf("a challenge of %d bytes is taken", len(want))
			}
		} else if err != nil || !bytes.Equal(got, want) || link.String() != "the greeting" {
			t.Fatalf("a challenge of %d bytes: %d bytes, %v, %q left", len(want), len(got), err, link)
		}
	})
}
