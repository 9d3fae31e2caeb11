package device

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// tree writes files below a temporary folder; a value that starts with -> is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if target, ok := cutPrefix(text, "->"); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		must.Do(t, err)
	}
	return root
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return s, false
}

func TestNICs(t *testing.T) {
	root := tree(t, map[string]string{
		"class/net/lo/type":           "772\n",
		"class/net/lo/operstate":      "unknown\n",
		"class/net/bonding_masters":   "bond0\n", // a file, no interface
		"class/net/eth0":              "->../../devices/pci0/0000:3b:00.0/net/eth0",
		"class/net/eth1/type":         "1\n",
		"class/net/eth1/speed":        "-1\n",
		"class/net/eth1/operstate":    "down\n",
		"class/net/tun0/type":         "65534\n",
		"class/net/tun0/operstate":    "up\n",
		"class/infiniband/mlx5_0":     "->../../devices/pci0/0000:3b:00.0/infiniband/mlx5_0",
		"class/infiniband/odd/fw_ver": "1\n",

		"devices/pci0/0000:3b:00.0/net/eth0/type":      "1\n",
		"devices/pci0/0000:3b:00.0/net/eth0/speed":     "200000\n",
		"devices/pci0/0000:3b:00.0/net/eth0/operstate": "up\n",
		"devices/pci0/0000:3b:00.0/net/eth0/device":    "->../..",

		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/device":             "->../..",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/1/state":      "4: ACTIVE\n",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/1/rate":       "200 Gb/sec (4X HDR)\n",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/2/link_layer": "InfiniBand\n",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/2/state":      "1: DOWN\n",
		"devices/pci0/0000:3b:00.0/infiniband/mlx5_0/ports/2/rate":       "2.5 Gb/sec (1X SDR)\n",
	})
	want := []NIC{
		{Name: "eth0", Kind: "ethernet", State: "up", Mbps: 200000, Bus: "0000:3b:00.0"},
		{Name: "eth1", Kind: "ethernet", State: "down"},
		{Name: "lo", Kind: "loopback", State: "unknown"},
		{Name: "mlx5_0:1", Kind: "ethernet", State: "ACTIVE", Mbps: 200000, RDMA: true, Bus: "0000:3b:00.0",
			Links: "eth0"},
		{Name: "mlx5_0:2", Kind: "infiniband", State: "DOWN", Mbps: 2500, RDMA: true, Bus: "0000:3b:00.0",
			Links: "eth0"},
		{Name: "tun0", Kind: "other", State: "up"},
	}
	got, err := NICs(root)
	must.Do(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("NICs (-want +got):\n%s", diff)
	}
}

func TestNoNICs(t *testing.T) {
	got, err := NICs(t.TempDir())
	if err != nil || len(got) != 0 {
		t.Errorf("an empty sysfs: got %v, %v", got, err)
	}
	if _, err := NICs(tree(t, map[string]string{"class/net": "a file"})); err == nil {
		t.Error("a file in place of the folder is not an error")
	}
}

func FuzzRate(f *testing.F) {
	f.Add("200 Gb/sec (4X HDR)")
	f.Add("1e300 Gb/sec")
	f.Add("NaN Gb/sec")
	f.Add("1e6 Gb/sec")
	f.Add("-1 Gb/sec")
	fuzztest.Run(f, []string{"200", "1", "0", ".", "e", " Gb/sec", " (4X HDR)", "-", "+", "9", "2.5"}, func(t *testing.T, s string) {
		if r := rate(s); r < 0 || r >= 1e9 || r > 0 && !strings.Contains(s, " Gb/sec") {
			t.Errorf("rate(%q) = %d", s, r)
		}
		mbps := fuzztest.Random([]byte(s)).Int64N(1e9)
		if text := fmt.Sprintf("%d.%03d Gb/sec (4X)", mbps/1000, mbps%1000); max(rate(text)-mbps, mbps-rate(text)) > 1 {
			t.Errorf("rate(%q) = %d, want %d", text, rate(text), mbps)
		}
	})
}

// TestMachine holds on every machine: either there are GPUs whose memory works, or the refusal says
// what to do.
func TestMachine(t *testing.T) {
	gpus, err := GPUs()
	must.Do(t, err)
	if len(gpus) == 0 {
		_, err := OpenCUDA(0)
		if fault.KindOf(err) != fault.Resource || fault.HintOf(err) == "" {
			t.Errorf("no GPU: got %v (%v), want an error of kind %v with a hint", err, fault.KindOf(err),
				fault.Resource)
		}
		if usable, err := Visible(); len(usable) > 0 || err != nil {
			t.Errorf("no GPU, but CUDA lists %q (%v)", usable, err)
		}
		return
	}
	usable, err := Visible()
	if err != nil || os.Getenv("CUDA_VISIBLE_DEVICES") == "" && len(usable) != len(gpus) {
		t.Errorf("%d GPUs, of which CUDA lists %q (%v)", len(gpus), usable, err)
	}
	for _, uuid := range usable {
		if !slices.ContainsFunc(gpus, func(g GPU) bool { return g.UUID == uuid }) {
			t.Errorf("CUDA lists %s, which is none of %+v", uuid, gpus)
		}
	}
	for i, g := range gpus {
		if g.Index != i || g.Name == "" || g.UUID == "" || g.Memory == 0 || g.PCI == "" {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
	testMemory(t)
}

func testMemory(t *testing.T) {
	c, err := OpenCUDA(0)
	must.Do(t, err)
	address, err := c.Alloc(1000)
	must.Do(t, err)
	want, got := []byte("bytes that go there and back"), make([]byte, 28)
	if err := c.CopyIn(address+100, want); err != nil {
		t.Error(err)
	}
	if err := c.CopyOut(got, address+100); err != nil {
		t.Error(err)
	}
	if string(got) != string(want) {
		t.Errorf("got %q back, want %q", got, want)
	}
	if err := c.Free(address); err != nil {
		t.Error(err)
	}
	if again, err := OpenCUDA(0); err != nil || again != c {
		t.Errorf("the context is %p, and %p (%v) when it is opened again", c, again, err)
	}
}

// GDS refuses files that were opened with flags of the search for them.
func TestFlagsOfFiles(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	must.Do(t, os.WriteFile(there, make([]byte, 8192), 0o600))
	for _, f := range []nixl.File{
		{Path: filepath.Join(dir, "made"), Size: 4096, Make: true}, {Path: there, Size: 4096},
		{Path: there, Size: 4096, Write: true}, {Path: there, Size: 4096, Write: true, Direct: true},
	} {
		file, err := OpenFile(f)
		must.Do(t, err)
		want := os.O_RDONLY
		if f.Make || f.Write {
			want = os.O_RDWR
		}
		if f.Direct {
			want |= unix.O_DIRECT
		}
		const large = 0x8000 // the kernel's O_LARGEFILE, 0 in package unix
		if got, err := unix.FcntlInt(uintptr(file.FD()), unix.F_GETFL, 0); err != nil || got&^large != want {
			t.Errorf("%+v: flags %#x (%v), want %#x", f, got, err, want)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Ranks that make the same file at the same time each get their own, and none stays behind.
func TestFilesMadeAtOnce(t *testing.T) {
	folder := t.TempDir()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				f, err := OpenFile(nixl.File{Path: filepath.Join(folder, "same"), Size: 1, Make: true})
				if err != nil {
					t.Error(err)
					return
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The message names the file that was asked for.
func TestFileThatCannotBeMade(t *testing.T) {
	folder := tree(t, map[string]string{"there": "text"})
	for path, words := range map[string]string{
		"there":                  "exists already",
		"there/file":             "not a directory",
		"no/such/folder":         "no such file or directory",
		strings.Repeat("x", 256): "file name too long",
	} {
		path = filepath.Join(folder, path)
		_, err := OpenFile(nixl.File{Path: path, Size: 1, Make: true})
		if fault.KindOf(err) != fault.Input || !strings.Contains(fmt.Sprint(err), path) ||
			!strings.Contains(fmt.Sprint(err), words) {
			t.Errorf("%s: got %v, want %q", path, err, words)
		}
	}
}
