package shm

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/nixl"
	"perigee/nixl/internal/kernel"
	"perigee/nixl/nixltest"
)

func open() (nixl.Engine, error) { return New(), nil }

// limitEnv makes the test binary a process with a limit on file sizes.
const limitEnv = "PERIGEE_SHM_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitEnv) != "" {
		os.Exit(allocateBeyondLimit())
	}
	nixltest.Main(m, open)
}

func TestConformance(t *testing.T) {
	nixltest.Run(t, nixltest.Setup{Open: open, Lives: 1000, Config: nixl.AgentConfig{OneHost: true}})
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	a, err := New().NewAgent(nixl.AgentConfig{Name: t.Name(), OneHost: true})
	must.Do(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return a.(*agent)
}

func wantFault(t *testing.T, err error, kind fault.Kind, words string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	must.Fail(t, err, kind, words)
	if kind != fault.RankLost && fault.HintOf(err) == "" {
		t.Errorf("%v: no hint", err)
	}
}

func TestRefusals(t *testing.T) {
	_, err := New().NewAgent(nixl.AgentConfig{Name: "a"})
	wantFault(t, err, fault.Engine, "one host")
	a := newAgent(t)
	_, err = a.Alloc(nixl.VRAM, 1)
	wantFault(t, err, fault.Resource, "vram")
	_, err = a.Alloc(nixl.DRAM, 1<<60)
	wantFault(t, err, fault.Resource, "memory")
}

// TestStrangers prepares transfers with peers that cannot be reached.
func TestStrangers(t *testing.T) {
	mine, theirs := newAgent(t), newAgent(t)
	for _, a := range []*agent{mine, theirs} {
		if _, err := a.Alloc(nixl.DRAM, 100); err != nil {
			t.Fatal(err)
		}
	}
	good := card{owner: theirs.own, name: "theirs", inbox: cardBuffer{fd: -1},
		buffers: []cardBuffer{theirs.buffers[0].entry}}
	tests := []struct {
		name   string
		change func(c *card)
		kind   fault.Kind
		words  string
	}{
		{"another host", func(c *card) { c.owner.Boot[0]++ }, fault.Engine, "another host"},
		{"another container", func(c *card) { c.owner.Namespace++ }, fault.Engine, "pid namespace"},
		{"an earlier process", func(c *card) { c.owner.Start-- }, fault.RankLost, "is gone"},
		{"no process", func(c *card) { c.owner.PID = 1<<31 - 1 }, fault.RankLost, "is gone"},
		{"no such file", func(c *card) { c.buffers[0].fd = 1 << 20 }, fault.Engine, "closed"},
		{"another file", func(c *card) { c.buffers[0].fd = 0 }, fault.Engine, ""},
		{"another inode", func(c *card) { c.buffers[0].inode++ }, fault.Engine, "closed"},
		{"another size", func(c *card) { c.buffers[0].size++ }, fault.Engine, "closed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := card{owner: good.owner, name: good.name, inbox: good.inbox, buffers: []cardBuffer{good.buffers[0]}}
			test.change(&c)
			must.Do(t, mine.AddPeer(3, c.encode()))
			d := []nixl.Desc{{Len: 1}}
			_, err := mine.NewBatch([]nixl.Transfer{{Peer: 3, Local: d, Remote: d}})
			if err == nil || !strings.Contains(err.Error(), "peer 3") {
				t.Fatalf("got %v: want an error that names peer 3", err)
			}
			e, _ := errors.AsType[*fault.Error](err)
			wantFault(t, e, test.kind, test.words)
		})
	}
}

// TestSealed proves that a buffer cannot shrink below a peer's mapping.
func TestSealed(t *testing.T) {
	a := newAgent(t)
	b, err := a.Alloc(nixl.DRAM, 5000)
	must.Do(t, err)
	fd := b.(*buffer).Memory.(*memfd).fd
	for _, size := range []int64{0, 100, 10_000} {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("ftruncate to %d: got %v, want %v", size, err, unix.EPERM)
		}
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: want close-on-exec", flags, err)
	}
}

// TestFileSizeLimit runs into ulimit -f, which would otherwise end the process by SIGXFSZ.
func TestFileSizeLimit(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), limitEnv+"=1", "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "limit on file sizes, 1.0 MiB") {
		t.Errorf("%v\n%s", err, out)
	}
}

func allocateBeyondLimit() int {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		panic(err)
	}
	a, err := New().NewAgent(nixl.AgentConfig{OneHost: true})
	if err != nil {
		panic(err)
	}
	_, err = a.Alloc(nixl.DRAM, 1<<20+1)
	os.Stdout.WriteString(err.Error())
	return 0
}

func TestBufferAccess(t *testing.T) {
	b, err := newAgent(t).Alloc(nixl.DRAM, 10)
	must.Do(t, err)
	if n, err := b.WriteAt([]byte("abc"), 7); n != 3 || err != nil {
		t.Errorf("WriteAt: %d, %v", n, err)
	}
	p := make([]byte, 3)
	if n, err := b.ReadAt(p, 7); n != 3 || err != nil || string(p) != "abc" {
		t.Errorf("ReadAt: %d, %v, %q", n, err, p)
	}
	for _, off := range []int64{-1, 8, 1<<63 - 1} {
		if _, err := b.ReadAt(p, off); err == nil {
			t.Errorf("ReadAt(%d): no error", off)
		}
		if _, err := b.WriteAt(p, off); err == nil {
			t.Errorf("WriteAt(%d): no error", off)
		}
	}
}

func exampleCard() card {
	return card{
		owner:   kernel.ProcessID{Boot: [16]byte{1}, Namespace: 2, PID: 3, Start: 4},
		name:    "rank 7",
		inbox:   cardBuffer{fd: 9, size: inboxSize, dev: 7, inode: 9},
		buffers: []cardBuffer{{fd: 5, size: 6, dev: 7, inode: 8}, {fd: -1}},
	}
}

func TestCardRoundTrip(t *testing.T) {
	got, err := decodeCard(exampleCard().encode())
	must.Do(t, err)
	if diff := cmp.Diff(exampleCard(), got, cmp.AllowUnexported(card{}, cardBuffer{})); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
}

func FuzzDecodeCard(f *testing.F) {
	f.Add([]byte{})
	f.Add(exampleCard().encode())
	f.Add(exampleCard().encode()[:60])
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := decodeCard(data); err == nil && (!bytes.Equal(c.encode(), data) || !sane(c)) {
			t.Errorf("%x is read as %+v", data, c)
		}
		random := fuzztest.Random(data)
		c := exampleCard()
		c.owner = kernel.ProcessID{Boot: [16]byte{byte(random.Uint32())}, Namespace: random.Uint64(), PID: uint64(fuzztest.Int64(random)), Start: random.Uint64()}
		c.name = string(fuzztest.Bytes(random, nameSize))
		c.buffers = nil
		for range random.IntN(3) {
			c.buffers = append(c.buffers, cardBuffer{fd: random.Int64N(9), size: 1 + random.Int64N(1<<40), dev: random.Uint64(), inode: random.Uint64()})
		}
		for _, e := range append(c.buffers, cardBuffer{})[:random.IntN(len(c.buffers)+1)] {
			switch odd := fuzztest.Int64(random); random.IntN(4) {
			case 0:
				e.fd = odd
			case 1:
				e.size = odd
			case 2:
				e = cardBuffer{fd: -1, dev: uint64(random.IntN(2)), inode: uint64(random.IntN(2))}
			}
			c.buffers[random.IntN(len(c.buffers))] = e
		}
		got, err := decodeCard(c.encode())
		if sane(c) != (err == nil) {
			t.Fatalf("%+v: %v", c, err)
		}
		if diff := cmp.Diff(c, got, cmp.AllowUnexported(card{}, cardBuffer{}), cmpopts.EquateEmpty()); err == nil && diff != "" {
			t.Fatal(diff)
		}
		padded := append([]byte(c.encode()), make([]byte, cardEntry)...)
		for _, wrong := range [][]byte{padded, padded[:len(padded)-1], c.encode()[:cardHead-1]} {
			if _, err := decodeCard(wrong); err == nil {
				t.Fatalf("%d bytes are a card of %d buffers", len(wrong), len(c.buffers))
			}
		}
	})
}

// sane says what a card may hold.
func sane(c card) bool {
	for _, e := range append(c.buffers, c.inbox) {
		file := e.fd >= 0 && e.fd <= math.MaxInt32 && e.size > 0 && e.size <= math.MaxInt64/2
		if !file && e != (cardBuffer{fd: -1}) {
			return false
		}
	}
	return c.owner.PID >= 1 && c.owner.PID <= math.MaxInt32 && len(c.name) >= 1 && len(c.name) <= nameSize
}

func BenchmarkEngine(b *testing.B) {
	nixltest.Bench(b, nixltest.Setup{Open: open, Config: nixl.AgentConfig{OneHost: true}})
}
