package device

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

// twoSockets is a host like many with eight GPUs: on each NUMA node two host bridges, and switches below them.
func twoSockets(t *testing.T) string {
	const (
		upper  = "devices/pci0000:15/0000:15:01.0/0000:16:00.0/" // a switch, in whose port lies another one
		lower  = upper + "0000:17:01.0/0000:20:00.0/"
		second = "devices/pci0000:40/0000:40:01.0/"
		far    = "devices/pci0000:95/0000:95:01.0/0000:96:00.0/"
	)
	files := map[string]string{
		"devices/system/node/node0/x": "", "devices/system/node/node1/x": "",
		"class/net/eth0/device": "->../../../bus/pci/devices/0000:41:00.0", "class/net/eth0/operstate": "up\n",
		"class/net/down0/device": "->../../../bus/pci/devices/0000:41:00.0", "class/net/down0/operstate": "down\n",
	}
	for address, at := range map[string]string{
		"0000:18:00.0": upper + "0000:17:00.0/", "0000:19:00.0": upper + "0000:17:02.0/", // a GPU, and a NIC in the next port
		"0000:21:00.0": lower + "0000:20:01.0/", "0000:22:00.0": "devices/pci0000:15/0000:15:02.0/", "0000:41:00.0": second,
		"0000:98:00.0": far + "0000:97:00.0/", "0000:99:00.0": far + "0000:97:01.0/", "0000:e0:00.0": "devices/pci0000:e0/",
	} {
		files["bus/pci/devices/"+address] = "->../../../" + at + address
		files[at+address+"/numa_node"] = "0\n"
		if strings.HasPrefix(at, far) {
			files[at+address+"/numa_node"] = "1\n"
		}
	}
	files["devices/pci0000:e0/0000:e0:00.0/numa_node"] = "-1\n"
	for name, address := range map[string]string{"mlx5_0": "0000:19:00.0", "mlx5_1": "0000:21:00.0", "mlx5_2": "0000:99:00.0"} {
		files["class/infiniband/"+name+"/device"] = "->../../../bus/pci/devices/" + address
		files["class/infiniband/"+name+"/ports/1/state"] = "4: ACTIVE\n"
	}
	files["class/infiniband/mlx5_2/ports/2/state"] = "1: DOWN\n"
	return tree(t, files)
}

// The distances are those that nvidia-smi topo -m shows for such a host.
func TestDistances(t *testing.T) {
	root := twoSockets(t)
	nics, err := NICs(root)
	must.Do(t, err)
	near, far := 0, 1
	for _, c := range []struct {
		gpu     string
		node    *int
		want    map[string]string
		nearest []string
	}{
		{"00000000:18:00.0", &near, map[string]string{"mlx5_0:1": "PIX", "mlx5_1:1": "PXB", "mlx5_2:1": "SYS", "eth0": "NODE"}, []string{"mlx5_0:1"}},
		{"00000000:22:00.0", &near, map[string]string{"mlx5_0:1": "PHB", "mlx5_1:1": "PHB", "mlx5_2:1": "SYS", "eth0": "NODE"}, []string{"mlx5_0:1", "mlx5_1:1"}},
		{"00000000:98:00.0", &far, map[string]string{"mlx5_0:1": "SYS", "mlx5_1:1": "SYS", "mlx5_2:1": "PIX", "eth0": "SYS"}, []string{"mlx5_2:1"}},
		{"00000000:E0:00.0", nil, map[string]string{}, nil}, // the firmware does not say the node
		{"00000000:EE:00.0", nil, nil, nil}, {"", nil, nil, nil}, {"../x", nil, nil, nil},
	} {
		p, ok := Locate(root, c.gpu)
		if ok != (c.want != nil) || cmp.Diff(p.NUMA, c.node) != "" {
			t.Errorf("%s: %+v, %v", c.gpu, p, ok)
		}
		got := Distances(root, c.gpu, nics)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.gpu, d)
		}
		if names, _ := Nearest(got); !slices.Equal(names, c.nearest) {
			t.Errorf("%s: the nearest are %q, want %q", c.gpu, names, c.nearest)
		}
	}
	all := Distances(root, "0000:18:00.0", nics)
	for value, want := range map[string][]string{"": {"mlx5_0:1", "mlx5_1:1", "mlx5_2:1"}, "eth0": {"eth0"}, "mlx5_2:1, x": {"mlx5_2:1"}} {
		if got := slices.Sorted(maps.Keys(Usable(all, value))); !slices.Equal(got, want) {
			t.Errorf("UCX_NET_DEVICES=%s: %q, want %q", value, got, want)
		}
	}
	delete(all, "mlx5_0:1")
	delete(all, "mlx5_1:1")
	delete(all, "mlx5_2:1")
	if got := Usable(all, ""); len(got) != 1 || got["eth0"] != "NODE" {
		t.Errorf("without RDMA: %v", got)
	}
}

// A host with one node has no other, whatever its firmware says.
func TestOneNode(t *testing.T) {
	root := tree(t, map[string]string{
		"devices/system/node/node0/x": "", "devices/pci0000:00/0000:00:05.0/numa_node": "-1\n", "devices/pci0000:80/0000:80:05.0/x": "",
		"bus/pci/devices/0000:00:05.0": "->../../../devices/pci0000:00/0000:00:05.0", "bus/pci/devices/0000:80:05.0": "->../../../devices/pci0000:80/0000:80:05.0",
	})
	a, _ := Locate(root, "0000:00:05.0")
	b, ok := Locate(root, "0000:80:05.0")
	if d := Distance(a, b); !ok || a.NUMA == nil || *a.NUMA != 0 || d != "NODE" || Distance(a, a) != "PIX" {
		t.Errorf("%+v, %+v: %s, itself %s", a, b, d, Distance(a, a))
	}
}
