package boot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/spmd/spmdtest"
)

// tcpStore is a store as torchrun's agents have it, as far as perigee talks to it. It returns its address.
func tcpStore(t *testing.T, values map[string]string) string {
	t.Helper()
	var mu sync.Mutex
	return serve(t, func(c net.Conn) error {
		text := func() string {
			var size uint64
			binary.Read(c, binary.NativeEndian, &size)
			b := make([]byte, min(size, 1<<16))
			io.ReadFull(c, b)
			return string(b)
		}
		var hello struct {
			Kind  [1]byte
			Magic uint32
		}
		if err := binary.Read(c, binary.NativeEndian, &hello); err != nil || hello.Kind[0] != 0 || hello.Magic != 0x3C85F7CE {
			return fmt.Errorf("it begins with %v, %v", hello, err)
		}
		for {
			var kind [1]byte
			if _, err := io.ReadFull(c, kind[:]); err != nil {
				return nil
			}
			mu.Lock()
			switch kind[0] {
			case 1:
				key := text()
				values[key] = text()
			case 3:
				value, ok := values[text()]
				if !ok {
					return fmt.Errorf("it asks for what is not there")
				}
				c.Write(append(binary.NativeEndian.AppendUint64(nil, uint64(len(value))), value...))
			case 5:
				var n uint64
				binary.Read(c, binary.NativeEndian, &n)
				_, ok := values[text()]
				c.Write([]byte{map[bool]byte{true: 0, false: 1}[ok]})
			default:
				return fmt.Errorf("request %d", kind[0])
			}
			mu.Unlock()
		}
	})
}

// serve listens until the test ends, and has each connection served. It returns its address.
func serve(t *testing.T, each func(net.Conn) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				if err := each(c); err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// apart are two ranks of torchrun's of which rank 0 is not at MASTER_ADDR, where rank 1 looks for it. The store of the
// agents is at an address.
func apart(t *testing.T, store string) (zero, one rendezvous) {
	t.Helper()
	ports, err := spmdtest.FreePorts(2)
	must.Do(t, err)
	at := func(rank int) rendezvous {
		return rendezvous{
			launcher: "torchrun", rank: rank, size: 2, localRank: -1, job: "apart", host: "192.0.2.1", secret: []byte("the secret of this job"),
			listen: []string{fmt.Sprint(":", ports[0])}, meet: []string{fmt.Sprint("127.0.0.1:", ports[1])},
			agents: &agentStore{address: store, port: fmt.Sprint(ports[0])},
		}
	}
	return at(0), at(1)
}

// joinBoth lets both ranks join and leave, rank 0 after rank 1 has asked the store.
func joinBoth(t *testing.T, zero, one rendezvous) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), spmdtest.Patience)
	defer cancel()
	var errs [2]error
	var all sync.WaitGroup
	for i, r := range []rendezvous{zero, one} {
		all.Go(func() {
			if r.rank == 0 {
				time.Sleep(storePause + 100*time.Millisecond)
			}
			p, err := r.join(ctx, Watcher{})
			if err == nil {
				err = errors.Join(p.Put(ctx, nil), p.Fence(ctx), p.Leave(ctx))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// The agents' store may be on another host than rank 0, which then leaves its addresses there.
func TestRankZeroIsElsewhere(t *testing.T) {
	values := map[string]string{}
	zero, one := apart(t, tcpStore(t, values))
	if err := joinBoth(t, zero, one); err != nil {
		t.Error(err)
	}
	ips, err := hostIPs("", "")
	if err != nil || values["/perigee/"+zero.agents.port] != strings.Join(ips, ",") {
		t.Errorf("the store has %q, want %q", values, ips)
	}
}

// What others have left in the store, and a store that is none, cost a moment.
func TestForeignAgentStore(t *testing.T) {
	squatter := serve(t, func(c net.Conn) error {
		_, err := c.Write([]byte("220 this is a mail server, which says much\r\n"))
		return err
	})
	for name, store := range map[string]string{
		"none":   "127.0.0.1:1",
		"mail":   squatter,
		"silent": serve(t, func(c net.Conn) error { io.Copy(io.Discard, c); return nil }),
		"odd":    "",
		"large":  "",
		"many":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := map[string]string{}
			if store == "" {
				store = tcpStore(t, values)
			}
			zero, one := apart(t, store)
			_, port, _ := net.SplitHostPort(squatter)
			one.agents.port, zero.agents = port, nil // rank 0 is where all look for it
			values["/perigee/"+port] = map[string]string{
				"odd":   "127.0.0.1,::1,x,,localhost,127.0.0.1:80,-1",
				"large": strings.Repeat("1", maxStoreValue+1),
				"many":  strings.TrimSuffix(strings.Repeat("127.0.0.1,", 400), ","),
			}[name]
			zero.listen = one.meet
			if err := joinBoth(t, zero, one); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPlacesIn(t *testing.T) {
	for value, want := range map[string][]string{
		"":                             nil,
		"10.0.0.1,fd77::1":             {"10.0.0.1:5", "[fd77::1]:5"},
		"10.0.0.1:80,host,,fe80::1%lo": nil,
	} {
		if got := placesIn(value, "5"); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := placesIn(strings.Repeat("10.0.0.1,", 200), "5"); len(got) != maxStoreIPs {
		t.Errorf("%d addresses, want %d", len(got), maxStoreIPs)
	}
}

// Whatever the store says is a value of bounded size, or an error.
func FuzzAgentStore(f *testing.F) {
	value := func(n uint64, text string) []byte {
		return append(binary.NativeEndian.AppendUint64([]byte{storeHas}, n), text...)
	}
	for _, says := range [][]byte{nil, {1}, value(8, "10.0.0.1"), value(1<<63, "10.0.0.1"), value(maxStoreValue, "x"), value(0, ""), value(8, "::%n[ ::")} {
		f.Add(says)
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		s := &agentStore{port: "5"}
		got, err := s.get(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(says), io.Discard})
		has := len(says) > 0 && says[0] == storeHas
		if err == nil && (got != nil) != has || len(got) > maxStoreValue || len(got) > len(says) {
			t.Errorf("%q: %q, %v", says, got, err)
		}
		for _, place := range placesIn(string(got), s.port) {
			if _, err := netip.ParseAddrPort(place); err != nil || strings.Contains(place, "%") {
				t.Errorf("%q: place %q", says, place)
			}
		}
	})
}
