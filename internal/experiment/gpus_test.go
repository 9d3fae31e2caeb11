package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/nixl/device"
	"perigee/spmd"
)

// A map gives its values in turn or to single local ranks; what is no map is refused with the reason.
func TestLocalMaps(t *testing.T) {
	for _, c := range []struct {
		nics       bool
		text, want string // of local ranks 0 to 4
		err        string
	}{
		{false, "", "- - - - -", ""},
		{false, "1,0", "1 0 1 0 1", ""},
		{false, "0:3, 2:1", "3 - 1 - -", ""},
		{true, "mlx5_0:1,mlx5_1:1+eth0", "mlx5_0:1 mlx5_1:1,eth0 mlx5_0:1 mlx5_1:1,eth0 mlx5_0:1", ""},
		{true, "4=eth0+lo", "- - - - eth0,lo", ""},
		{false, "0,a", "", `--gpu-map 0,a: "a"`},
		{false, "0,-1", "", `--gpu-map 0,-1: "-1"`},
		{false, "0,", "", `--gpu-map 0,: ""`},
		{false, "0,99999999999999999999", "", `"99999999999999999999"`},
		{false, "0:1,3", "", "some entries name a local rank, and some do not"},
		{false, "1:1,1:2", "", "local rank 1 is there twice"},
		{false, "x:1", "", `"x" is no local rank`},
		{true, "eth0,,eth1", "", `""`},
		{true, "0=", "", `""`},
		{true, "eth0+", "", `"eth0+"`},
	} {
		parse := ParseGPUMap
		if c.nics {
			parse = ParseNICMap
		}
		m, err := parse(c.text)
		if c.err != "" {
			if fault.KindOf(err) != fault.Usage || !strings.Contains(fmt.Sprint(err), c.err) || fault.HintOf(err) == "" {
				t.Errorf("%q: got %v, want %s", c.text, err, c.err)
			}
			continue
		}
		var got []string
		for local := range 5 {
			value, ok := m.Of(local)
			if !ok {
				value = "-"
			}
			got = append(got, value)
		}
		if text := strings.Join(got, " "); text != c.want || err != nil {
			t.Errorf("%q: %s (%v), want %s", c.text, text, err, c.want)
		}
	}
}

// What the maps give a rank is checked against its host before anything is opened.
func TestPlace(t *testing.T) {
	worlds, _ := spmd.NewInMemory(1)
	two := func() ([]string, error) { return []string{"p", "q"}, nil }
	for _, c := range []struct {
		gpus, nics, env, want string
		gpu                   string
	}{
		{"", "", "eth9", "", "p"},
		{"1,0", "lo", "", "", "q"},
		{"3:7", "3=none", "eth9", "", "p"}, // there is no local rank 3
		{"2", "", "", "--gpu-map gives local rank 0 on memory0 GPU 2, and CUDA shows 2 GPUs there", "p"},
		{"", "lo", "lo", "--nic-map gives local rank 0 on memory0 lo, and its UCX_NET_DEVICES is lo", "p"},
		{"", "lo+none", "", "local rank 0 on memory0: --nic-map names none, which this host lacks; it has ", "p"},
	} {
		t.Setenv("UCX_NET_DEVICES", c.env)
		e := &Experiment{Config: Config{World: worlds[0], GPUs: two, Job: result.Invocation{GPUMap: c.gpus, NICMap: c.nics}}}
		err := e.place()
		if c.want != "" && (fault.KindOf(err) != fault.Usage || !strings.HasPrefix(err.Error(), c.want)) || c.want == "" && err != nil {
			t.Errorf("%+v: got %v", c, err)
		}
		if _, uuid := e.gpu(); uuid != c.gpu {
			t.Errorf("%+v: GPU %s", c, uuid)
		}
		if want := map[bool]string{true: "lo"}[c.nics == "lo" && c.want == ""]; e.netDevices != want {
			t.Errorf("%+v: devices %q, want %q", c, e.netDevices, want)
		}
	}
}

// MPS serves a process that finds its daemon's pipe.
func TestHasMPS(t *testing.T) {
	root := t.TempDir()
	env := func(folder string) func(string) string {
		return func(name string) string { return map[string]string{"CUDA_MPS_PIPE_DIRECTORY": folder}[name] }
	}
	if hasMPS(root, env("")) || hasMPS(root, env("/mine")) {
		t.Error("MPS without a daemon")
	}
	for _, folder := range []string{"tmp/nvidia-mps", "mine"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
		if hasMPS(root, env("/"+folder)) {
			t.Errorf("an empty folder %s stands for MPS", folder)
		}
		must.Do(t, os.WriteFile(filepath.Join(root, folder, "control"), nil, 0o600))
	}
	if !hasMPS(root, env("")) || !hasMPS(root, env("/mine")) || hasMPS(root, env("/other")) {
		t.Error("MPS is looked for at the wrong place")
	}
}

// Which GPU each rank has is found by its UUID; a rank whose GPU is far from all NICs that UCX may use is named once,
// with what is nearer.
func TestPlacedGPUs(t *testing.T) {
	zero, one := 0, 1
	hardware := &result.Hardware{GPUs: []result.GPU{
		{UUID: "p", PCI: "0000:18:00.0", NUMANode: &zero, NICs: map[string]string{"mlx5_0:1": "PIX", "mlx5_1:1": "SYS", "eth0": "NODE"}},
		{UUID: "q", PCI: "0000:98:00.0", NUMANode: &one, NICs: map[string]string{"mlx5_0:1": "SYS", "mlx5_1:1": "PXB", "eth0": "SYS"}},
	}}
	w := result.World{Hosts: []result.Host{
		{Name: "a", Ranks: []int{0, 1, 2}, Hardware: hardware}, {Name: "b", Ranks: []int{3, 4, 5}, Hardware: hardware},
		{Name: "c", Ranks: []int{6}},
	}}
	all := []gpuUse{{UUID: "p"}, {UUID: "q"}, {}, {UUID: "p", Nets: "mlx5_1:1"}, {UUID: "q", Nets: "eth0"}, {UUID: "MIG"}, {UUID: "p"}}
	w.Devices = devicesOf(w, all)
	var gpus []string
	for _, d := range w.Devices {
		text := "-"
		if d.GPU != nil {
			text = fmt.Sprint(*d.GPU)
		}
		gpus = append(gpus, text)
	}
	if want := []string{"0", "1", "-", "0", "1", "-", "-"}; !slices.Equal(gpus, want) {
		t.Fatalf("GPUs %q, want %q", gpus, want)
	}
	const want = "rank 0: 0 (0000:18:00.0, NUMA node 0, PIX to mlx5_0:1), rank 1: 1 (0000:98:00.0, NUMA node 1, PXB to mlx5_1:1), " +
		"rank 3: 0 (0000:18:00.0, NUMA node 0, SYS to mlx5_1:1), rank 4: 1 (0000:98:00.0, NUMA node 1, SYS to eth0)"
	if got := placed(w); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	const warning = "WARNING: rank 3 on b sends from GPU 0 across NUMA nodes: UCX may use mlx5_1:1 there; nearer: mlx5_0:1 " +
		"(and 1 rank more). On H100 that made 1 GiB take 1.42 times as long; --nic-map gives ranks nearer NICs, --gpu-map nearer GPUs"
	if got := acrossNUMA(w); len(got) != 1 || got[0] != warning {
		t.Errorf("got  %q\nwant %s", got, warning)
	}
	near := result.World{Hosts: w.Hosts[:1], Devices: w.Devices}
	if got := acrossNUMA(near); got != nil {
		t.Errorf("all are near: %q", got)
	}
}

// The hardware of a host says where its GPUs and NICs are, and how far from each other.
func TestHardwareOfGPUs(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/numa_node": "1\n", "sys/devices/pci0000:15/0000:15:02.0/0000:17:00.0/numa_node": "1\n",
		"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n", "sys/bus/pci/devices/x": "", "sys/devices/system/node/node1/x": "",
	} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for link, target := range map[string]string{
		"bus/pci/devices/0000:16:00.0":   "devices/pci0000:15/0000:15:01.0/0000:16:00.0",
		"bus/pci/devices/0000:17:00.0":   "devices/pci0000:15/0000:15:02.0/0000:17:00.0",
		"class/infiniband/mlx5_0/device": "devices/pci0000:15/0000:15:02.0/0000:17:00.0",
	} {
		must.Do(t, os.Symlink(filepath.Join(root, "sys", target), filepath.Join(root, "sys", link)))
	}
	one := 1
	got := readHardware(root, []device.GPU{{Name: "H200", Memory: 7, UUID: "u", PCI: "00000000:16:00.0"}, {Name: "far", PCI: "00000001:16:00.0"}})
	wantGPUs := []result.GPU{
		{Name: "H200", MemoryBytes: 7, UUID: "u", PCI: "0000:16:00.0", NUMANode: &one, NICs: map[string]string{"mlx5_0:1": "PHB"}},
		{Name: "far", PCI: "0001:16:00.0"},
	}
	wantNICs := []result.NIC{{Name: "mlx5_0:1", Kind: "other", PCI: "0000:17:00.0", NUMANode: &one}}
	must.Equal(t, wantGPUs, got.GPUs)
	must.Equal(t, wantNICs, got.NICs)
}
