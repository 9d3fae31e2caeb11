package boot

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"perigee/internal/kit/fault"
)

// That a host does not reach itself is no failed network.
func TestNoLoopback(t *testing.T) {
	dialling := func(ip string, err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 7}, Err: err}
	}
	unreachable := os.NewSyscallError("connect", syscall.ENETUNREACH)
	down := dialling("127.0.0.1", unreachable)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{down, true},
		{fmt.Errorf("link to rank 0: %w", down), true},
		{dialling("10.0.0.1", unreachable), false},
		{dialling("127.0.0.1", os.NewSyscallError("connect", syscall.ECONNREFUSED)), false},
		{syscall.ENETUNREACH, false},
		{context.Canceled, false},
	} {
		e := NoLoopback(c.err)
		if (e != nil) != c.want {
			t.Errorf("%v: %v", c.err, e)
		}
		if e != nil && (e.Kind != fault.Launch || e.Hint == "") {
			t.Errorf("%v: kind %v, hint %q", c.err, e.Kind, e.Hint)
		}
	}
}
