package spmdtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Alter passes on connections to an address, with the byte of number up altered on the way there, and that of number
// down on the way back (-1 is none), in the first so many of them.
func Alter(t testing.TB, to string, up, down, times int) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { l.Close(); done.Wait() })
	pass := func(from io.Reader, to io.WriteCloser, at int) {
		defer to.Close()
		if at >= 0 {
			io.CopyN(to, from, int64(at))
			b := make([]byte, 1)
			if _, err := io.ReadFull(from, b); err != nil {
				return
			}
			b[0] ^= 1
			to.Write(b)
		}
		io.Copy(to, from)
	}
	done.Go(func() {
		for n := 0; ; n++ {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				return
			}
			if n == times {
				up, down = -1, -1
			}
			there, back := up, down
			done.Go(func() { pass(a, b, there) })
			done.Go(func() { pass(b, a, back) })
		}
	})
	return l.Addr().String()
}
