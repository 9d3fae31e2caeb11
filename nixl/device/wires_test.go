package device

import (
	"strings"
	"testing"
)

// A host with two adapters' ports, one of which has a network interface, a third that the process may not open, and
// interfaces of all sorts.
func aHost(t *testing.T) string {
	const net, ib = "sys/class/net/", "sys/class/infiniband/"
	files := map[string]string{
		net + "lo/type": "772", net + "lo/operstate": "unknown",
		net + "eth0/operstate": "up", net + "eth0/speed": "200000", net + "eth0/device/x": "",
		net + "eth1/operstate": "up", net + "eth1/speed": "10000", net + "eth1/device/x": "",
		net + "eth9/operstate": "down", net + "eth9/speed": "400000", net + "eth9/device/x": "",
		net + "ib0/operstate": "up", net + "ib0/speed": "400000", net + "ib0/device/x": "",
		net + "bond0/operstate": "up", net + "bond0/speed": "50000", net + "bond0/uevent": "DEVTYPE=bond\nINTERFACE=bond0",
		net + "docker0/operstate": "up", net + "docker0/speed": "10000", net + "docker0/bridge/x": "", net + "docker0/uevent": "DEVTYPE=bridge",
		net + "veth7/operstate": "up", net + "veth7/speed": "10000", net + "veth7/uevent": "INTERFACE=veth7",
		net + "other0/operstate": "up", net + "other0/speed": "10000", net + "other0/device/x": "", net + "other0/ifindex": "8",
		net + "virt0/ifindex": "7\n", net + "virt0/operstate": "up", net + "virt0/speed": "-1", net + "virt0/device/x": "",
	}
	for name, rate := range map[string]string{"mlx5_0": "200 Gb/sec (4X HDR)", "mlx5_1": "400 Gb/sec (4X NDR)", "mlx5_2": "400 Gb/sec (4X NDR)"} {
		files[ib+name+"/ports/1/rate"], files[ib+name+"/ports/1/state"] = rate, "4: ACTIVE"
		files[ib+name+"/device/infiniband_verbs/uverbs"+name[5:]+"/x"] = ""
	}
	files["dev/infiniband/uverbs0"], files["dev/infiniband/uverbs1"] = "", ""
	return tree(t, files)
}

func TestWires(t *testing.T) {
	root := aHost(t)
	addressed := map[string]bool{"eth0": true, "eth1": true, "eth9": true, "bond0": true, "docker0": true, "veth7": true, "virt0": true, "other0": true}
	for name, c := range map[string]struct {
		env    map[string]string
		want   string // NICs, the fastest first
		reason string
	}{
		"ports":             {nil, "mlx5_1:1 mlx5_0:1", ""},
		"all":               {map[string]string{"UCX_NET_DEVICES": "all"}, "mlx5_1:1 mlx5_0:1", ""},
		"one port":          {map[string]string{"UCX_NET_DEVICES": "mlx5_0:1"}, "mlx5_0:1", ""},
		"its interface too": {map[string]string{"UCX_NET_DEVICES": "eth0,mlx5_0:1"}, "mlx5_0:1", ""},
		"an interface":      {map[string]string{"UCX_NET_DEVICES": "eth1"}, "eth1", ""},
		"tcp":               {map[string]string{"UCX_NET_DEVICES": "eth0,eth1,mlx5_0:1,veth7,docker0", "UCX_TLS": "self,sm,tcp"}, "eth0 eth1", ""},
		"not tcp":           {map[string]string{"UCX_NET_DEVICES": "eth0,mlx5_0:1", "UCX_TLS": "^tcp"}, "mlx5_0:1", ""},
		"rc":                {map[string]string{"UCX_NET_DEVICES": "eth0,mlx5_0:1", "UCX_TLS": "rc_x,cuda_copy"}, "mlx5_0:1", ""},
		"a bond":            {map[string]string{"UCX_NET_DEVICES": "bond0"}, "bond0", ""},
		"not to open":       {map[string]string{"UCX_NET_DEVICES": "mlx5_2:1"}, "", "there is no NIC that is up and has an address"},
		"down, no address":  {map[string]string{"UCX_NET_DEVICES": "eth9,ib0,docker0"}, "", "there is no NIC that is up and has an address"},
		"virtual":           {map[string]string{"UCX_NET_DEVICES": "veth7"}, "veth7", "veth7 is a virtual interface, whose 10 Gb/s stand for no wire"},
		"no speed":          {map[string]string{"UCX_NET_DEVICES": "virt0,eth0"}, "eth0 virt0", "the kernel does not say the speed of virt0"},
		"another network":   {map[string]string{"UCX_NET_DEVICES": "other0"}, "other0", "/sys is that of another network namespace"},
		"a pattern":         {map[string]string{"UCX_NET_DEVICES": "^eth0"}, "", "which devices UCX_NET_DEVICES=^eth0 means only UCX knows"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wires{root, func(name string) string { return c.env[name] }, addressed, func(string) int { return 7 }}
			list, reason := w.list()
			var names []string
			for _, n := range list {
				names = append(names, n.Name)
			}
			if got := strings.Join(names, " "); got != c.want || reason != c.reason {
				t.Errorf("got %q, %q\nwant %q, %q", got, reason, c.want, c.reason)
			}
		})
	}
	w := wires{t.TempDir(), func(string) string { return "" }, addressed, func(string) int { return 7 }}
	if list, reason := w.list(); list != nil || reason == "" {
		t.Errorf("no sysfs: %v, %q", list, reason)
	}
}
