package wire

import (
	"net"
	"testing"

	"perigee/spmd/spmdtest"
)

// A rank that reaches another at two addresses at once keeps one of the links. The end of the
// other is no news, whether it comes before or after the first message.
func TestEndOfALinkThatWasNotUsed(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			ends := mesh(t, 2)
			links := func() int {
				ends[0].mu.Lock()
				defer ends[0].mu.Unlock()
				return len(ends[0].links)
			}
			message := func() {
				t.Helper()
				if err := ends[1].Send(t.Context(), 0, Header{Channel: 1}, []byte("hi")); err != nil {
					t.Fatal(err)
				}
				if _, data, err := ends[0].Recv(t.Context(), 1, 1); err != nil || string(data) != "hi" {
					t.Fatalf("got %q, %v", data, err)
				}
			}
			loser := func() {
				t.Helper()
				before := links()
				conn := dialRaw(t, ends[0])
				if _, err := greet(conn, secret, 1, 0); err != nil {
					t.Fatal(err)
				}
				spmdtest.Wait(t, func() bool { return links() == before+1 })
				conn.(*net.TCPConn).SetLinger(linger)
				conn.Close()
				spmdtest.Wait(t, func() bool { return links() == before })
			}
			loser()
			message()
			kept := linkOf(t, ends[0], 1)
			loser()
			message()
			if l := linkOf(t, ends[0], 1); l != kept {
				t.Error("a link that was not used is taken for the rank's")
			}
		})
	}
}
