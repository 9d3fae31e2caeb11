package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A rank that is slow, stopped, or among many strangers is dialled for ever; where none is, dialling ends. The log has
// one warning of either.
func TestRedials(t *testing.T) {
	answer := func(err error) error { return fmt.Errorf("10.0.0.1:7: %w", unanswered{err}) }
	hungUp := answer(fmt.Errorf("%w: %w", errNoGreeting, io.EOF))
	reset := answer(fmt.Errorf("%w: %w", errNoGreeting, os.NewSyscallError("read", syscall.ECONNRESET)))
	silent := answer(fmt.Errorf("%w: %w", errNoGreeting, os.ErrDeadlineExceeded))
	flooded := answer(fmt.Errorf("it hung up in the middle of the handshake: %w", io.EOF))
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	swallowed := &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	for _, c := range []struct {
		name string
		errs []error // of the attempts, again and again
		ends bool
	}{
		{"another program", []error{attempts{hungUp}}, true},
		{"one that resets", []error{attempts{reset}}, true},
		{"another program, and nothing at the second address", []error{attempts{hungUp, refused}}, true},
		{"a stopped rank", []error{attempts{silent}}, false},
		{"another program, and a stopped rank at the second address", []error{attempts{hungUp, silent}}, false},
		{"another program, and a slow host at the second address", []error{attempts{hungUp, swallowed}}, false},
		{"a rank among strangers", []error{attempts{flooded}}, false},
		{"a rank among very many strangers", []error{attempts{hungUp}, attempts{hungUp}, attempts{flooded}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text bytes.Buffer
			r := redials{rank: 3, limit: maxRebuffs, log: slog.New(slog.NewTextHandler(&text, nil)), pause: firstRedialPause}
			now := time.Now()
			began, over := now, error(nil)
			for i := 0; i < 4*maxRebuffs && over == nil; i++ {
				var wait time.Duration
				wait, over = r.next(c.errs[i%len(c.errs)], now)
				now = now.Add(wait)
				if early := now.Sub(began) < redialWarning; early && text.Len() > 0 {
					t.Fatalf("logged after %v: %s", now.Sub(began), &text)
				}
			}
			if (over != nil) != c.ends {
				t.Errorf("the search ended with %v", over)
			}
			if took := now.Sub(began); c.ends && took.Round(2*time.Second) != 2*time.Minute {
				t.Errorf("it took %v", took)
			}
			if lines := strings.Count(text.String(), "level=WARN"); lines != 1 || !strings.Contains(text.String(), "peer=3") {
				t.Errorf("logged:\n%s", &text)
			}
		})
	}
}

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
