package result_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/result"
)

func moved(op, mem, reach, transport, device, how string, count int64) result.PathUse {
	return result.PathUse{Op: op, Local: mem, Remote: mem, Reach: reach, Transport: transport, Device: device, How: how, Count: count}
}

func TestPathLines(t *testing.T) {
	many := result.Paths{Source: "UCX 1"}
	for i := range 12 {
		many.Uses = append(many.Uses, moved("WRITE", "dram", "network", "rc_mlx5", fmt.Sprintf("mlx5_%d:1", i), "zero-copy", 5))
		many.Uses = append(many.Uses, moved("READ", "dram", "network", fmt.Sprint("t", i), "", "zero-copy", 5))
	}
	for name, test := range map[string]struct {
		p    result.Paths
		want string
	}{
		"one": {result.Paths{Uses: []result.PathUse{moved("WRITE", "vram", "host", "cuda_ipc", "cuda", "zero-copy", 23)}},
			"WRITE vram-vram cuda_ipc zero-copy 100 %"},
		"sizes and devices together": {result.Paths{Uses: []result.PathUse{
			moved("WRITE", "dram", "network", "rc_mlx5", "mlx5_1:1", "zero-copy", 74),
			moved("WRITE", "dram", "network", "rc_mlx5", "mlx5_0:1", "zero-copy", 75),
			moved("WRITE", "dram", "host", "cma", "memory", "zero-copy", 50), moved("WRITE", "dram", "self", "self", "memory", "short", 1),
			moved("READ", "dram", "network", "tcp", "eth0", "software emulation", 1)}},
			"WRITE dram-dram between hosts rc_mlx5/mlx5_0:1+mlx5_1:1 zero-copy 75 %; WRITE dram-dram inside a host cma zero-copy 25 %; " +
				"WRITE dram-dram within a rank self short 1 %; READ dram-dram between hosts tcp/eth0 software emulation 100 %"},
		"unknown": {result.Paths{Unknown: "a reason"}, "unknown: a reason"},
		"nothing": {result.Paths{Source: "perigee"}, ""},
		"many": {many, "WRITE dram-dram rc_mlx5/(12 devices) zero-copy 100 %; " + strings.Repeat("READ; ", 7) +
			"further ways are in the result"},
	} {
		lines := test.p.Lines()
		if name == "many" {
			for i := 1; i < len(lines)-1; i++ {
				lines[i], _, _ = strings.Cut(lines[i], " ")
			}
		}
		if got := strings.Join(lines, "; "); got != test.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// on is a result with uses, on hosts that each have so many RDMA ports.
func on(ports []int, uses ...result.PathUse) *result.Document {
	d := &result.Document{Paths: &result.Paths{Source: "UCX 1.23.0", Uses: uses}}
	for i, n := range ports {
		h := result.Host{Name: fmt.Sprint("h", i), Hardware: &result.Hardware{NICs: []result.NIC{{Name: "eth0", Mbps: 1000}}}}
		for k := range n {
			h.Hardware.NICs = append(h.Hardware.NICs, result.NIC{Name: fmt.Sprintf("mlx5_%d:1", k), Kind: "infiniband", Mbps: 400000})
		}
		d.World.Hosts = append(d.World.Hosts, h)
	}
	return d
}

func TestPathWarnings(t *testing.T) {
	tcp := moved("WRITE", "dram", "network", "tcp", "eth0", "zero-copy", 9)
	rail := moved("WRITE", "dram", "network", "rc_mlx5", "mlx5_0:1", "zero-copy", 9)
	other := moved("WRITE", "dram", "network", "rc_mlx5", "mlx5_1:1", "zero-copy", 9)
	blocks := on([]int{0}, moved("WRITE", "vram", "host", "cuda_ipc", "cuda", "zero-copy", 9))
	blocks.Matrices = []result.Matrix{{Ranks: 2, Cells: [][3]int64{{0, 1, 1 << 20}, {1, 0, 1 << 30}}}}
	blocks.Patterns = []result.Pattern{{Mem: "vram", Shards: 64}, {Mem: "dram", Shards: 1 << 20}}
	large := on([]int{0}, moved("WRITE", "vram", "host", "cuda_ipc", "cuda", "zero-copy", 9))
	large.Matrices, large.Patterns = blocks.Matrices, []result.Pattern{{Mem: "vram", Shards: 4}}
	cma := moved("WRITE", "dram", "host", "cma", "memory", "zero-copy", 9)
	// two hosts of two ranks each, with messages to a rank of the same host, or of the other
	apart := func(to int64, uses ...result.PathUse) *result.Document {
		d := on([]int{0, 0}, uses...)
		d.World.Size = 4
		d.World.Hosts[0].Ranks, d.World.Hosts[1].Ranks = []int{0, 1}, []int{2, 3}
		d.Matrices = []result.Matrix{{Ranks: 4, Cells: [][3]int64{{0, to, 1 << 20}}}}
		d.Patterns = []result.Pattern{{Mem: "dram", Shards: 1}}
		return d
	}
	pair := on([]int{0, 0}, cma)
	pair.World.Size = 2
	pair.World.Hosts[0].Ranks, pair.World.Hosts[1].Ranks = []int{0}, []int{1}
	pair.Lanes = make([]result.Lanes, 1)
	const shared = "between hosts over cma: they share a kernel|UCX_TLS=tcp"
	for name, test := range map[string]struct {
		d    *result.Document
		want []string // what each says
	}{
		"cma between hosts":      {apart(2, cma), []string{"WRITE dram-dram goes " + shared}},
		"cma inside hosts":       {apart(1, cma), nil},
		"cma inside, TCP beside": {apart(2, cma, tcp), nil},
		"cma, called network":    {on([]int{0, 0}, moved("READ", "dram", "network", "cma", "memory", "zero-copy", 9)), []string{"READ dram-dram goes " + shared}},
		"cma of block transfers": {pair, []string{shared}},
		"no paths":               {&result.Document{}, nil},
		"well":                   {on([]int{2, 2}, rail, other), nil},
		"READ of GPUs":           {on([]int{0}, moved("READ", "vram", "host", "posix", "memory", "software emulation", 23)), []string{"READ vram-vram inside a host is emulated: posix|UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on|1040 GB/s"}},
		"READ of a host":         {on([]int{0}, moved("READ", "dram", "host", "posix", "memory", "software emulation", 23)), []string{"is emulated: posix|cma"}},
		"READ over TCP":          {on([]int{0, 0}, moved("READ", "dram", "network", "tcp", "eth0", "software emulation", 23)), []string{"READ dram-dram between hosts is emulated: tcp/eth0|UCX_TLS"}},
		"bounce":                 {on([]int{0, 0}, moved("WRITE", "vram", "network", "tcp", "eth0", "zero-copy", 23)), []string{"WRITE vram-vram between hosts goes through the memory of the host, by tcp/eth0|UCX_TLS"}},
		"no GPUDirect":           {on([]int{1, 1}, moved("WRITE", "vram", "network", "rc_mlx5", "mlx5_0:1", "multi-frag copy-in", 23)), []string{"is copied (multi-frag copy-in)|nvidia-peermem"}},
		"TCP beside RDMA":        {on([]int{1, 1}, tcp), []string{"TCP between hosts of which 2 have RDMA adapters|UCX_NET_DEVICES"}},
		"TCP, one with RDMA":     {on([]int{1, 0}, tcp), nil},
		"TCP without RDMA":       {on([]int{0, 0}, tcp), nil},
		"one rail of several":    {on([]int{4, 2}, rail), []string{"mlx5_0:1 alone moves the bytes between hosts that have 2 ports each: UCX_MAX_RMA_RAILS=2"}},
		"small blocks":           {blocks, []string{"GPU memory in blocks of 16 KiB: UCX takes about 10 us"}},
		"large blocks":           {large, nil},
	} {
		got := test.d.PathWarnings()
		ok := len(got) == len(test.want)
		for i := 0; ok && i < len(got); i++ {
			for part := range strings.SplitSeq(test.want[i], "|") {
				ok = ok && strings.Contains(got[i], part)
			}
		}
		if !ok {
			t.Errorf("%s: %s", name, cmp.Diff(test.want, got))
		}
	}
}
