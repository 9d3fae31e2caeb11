package spmdtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Between returns a fresh address, and opens a connection to another address for each that comes there. pass is called
// for the n'th pair, counted from 1, and passes on what comes with functions that it gives to start; it may close the
// listener, so that no more come.
func Between(
	t testing.TB, to string, pass func(n int, l net.Listener, a, b net.Conn, start func(f func())),
) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	t.Cleanup(func() { l.Close(); done.Wait() })
	done.Go(func() {
		for n := 1; ; n++ {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				return
			}
			pass(n, l, a, b, done.Go)
		}
	})
	return l.Addr().String()
}

// Alter passes on connections to an address, with the byte of number up altered on the way there, and that of number
// down on the way back (-1 is none), in the first so many of them.
func Alter(t testing.TB, to string, up, down, times int) (address string) {
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
	return Between(t, to, func(n int, _ net.Listener, a, b net.Conn, start func(func())) {
		there, back := up, down
		if n > times {
			there, back = -1, -1
		}
		start(func() { pass(a, b, there) })
		start(func() { pass(b, a, back) })
	})
}
