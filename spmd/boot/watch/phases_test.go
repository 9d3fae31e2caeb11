package watch

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
	"perigee/internal/kit/version"
	"perigee/spmd/spmdtest"
	"perigee/spmd/wire"
)

// counted is a connection that counts what is written.
type counted struct {
	net.Conn
	bytes int
}

func (c *counted) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return c.Conn.Write(b)
}

// connectSpeaker connects a Client over TCP to a coordinator that reads and says what a test wants.
func connectSpeaker(t *testing.T) (*Client, *counted, *speaker) {
	t.Helper()
	secret := []byte("a secret of the job")
	entered := make(chan net.Conn, 1)
	l, err := wire.Listen(wire.ListenerConfig{Address: "127.0.0.1:0", Secret: secret, Enter: func(conn net.Conn, _ int) { entered <- conn }})
	must.Do(t, err)
	ours, err := wire.Dial(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Port())), secret, 1, 0)
	must.Do(t, err)
	theirs := <-entered
	l.Close()
	s := &speaker{t: t, conn: theirs, in: json.NewDecoder(theirs)}
	s.say(message{Is: isSecret, Build: new(version.Get())})
	line := &counted{Conn: ours}
	cl, _, err := NewClient(t.Context(), line, Self{Rank: 1, Size: 2}, Leader{Name: "rank 0"})
	must.Do(t, err)
	t.Cleanup(func() { ours.Close(); <-cl.end; theirs.Close() })
	return cl, line, s
}

// unacknowledged returns how many bytes the kernel keeps that the other end has no room for yet, or has not acknowledged.
func unacknowledged(t *testing.T, c *counted) (n int) {
	t.Helper()
	raw, err := c.Conn.(*wire.Conn).Conn.(*net.TCPConn).SyscallConn()
	must.Do(t, err)
	raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	must.Do(t, err)
	return n
}

// A rank that enters phase after phase is not held up by a coordinator that is stopped, and fills no connection. When
// that goes on it hears of the last phase.
func TestManyPhasesFillNoConnection(t *testing.T) {
	for name, long := range map[string]string{"short": "", "long": strings.Repeat("x", maxText), "escaped": strings.Repeat("\x01", maxText)} {
		t.Run(name, func(t *testing.T) {
			cl, line, coordinator := connectSpeaker(t)
			const n = 100_000
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range n {
					cl.Phase(fmt.Sprint(i+1, long))
				}
			}()
			select {
			case <-done:
			case <-time.After(spmdtest.Patience):
				t.Fatal("a stopped coordinator holds up its rank")
			}
			if most := maxUnread + 6*maxText + lineBytes; line.bytes > most {
				t.Errorf("%d bytes wait to be read, at most %d should", line.bytes, most)
			}
			spmdtest.Wait(t, func() bool { return unacknowledged(t, line) == 0 })
			coordinator.conn.SetReadDeadline(time.Now().Add(spmdtest.Patience))
			last := fmt.Sprint(n, long)
			for lines := 1; ; lines++ {
				m := coordinator.hear()
				if m.Answer {
					coordinator.say(message{Is: isNoted})
				}
				if m.Phase == bounded(last) {
					break
				}
				if lines > n/100 {
					t.Fatalf("line %d is %+v", lines, m)
				}
			}
		})
	}
}

// A coordinator that reads gets each phase of a job, those of all but the shortest moments, and the last in any case.
func TestPhasesReachTheCoordinator(t *testing.T) {
	c := newCoordinator(t, 1)
	cl := connectClient(t, c, 0)
	must.Do(t, cl.Put(t.Context(), nil))
	must.Do(t, cl.Fence(t.Context()))
	phase := func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.members[0].phase
	}
	for i := range 1000 {
		name := fmt.Sprint("phase ", i)
		cl.Phase(name)
		spmdtest.Wait(t, func() bool { return phase() == name })
	}
	for i := range 10_000 {
		cl.Phase(fmt.Sprint("hurried phase ", i))
	}
	spmdtest.Wait(t, func() bool { return phase() == "hurried phase 9999" })
}
