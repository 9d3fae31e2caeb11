package wire

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// cutOff lets nothing in at a socket any more.
func cutOff(t *testing.T, fd int) {
	t.Helper()
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	filter := &unix.SockFprog{Len: 1, Filter: &drop}
	must.Do(t, unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter))
}

// TestSetUserTimeout cuts a connection off by a filter that lets nothing in at its other end: what
// is written is acknowledged no more.
func TestSetUserTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	must.Do(t, err)
	defer conn.Close()
	other, err := l.Accept()
	must.Do(t, err)
	defer other.Close()
	raw, err := other.(*net.TCPConn).SyscallConn()
	must.Do(t, err)
	raw.Control(func(fd uintptr) { cutOff(t, int(fd)) })
	SetUserTimeout(conn, 100*time.Millisecond)
	if _, err := conn.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(userTimeout)) // without SetUserTimeout it takes longer
	if _, err := conn.Read(make([]byte, 1)); !IsSilence(err) {
		t.Errorf("the connection ended with %v", err)
	}
}
