package wire

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// A loopback interface that is down is the cause only where nothing else was dialled.
func TestLacksLoopback(t *testing.T) {
	dialling := func(ip string, cause syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 7}, Err: os.NewSyscallError("connect", cause)}
	}
	down, other := dialling("127.0.0.1", syscall.ENETUNREACH), dialling("2001:db8::5", syscall.ENETUNREACH)
	refused := dialling("127.0.1.1", syscall.ECONNREFUSED)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{attempts{down}, true}, {attempts{down, down}, true}, {fmt.Errorf("link: %w", attempts{down}), true},
		{attempts{refused, other}, false}, {attempts{other, refused}, false}, {attempts{down, other}, false}, {attempts{down, refused}, false},
	} {
		if got := LacksLoopback(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// A host without local ports says so of a connection or of a listener, in words that other mistakes have, too.
func TestLacksPorts(t *testing.T) {
	failed := func(op, ip string, port int, cause syscall.Errno) error {
		return fmt.Errorf("link: %w", &net.OpError{
			Op: op, Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}, Err: os.NewSyscallError("connect", cause),
		})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{failed("dial", "10.0.0.1", 7, syscall.EADDRNOTAVAIL), true},
		{attempts{failed("dial", "10.0.0.2", 7, syscall.ECONNREFUSED), failed("dial", "10.0.0.1", 7, syscall.EADDRNOTAVAIL)}, true},
		{failed("listen", "0.0.0.0", 0, syscall.EADDRINUSE), true},
		{failed("listen", "0.0.0.0", 29500, syscall.EADDRINUSE), false},
		{failed("listen", "10.0.0.1", 0, syscall.EADDRNOTAVAIL), false},
		{failed("dial", "fd77::1", 7, syscall.EADDRNOTAVAIL), false},
		{failed("dial", "10.0.0.1", 7, syscall.ECONNREFUSED), false},
		{syscall.EADDRNOTAVAIL, false},
	} {
		if got := LacksPorts(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
