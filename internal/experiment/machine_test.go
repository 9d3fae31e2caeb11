package experiment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"perigee/internal/kit/must"
	"perigee/internal/result"
)

func TestReadHardware(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/cpuinfo":                    "processor\t: 0\nmodel name\t: AMD EPYC  9654\nprocessor\t: 1\nmodel name\t: other\n",
		"proc/meminfo":                    "MemFree: 1 kB\nMemTotal:       1024 kB\n",
		"sys/devices/system/node/node0/x": "", "sys/devices/system/node/node1/x": "", "sys/devices/system/node/possible": "0-1",
		"sys/class/net/lo/type": "772\n", "sys/class/net/lo/operstate": "up\n",
		"sys/class/net/eth0/type": "1\n", "sys/class/net/eth0/operstate": "up\n", "sys/class/net/eth0/speed": "25000\n",
		"sys/class/net/down0/type": "1\n", "sys/class/net/down0/operstate": "down\n",
		"sys/class/infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)\n", "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
		"sys/drivers/mlx5_core/x": "", "sys/devices/pci/0000:3b:00.0/x": "",
	} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for link, target := range map[string]string{
		"sys/class/infiniband/mlx5_0/device": "sys/devices/pci/0000:3b:00.0", "sys/devices/pci/0000:3b:00.0/driver": "sys/drivers/mlx5_core",
	} {
		must.Do(t, os.Symlink(filepath.Join(root, target), filepath.Join(root, link)))
	}
	want := &result.Hardware{
		CPU: "AMD EPYC 9654", NUMANodes: 2, MemoryBytes: 1 << 20,
		NICs: []result.NIC{{Name: "eth0", Kind: "ethernet", Mbps: 25000}, {Name: "mlx5_0:1", Kind: "infiniband", Mbps: 200000, Driver: "mlx5_core", PCI: "0000:3b:00.0"}},
	}
	got := readHardware(root, nil)
	must.Equal(t, want, got, cmpopts.IgnoreFields(result.Hardware{}, "Kernel", "GPUs"))
	const text = "AMD EPYC 9654, 2 NUMA nodes, 1.05 MB, eth0 25 Gb/s, mlx5_0:1 200 Gb/s (mlx5_core)"
	got.Kernel, got.GPUs = "", nil
	if got.String() != text {
		t.Errorf("got %s\nwant %s", got, text)
	}
	got.GPUs = []result.GPU{{Name: "H200", MemoryBytes: 1}, {Name: "H200", MemoryBytes: 1}, {Name: "L4"}}
	if want := text + ", 2 x H200, 1 x L4"; got.String() != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if h := readHardware(t.TempDir(), nil); h.CPU != "" || h.Kernel == "" || h.NICs != nil {
		t.Errorf("nothing to read: %+v", h)
	}
	if h := readHardware("/", nil); h.MemoryBytes < 1<<20 || h.Kernel == "" {
		t.Errorf("this machine: %+v", h)
	}
}

func TestCPUModel(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "cpu : POWER9\n": "POWER9", "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n": "ARM implementer 0x41 part 0xd4f",
	} {
		path := filepath.Join(t.TempDir(), "cpuinfo")
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		if got := cpuModel(path); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
