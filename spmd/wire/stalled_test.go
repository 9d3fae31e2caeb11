package wire

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// userTimeoutOf reads how long the kernel waits for acknowledgements, and for room, in ms.
func userTimeoutOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	raw, err := tcp(conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ms := 0
	raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// A link to a rank that is stopped and has no room for more must not end, as long as its host
// answers; a connection to a coordinator, which never fills one, notices a cut by itself.
func TestLinksBearAStoppedReceiver(t *testing.T) {
	ends := mesh(t, 2)
	if err := ends[1].Send(t.Context(), 0, Header{}, nil); err != nil {
		t.Fatal(err)
	}
	if ms := userTimeoutOf(t, ends[1].out[0].conn); ms != 0 {
		t.Errorf("a link ends when there was no room for %d ms", ms)
	}
	conn, err := Dial(t.Context(), addressOf(ends[0]), secret, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if ms := userTimeoutOf(t, conn); ms != int(userTimeout.Milliseconds()) {
		t.Errorf("other connections end after %d ms", ms)
	}
}
