//go:build cgo

package capi

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/clock"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
)

// connectedPair is two agents of this process, connected.
func connectedPair(t *testing.T, cfg nixl.AgentConfig) [2]nixl.Agent {
	t.Helper()
	e, err := open()
	must.Do(t, err)
	return connectedPairOf(t, e, cfg)
}

func connectedPairOf(t *testing.T, e nixl.Engine, cfg nixl.AgentConfig) [2]nixl.Agent {
	t.Helper()
	var pair [2]nixl.Agent
	for i := range pair {
		cfg.Name = fmt.Sprintf("%s-%d", t.Name(), i)
		a, err := e.NewAgent(cfg)
		must.Do(t, err)
		t.Cleanup(func() { a.Close() })
		pair[i] = a
		if _, err := pair[i].Alloc(nixl.DRAM, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range pair {
		card, err := pair[1-i].Card()
		if err == nil {
			err = a.AddPeer(1-i, card)
		}
		if err == nil {
			err = a.Connect([]int{1 - i})
		}
		must.Do(t, err)
	}
	await(t, func() (bool, error) {
		all := true
		for _, a := range pair {
			if err := a.Progress(); err != nil {
				return false, err
			}
			ok, err := a.Connected()
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		return all, nil
	})
	return pair
}

// await polls for at most half a minute.
func await(t *testing.T, done func() (bool, error)) {
	t.Helper()
	must.Do(t, nixl.Poll(nixl.Control{Deadline: clock.Now() + 30e9}, done))
}

// The group of a user has no business in the memory of ranks; System V segments of UCX have mode 0660.
func TestNoSegmentsForTheGroup(t *testing.T) {
	connectedPair(t, nixl.AgentConfig{OneHost: true})
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip("this kernel has no System V segments")
	}
	for line := range strings.Lines(string(table)) {
		// key shmid perms size cpid ...
		if f := strings.Fields(line); len(f) > 4 && f[4] == fmt.Sprint(os.Getpid()) {
			t.Errorf("segment of mode %s: %s", f[2], line)
		}
	}
}

// listeners are the addresses at which this process accepts connections.
func listeners(t *testing.T) (list []netip.Addr) {
	t.Helper()
	sockets := map[string]bool{}
	files, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	for _, f := range files {
		if target, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.ReadFile(name)
		if err != nil {
			continue // a kernel without IPv6
		}
		for line := range strings.Lines(string(table)) {
			// sl local_address remote_address state ... inode
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !sockets[f[9]] {
				continue
			}
			list = append(list, address(t, f[1]))
		}
	}
	return list
}

// address reads what the kernel writes: words in the machine's order, in hexadecimal digits.
func address(t *testing.T, text string) netip.Addr {
	t.Helper()
	digits, _, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(digits)
	must.Do(t, err)
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return a.Unmap()
}

// On one host UCX has no listener, which would ask for no secret. Where it has to have one, it is the loopback
// interface's, and messages still arrive.
func TestListenersOfOneHost(t *testing.T) {
	several := newAgent(t, nixl.AgentConfig{Name: "several"}).Info().Params
	if several["net_devices"] != "" || several["tls"] != "^sysv" {
		t.Errorf("several hosts: %v", several)
	}
	tightly := func(cfg nixl.AgentConfig) [2]nixl.Agent {
		t.Setenv("UCX_POSIX_DIR", filepath.Join(t.TempDir(), "missing"))
		e, err := open()
		must.Do(t, err)
		return connectedPairOf(t, e.(*Engine).WithoutSharedMemory(), cfg)
	}
	for _, c := range []struct {
		name    string
		connect func(cfg nixl.AgentConfig) [2]nixl.Agent
		tls     string
		opens   bool
	}{
		{"shared memory", func(cfg nixl.AgentConfig) [2]nixl.Agent { return connectedPair(t, cfg) }, "^sysv,tcp", false},
		{"no room for it", tightly, "^sysv,posix", true},
	} {
		before := listeners(t)
		pair := c.connect(nixl.AgentConfig{OneHost: true})
		after := listeners(t)
		if opened := len(after) > len(before); opened != c.opens {
			t.Errorf("%s: listens at %v, before at %v", c.name, after, before)
		}
		for _, a := range after {
			if !a.IsLoopback() && !slices.Contains(before, a) {
				t.Errorf("%s: listens at %v", c.name, a)
			}
		}
		for _, a := range pair {
			if got := a.Info().Params; got["net_devices"] != "lo" || got["tls"] != c.tls {
				t.Errorf("%s: %v, want lo and %s", c.name, got, c.tls)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The user's own guess of how fast copies are counts.
func TestCopiesOfTheUser(t *testing.T) {
	cfg := nixl.AgentConfig{Name: "copies", OneHost: true}
	if got := newAgent(t, cfg).Info().Params["bcopy_bw"]; got != copies {
		t.Errorf("got %q, want %q", got, copies)
	}
	t.Setenv("UCX_BCOPY_BW", "10000MBs")
	cfg.Name = "slow copies"
	if got := newAgent(t, cfg).Info().Params; got["bcopy_bw"] != "" {
		t.Errorf("with UCX_BCOPY_BW=10000MBs: %v", got)
	}
}

// What a closed agent leaves to those who keep it is small.
func TestClosedAgentIsSmall(t *testing.T) {
	const count = 20
	var kept []nixl.Agent
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range count {
		pair := connectedPair(t, nixl.AgentConfig{OneHost: true})
		for i, a := range pair {
			for range 8 {
				must.Do(t, a.Notify(1-i, make([]byte, nixl.MaxNotice)))
			}
		}
		received := 0
		await(t, func() (bool, error) {
			for _, a := range pair {
				list, err := a.Receive(nil)
				if err != nil {
					return false, err
				}
				received += len(list)
			}
			return received == 2*8, nil
		})
		for _, a := range pair {
			must.Do(t, a.Close())
			kept = append(kept, a)
		}
	}
	if each := int64(heap()-before) / int64(len(kept)); each > 16<<10 {
		t.Errorf("a closed agent keeps %d bytes", each)
	}
	runtime.KeepAlive(kept)
}

// UCX gives a peer up that it has not reached for seconds, and the library says only that the backend failed.
func TestHintOfAFailedTransfer(t *testing.T) {
	for _, c := range []struct {
		name string
		peer *peer
		want string
	}{
		{"another host", &peer{}, "has the network between the two failed, if only for seconds? " + accountHint},
		{"this host", &peer{process: &kernel.Watched{}}, accountHint},
	} {
		err := task{number: 3, peer: c.peer}.failed(-2)
		if fault.KindOf(err) != fault.Engine || err.Error() != "NIXL: transfer with peer 3: the backend failed" || fault.HintOf(err) != c.want {
			t.Errorf("%s: %v (%s)", c.name, err, fault.HintOf(err))
		}
	}
}

// The user's settings of UCX are named, those of its log apart.
func TestHintNamesSettingsOfUCX(t *testing.T) {
	if got := withoutVariables([]string{"PATH=/bin", "UCX_LOG_LEVEL=info"}); got != "" {
		t.Error(got)
	}
	got := withoutVariables([]string{"UCX_TLS=self", "HOME=/", "UCX_LOG_FILE=x", "UCX_PROTO_ENABLE=n"})
	if want := "try without UCX_PROTO_ENABLE=n, UCX_TLS=self, which the environment sets; "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("UCX_PROTO_ENABLE", "n")
	if hint := fault.HintOf(task{number: 3, peer: &peer{}}.failed(-2)); !strings.Contains(hint, "UCX_PROTO_ENABLE=n") {
		t.Error(hint)
	}
}

// A list of devices stands in place of UCX_NET_DEVICES for an engine's agents.
func TestOnDevices(t *testing.T) {
	t.Setenv("UCX_NET_DEVICES", "")
	os.Unsetenv("UCX_NET_DEVICES")
	t.Setenv("UCX_TLS", "tcp")
	opened, err := open()
	must.Do(t, err)
	e := opened.(*Engine)
	t.Cleanup(func() { setVariable("UCX_NET_DEVICES", "all", true) }) // what is not set means the same
	if a, err := e.OnDevices("none0,none1").NewAgent(nixl.AgentConfig{Name: "on-devices"}); err == nil {
		a.Close()
		t.Error("UCX does without the devices that it may use")
	}
	a, err := e.OnDevices("lo").NewAgent(nixl.AgentConfig{Name: "on-devices", OneHost: true})
	must.Do(t, err)
	defer a.Close()
	if config := a.(*agent).mode.config(); config != "" {
		t.Errorf("the agent's own parameter is %s, which would override the list", config)
	}
}
