package wire

import (
	"net"
	"testing"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// A rank that reaches another at two addresses at once confirms one of the connections. The end of the
// other is no news, whether it comes before or after the first message.
func TestEndOfAnUnconfirmedConnection(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			ends := mesh(t, 2)
			admitting := func() int {
				ends[1].mu.Lock()
				defer ends[1].mu.Unlock()
				return ends[1].peerLocked(0).admitting
			}
			message := func() {
				t.Helper()
				must.Do(t, ends[0].Send(t.Context(), 1, Header{Channel: 1}, []byte("hi")))
				if _, data, err := ends[1].Recv(t.Context(), 0, 1); err != nil || string(data) != "hi" {
					t.Fatalf("got %q, %v", data, err)
				}
			}
			loser := func() {
				t.Helper()
				conn := dialRaw(t, ends[1])
				if _, err := greet(conn, given(secret), 0, 1); err != nil {
					t.Fatal(err)
				}
				spmdtest.Wait(t, func() bool { return admitting() == 1 })
				conn.(*net.TCPConn).SetLinger(linger)
				conn.Close()
				spmdtest.Wait(t, func() bool { return admitting() == 0 })
			}
			loser()
			message()
			kept := linkOf(t, ends[1], 0)
			loser()
			message()
			if l := linkOf(t, ends[1], 0); l != kept || ends[1].countLinks() != 1 {
				t.Errorf("there are %d links, and the first is in use: %v", ends[1].countLinks(), l == kept)
			}
		})
	}
}

func (t *TCP) countLinks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.links)
}
