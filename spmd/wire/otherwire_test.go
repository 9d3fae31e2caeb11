package wire

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// A peer that greets as another version of perigee does is named as that at once, without waiting for the rest of a
// greeting that may be shorter.
func TestOtherWire(t *testing.T) {
	for greeting, other := range map[string]bool{"perigee2": true, "perigee9": true, "SSH-2.0-": false} {
		here, there := net.Pipe()
		go there.Write([]byte(greeting))
		_, err := greet(here, given([]byte("secret")), 1, 0)
		if err == nil || errors.Is(err, ErrOtherWire) != other || strings.Contains(err.Error(), greeting) != other {
			t.Errorf("%s: %v", greeting, err)
		}
		here.Close()
		there.Close()
	}
}

// Who keeps hanging up at the greeting is known by its host; a single look at the port is nothing.
func TestStrangers(t *testing.T) {
	l, err := Listen(ListenerConfig{Address: "127.0.0.1:0", Secret: []byte("secret"), Enter: func(c net.Conn, _ int) { c.Close() }})
	must.Do(t, err)
	defer l.Close()
	knock := func() {
		conn, err := net.Dial("tcp", l.listener.Addr().String())
		must.Do(t, err)
		conn.Read(make([]byte, len(magic)))
		conn.Close()
	}
	knock()
	spmdtest.Wait(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.unmoved["127.0.0.1"] == 1
	})
	if hosts := l.Strangers(); hosts != nil {
		t.Errorf("after one look: %v", hosts)
	}
	for range manyHangUps {
		knock()
	}
	spmdtest.Wait(t, func() bool { return slices.Equal(l.Strangers(), []string{"127.0.0.1"}) })
}
