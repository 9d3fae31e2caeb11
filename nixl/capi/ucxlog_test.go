package capi

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/nixl"
)

// use is one of host memory but for what differs.
func use(op, transport, device, how string, count int64) nixl.PathUse {
	return nixl.PathUse{Op: op, Local: "dram", Remote: "dram", Reach: "host", Transport: transport, Device: device, How: how,
		Count: count}
}

// gpu is one between GPUs.
func gpu(op, transport, device, how string) nixl.PathUse {
	u := use(op, transport, device, how, 23)
	u.Local, u.Remote = "vram", "vram"
	return u
}

func parseFile(t *testing.T, name string) *ucxLog {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	must.Do(t, err)
	defer f.Close()
	l, err := parseUCXLog(f)
	must.Do(t, err)
	return l
}

// The samples are logs of UCX 1.23 on one host; gpu.txt is of an H100, its prefixes cut, four runs behind each other.
func TestParseUCXLog(t *testing.T) {
	host := nixl.PathLanes{Reach: "host", Lanes: "rma(posix/memory) am(posix/memory cma/memory)"}
	self := nixl.PathLanes{Reach: "self", Lanes: "rma(self/memory) am(self/memory cma/memory)"}
	overTCP := func(op, how string) *nixl.Path {
		return &nixl.Path{Uses: []nixl.PathUse{use(op, "tcp", "lo", how, 20)}, Lanes: []nixl.PathLanes{
			{Reach: "self", Lanes: "rma_am(tcp/lo) am(tcp/lo)"}, {Reach: "host", Lanes: "rma_am(tcp/lo) am(tcp/lo)"}}}
	}
	gpuLanes := []nixl.PathLanes{{Reach: "host", Lanes: "rma(posix/memory)"}}
	tests := map[string]map[string]*nixl.Path{
		"cma.txt": {"perigee-1-lane0-1": {Lanes: []nixl.PathLanes{self, host},
			Uses: []nixl.PathUse{use("WRITE", "cma", "memory", "zero-copy", 1010)}}},
		"tcp-write.txt": {"perigee-1-lane0-1": overTCP("WRITE", "zero-copy")},
		"tcp-read.txt":  {"perigee-1-lane0-1": overTCP("READ", "software emulation")},
		"gpu.txt": {
			"perigee-0-lane1024-2": {Lanes: gpuLanes, Uses: []nixl.PathUse{
				gpu("WRITE", "cuda_ipc", "cuda", "zero-copy"), gpu("WRITE", "cuda_ipc", "cuda", "zero-copy")}},
			"perigee-1-lane1024-2": {Lanes: gpuLanes, Uses: []nixl.PathUse{
				gpu("READ", "posix", "memory", "software emulation"), gpu("READ", "cuda_ipc", "cuda", "zero-copy")}},
		},
	}
	for name, want := range tests {
		l := parseFile(t, name)
		if diff := cmp.Diff(want, l.agents); diff != "" || l.strange != "" {
			t.Errorf("%s: strange %q (-want +got):\n%s", name, l.strange, diff)
		}
		if version := "1.23.0"; name != "gpu.txt" && l.version != version {
			t.Errorf("%s: version %q, want %q", name, l.version, version)
		}
	}
}

// table is a log with the table of one agent.
func table(access string, rows ...string) string {
	return "| a inter-node cfg#3 |\n| " + access + " |\n+--+--+\n| Count | Range | Description | Config |\n+--+--+\n| " +
		strings.Join(rows, " |\n| ") + " |\n+--+--+\n"
}

func TestUCXRows(t *testing.T) {
	const put = "remote memory write by ucp_put*(multi) from host memory to host"
	network := func(transport, device, how string, from, to int64) nixl.PathUse {
		u := use("WRITE", transport, device, how, 7)
		u.Reach, u.MinBytes, u.MaxBytes = "network", from, to
		return u
	}
	vram := network("rc_mlx5", "mlx5_0:1", "rndv using zero-copy, as UCX estimates", 0, 0)
	vram.Op, vram.Local, vram.Remote = "READ", "vram", "cuda-managed"
	tests := map[string]struct {
		log  string
		want []nixl.PathUse
		bad  string // what is not known
	}{
		"ranges": {table(put, "7 | 0..200 | short | rc_mlx5/mlx5_0:1", "0 | 201..8K | copy-in | rc_mlx5/mlx5_0:1",
			"7 | 8193..inf | zero-copy | rc_mlx5/mlx5_0:1/path0"), []nixl.PathUse{
			network("rc_mlx5", "mlx5_0:1", "short", 0, 200), network("rc_mlx5", "mlx5_0:1", "zero-copy", 8193, 0)}, ""},
		"rails": {table(put, "7 | 0..inf | zero-copy | 47% on rc_mlx5/mlx5_1:1, 3% on tcp/eth0 and 50% on rc_mlx5/mlx5_0:1/path1"),
			[]nixl.PathUse{network("rc_mlx5, tcp", "eth0, mlx5_0:1, mlx5_1:1", "zero-copy", 0, 0)}, ""},
		"paths": {table(put, "7 | 0..inf | zero-copy | rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1"),
			[]nixl.PathUse{network("rc_mlx5", "mlx5_0:1", "zero-copy", 0, 0)}, ""},
		"kinds of memory": {table("remote memory read by ucp_get* into cuda/GPU0 from cuda-managed/dev[1]",
			"7 | 0..inf | (?) rndv using zero-copy | rc_mlx5/mlx5_0:1"), []nixl.PathUse{vram}, ""},
		"messages":        {table("active message by ucp_am_send*(egr) from host memory", "7 | 0..inf | short | tcp/lo"), nil, ""},
		"unknown config":  {table(put, "7 | 0..inf | zero-copy | by pigeon"), []nixl.PathUse{network("unknown", "", "zero-copy", 0, 0)}, "by pigeon"},
		"unknown columns": {strings.ReplaceAll(table(put, "7 | 0..inf | zero-copy | cma/memory"), "Range", "Size"), nil, "Size"},
		"unknown count":   {table(put, "many | 0..inf | zero-copy | cma/memory"), nil, "many"},
		"unknown range":   {table(put, "7 | all | zero-copy | cma/memory"), nil, "all"},
		"range turned":    {table(put, "7 | 9..8 | zero-copy | cma/memory"), nil, "9..8"},
		"unknown access":  {table("remote memory swap by ucp_swap* of host", "7 | 0..inf | zero-copy | cma/memory"), nil, "swap"},
		"no memory":       {table("remote memory write by ucp_put* from host memory", "7 | 0..inf | zero-copy | cma/memory"), nil, "host memory"},
		"five columns":    {table(put, "7 | 1 | 0..inf | zero-copy | cma/memory"), nil, "7 | 1"},
		"cut off":         {"| a inter-node cfg#3 |\n| " + put + " |\nx\n", nil, "without rows"},
	}
	for name, test := range tests {
		l, err := parseUCXLog(strings.NewReader(test.log))
		must.Do(t, err)
		var got []nixl.PathUse
		if a := l.agents["a"]; a != nil {
			got = a.Uses
		}
		if diff := cmp.Diff(test.want, got); diff != "" || (l.strange == "") != (test.bad == "") ||
			!strings.Contains(l.strange, test.bad) {
			t.Errorf("%s: strange %q, want %q (-want +got):\n%s", name, l.strange, test.bad, diff)
		}
	}
	if _, err := parseUCXLog(strings.NewReader(strings.Repeat("x", maxLogLine+1))); err == nil {
		t.Error("a line without end is read")
	}
}

// A value of UCX_TLS is named only where UCX has said that it leaves nothing.
func TestNoTransport(t *testing.T) {
	const (
		lacks = "[1.5] [vm:1:0] ucp_context.c:1508 UCX  WARN  transports 'rc','foo' are not available, please use one or more of: cma, tcp\n"
		none  = "[1.5] [vm:1:0] ucp_context.c:1770 UCX  ERROR no usable transports/devices (asked rc,foo on network:lo )\n"
		says  = "UCX_TLS=rc,foo leaves UCX no transport that it can use"
	)
	for _, c := range []struct{ log, tls, want string }{
		{lacks + none, "rc,foo", says + "; this host has cma, tcp"},
		{strings.Replace(lacks, "transports 'rc','foo' are", "transport 'foo' is", 1) + none, "rc,foo", says + "; this host has cma, tcp"},
		{none, "rc,foo", says},
		{lacks, "rc,foo,tcp", ""},
		{lacks + none, "", ""}, // it may be ucx.conf that says it
		{"", "rc,foo", ""},
	} {
		l, err := parseUCXLog(strings.NewReader(c.log))
		must.Do(t, err)
		if got := l.noTransport(c.tls); got != c.want {
			t.Errorf("UCX_TLS=%s, log %q: got %q, want %q", c.tls, c.log, got, c.want)
		}
	}
}

// Whatever a log holds, what is read of it is marked where it is not known.
func FuzzParseUCXLog(f *testing.F) {
	for _, name := range []string{"cma.txt", "tcp-read.txt", "gpu.txt"} {
		data := must.Read(f, "testdata/"+name)
		f.Add(string(data))
	}
	words := []string{"| a self cfg#0 |\n", "| a inter-node cfg#1 |\n", "| remote memory write by ucp_put* from host memory to host |\n",
		"| remote memory read by ucp_get*(multi) into cuda/GPU0 from cuda/dev[1] |\n", "| Count | Range | Description | Config |\n",
		"| 7 | 0..inf | zero-copy | cma/memory |\n", "| 7 | 1..8K | short | 50% on rc/a:1 and 50% on rc/b:1 |\n", "+--+\n",
		"UCX  INFO  a self cfg#0 rma(x/y)  am(z/w)\n", "| 99999999999 | 0..inf | x | y |\n", "|  |\n", "text\n"}
	fuzztest.Run(f, words, func(t *testing.T, text string) {
		l, err := parseUCXLog(strings.NewReader(text))
		if err != nil {
			return
		}
		for name, a := range l.agents {
			for _, u := range a.Uses {
				if u.Count <= 0 || u.MinBytes < 0 || u.MaxBytes < 0 || u.Reach == "" || u.How == "" || u.Transport == "" ||
					u.Transport == nixl.UnknownTransport && l.strange == "" {
					t.Errorf("%s: %+v, strange %q", name, u, l.strange)
				}
			}
		}
	})
}

// parseUCXLog reads a log up to its end. An error is one of reading.
func parseUCXLog(r io.Reader) (*ucxLog, error) {
	p := newUCXParser()
	_, err := p.read(io.MultiReader(r, strings.NewReader("\n")))
	return p.log, err
}
