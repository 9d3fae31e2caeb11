package wire

import (
	"testing"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// userTimeoutOf reads how long the kernel waits for acknowledgements, and for room, in ms.
func userTimeoutOf(t *testing.T, fd int) int {
	t.Helper()
	ms, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	must.Do(t, err)
	return ms
}

// A link to a rank that is stopped and has no room for more must not end, as long as its host
// answers; a connection to a coordinator, which watch keeps from filling, notices a cut by itself.
func TestLinksBearAStoppedReceiver(t *testing.T) {
	ends := mesh(t, 2)
	must.Do(t, ends[1].Send(t.Context(), 0, Header{}, nil))
	if ms := userTimeoutOf(t, ends[1].peers[0].link.fd); ms != 0 {
		t.Errorf("a link ends when there was no room for %d ms", ms)
	}
	conn, err := Dial(t.Context(), addressOf(ends[1]), secret, 0, 1)
	must.Do(t, err)
	defer conn.Close()
	raw, err := tcp(conn).SyscallConn()
	must.Do(t, err)
	ms := 0
	raw.Control(func(fd uintptr) { ms = userTimeoutOf(t, int(fd)) })
	if ms != int(userTimeout.Milliseconds()) {
		t.Errorf("other connections end after %d ms", ms)
	}
}
