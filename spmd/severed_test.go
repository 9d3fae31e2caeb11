package spmd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"perigee/internal/fault"
	"perigee/spmd/boot/watch"
)

// A link that the network closes before its first message has come through ends the job, though the rank that has sent
// the message waits for nothing from the other. Ranks 2 and 5, and 1 and 6, of eight have no link after the start.
func TestSeveredLinkEndsTheJob(t *testing.T) {
	for _, c := range []struct{ sender, receiver int }{{2, 5}, {5, 2}, {1, 6}, {6, 1}} {
		t.Run(fmt.Sprint(c.sender, " to ", c.receiver), func(t *testing.T) {
			defer goleak.VerifyNone(t)
			own := func(rank int) string { return fmt.Sprint(rank) }
			errs := ranks(t, 8, own, func(w *World) error {
				w.SetTimeout(0)
				stuck := time.AfterFunc(20*time.Second, func() { w.Fail(fault.New(fault.Timeout, "stuck")) })
				defer stuck.Stop()
				if w.Rank() == c.sender {
					port, stop := severing(t, w.roster.addresses(c.receiver))
					defer stop()
					w.roster.ports[c.receiver] = port
				}
				if w.Rank() == c.sender || w.Rank() == c.receiver {
					g, err := w.Group([]int{c.receiver, c.sender})
					if err != nil {
						return err
					}
					if _, err := g.Gather(0, []byte("x")); err != nil {
						return err
					}
				}
				return w.All().End()
			})
			for r, err := range errs {
				f, ok := errors.AsType[watch.Failure](err)
				if !ok || f.Kind != fault.RankLost || f.Rank != c.sender ||
					!strings.Contains(f.Cause, fmt.Sprintf("link to rank %d on ", c.receiver)) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}

// severing listens in the place of a rank. It passes a handshake on, and closes the connection when more comes.
func severing(t *testing.T, addresses []string) (port uint16, stop func()) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Error(err)
		return 0, func() {}
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			dialer, err := l.Accept()
			if err != nil {
				return
			}
			acceptor, err := net.Dial("tcp", addresses[0])
			if err != nil {
				t.Error(err)
				dialer.Close()
				return
			}
			done.Go(func() { defer dialer.Close(); io.Copy(dialer, acceptor) })
			done.Go(func() {
				defer acceptor.Close()
				io.CopyN(acceptor, dialer, 8+32+32) // what a dialer proves
				io.CopyN(io.Discard, dialer, 1)
			})
		}
	})
	return uint16(l.Addr().(*net.TCPAddr).Port), func() { l.Close(); done.Wait() }
}
