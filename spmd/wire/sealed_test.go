package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// sealed opens a door with letters and returns its address.
func sealed(t *testing.T, letter func() []byte, secret string) (address string, admitted <-chan int) {
	t.Helper()
	in := make(chan int, 8)
	d, err := OpenDoor(DoorConfig{Address: "127.0.0.1:0", Letter: letter, Secret: []byte(secret), Enter: func(c net.Conn, from int) {
		in <- from
		c.Close()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return fmt.Sprint("127.0.0.1:", d.Port()), in
}

func TestSealedDoor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	address, admitted := sealed(t, func() []byte { return []byte("secret, backwards: terces") }, "terces")
	open := func(letter []byte) ([]byte, error) {
		_, s, _ := strings.Cut(string(letter), ": ")
		return []byte(s), nil
	}
	conn, secret, err := DialSealed(ctx, address, open, 3, 0)
	if err != nil || string(secret) != "terces" {
		t.Fatalf("learnt %q, %v", secret, err)
	}
	conn.Close()
	if from := <-admitted; from != 3 {
		t.Errorf("admitted rank %d", from)
	}
	if _, _, err := DialSealed(ctx, address, func([]byte) ([]byte, error) { return []byte("guess"), nil }, 3, 0); !errors.Is(err, ErrProof) {
		t.Errorf("a wrong guess: %v", err)
	}
	refusal := errors.New("not for me")
	if _, _, err := DialSealed(ctx, address, func([]byte) ([]byte, error) { return nil, refusal }, 3, 0); !errors.Is(err, refusal) {
		t.Errorf("a letter that cannot be opened: %v", err)
	}
	if _, err := Dial(ctx, address, []byte("terces"), 3, 0); !errors.Is(err, ErrSealed) {
		t.Errorf("who knows the secret met a sealed door: %v", err)
	}
	plain, _ := sealed(t, nil, "terces")
	if _, _, err := DialSealed(ctx, plain, open, 3, 0); !errors.Is(err, ErrSealed) {
		t.Errorf("who does not know the secret met an open door: %v", err)
	}
	if len(admitted) > 0 {
		t.Errorf("rank %d was admitted too", <-admitted)
	}
}

func TestLetterTooLong(t *testing.T) {
	if err := sendLetter(&bytes.Buffer{}, make([]byte, maxLetter+1)); err == nil {
		t.Error("a letter of any length was sent")
	}
	address, _ := sealed(t, func() []byte { return make([]byte, maxLetter+1) }, "s")
	if _, _, err := DialSealed(t.Context(), address, func(l []byte) ([]byte, error) { return l, nil }, 1, 0); err == nil {
		t.Error("a letter of any length was received")
	}
}

func FuzzLetter(f *testing.F) {
	var b bytes.Buffer
	sendLetter(&b, []byte("letter"))
	f.Add(b.Bytes())
	f.Add([]byte(sealedMagic + "\xff\xff"))
	f.Add([]byte(magic + "\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		letter, err := receiveLetter(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := sendLetter(&again, letter); err != nil || !bytes.HasPrefix(data, again.Bytes()) {
			t.Fatalf("%q is read as %q: %v", data, letter, err)
		}
	})
}
