package hosts

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// workload writes matrices of odd sizes and their configuration: WRITE and READ
// between all ranks, and one between two ranks that are on one host if there are
// more ranks than hosts.
func workload(t testing.TB, ranks int) string {
	t.Helper()
	random := rand.New(rand.NewPCG(3, uint64(ranks)))
	table := func(size func(from, to int) int) string {
		var b strings.Builder
		for from := range ranks {
			for to := range ranks {
				fmt.Fprintf(&b, "%d ", size(from, to))
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	mesh := func(from, to int) int {
		if from == to {
			return 0
		}
		return 1 + random.IntN(300_000)
	}
	inside := func(from, to int) int {
		if from == 0 && to == hostCount {
			return 12_345
		}
		return 0
	}
	config := "iters: 2\nisolation_iters: 2\nwarmup_iters: 1\ntraffic_patterns:\n" +
		"- matrix_file: a.txt\n- matrix_file: b.txt\n  shards: 3\n  xfer_op: READ\n"
	files := map[string]string{"a.txt": table(mesh), "b.txt": table(mesh), "inside.txt": table(inside)}
	if ranks > hostCount {
		config += "- matrix_file: inside.txt\n"
	}
	files["c.yaml"] = config
	return harness.Files(t, files)
}

// Bytes pass between hosts, and inside them, and all of them arrive; the result
// says how, and how well the hosts' clocks agree.
func TestTraffic(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	for _, test := range []struct {
		name     string
		families int
		master   string
		ranks    int
	}{
		{"3 ranks", ipv4 | ipv6, "10.77.0.1", 3},
		{"6 ranks", ipv4, "10.77.0.1", 6},
		{"IPv6 only", ipv6, "fd77::1", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, test.families)
			j := c.start(t, spec{ranks: test.ranks, master: test.master, dir: workload(t, test.ranks),
				args: []string{"sequential-ct-perftest", "c.yaml", "--verify-buffers", "--result", "r.json"}})
			out := j.mustEnd()
			harness.Contains(t, "stdout", out, fmt.Sprintf("%d ranks on 3 hosts: host1 (", test.ranks), ", launcher torchrun\n",
				"# clocks of the hosts agree to within ", "# engine: nixl ", "progress thread (several hosts)",
				"# note: verified: every byte of ", "# path: WRITE dram-dram ", "tcp/eth0 ")
			doc, err := result.Read(filepath.Join(j.dir, "r.json"))
			must.Do(t, err)
			checkDocument(t, doc, c, test.ranks)
			checkWires(t, doc, c)
		})
	}
}

func checkDocument(t *testing.T, doc *result.Document, c *cluster, ranks int) {
	t.Helper()
	if doc.Status != result.Complete || doc.Engine == nil || doc.Engine.Name != "nixl" || doc.Engine.Params["progress"] != "thread (several hosts)" {
		t.Errorf("status %s, engine %+v", doc.Status, doc.Engine)
	}
	if len(doc.World.Hosts) != hostCount || len(doc.World.Clocks) != hostCount {
		t.Fatalf("hosts %+v, clocks %+v", doc.World.Hosts, doc.World.Clocks)
	}
	// All hosts of a cluster are one machine, so their clocks are known.
	for i, clock := range doc.World.Clocks {
		if got, want := doc.World.Hosts[i].Name, c.hosts[i].name; got != want {
			t.Errorf("host %d is %s, want %s", i, got, want)
		}
		off := clock.OffsetNS - (c.hosts[0].ahead - c.hosts[i].ahead).Nanoseconds()
		t.Logf("%s: offset %d ns off by %d ns, uncertainty %d ns", c.hosts[i].name, clock.OffsetNS, off, clock.UncertaintyNS)
		if max(off, -off) > clock.UncertaintyNS || i > 0 && clock.UncertaintyNS == 0 {
			t.Errorf("%s: the offset %d ns is off by %d ns, and said to be certain within %d ns", c.hosts[i].name, clock.OffsetNS, off, clock.UncertaintyNS)
		}
	}
	inside := 0
	for _, m := range doc.Measurements {
		across := len(m.Ranks) > 1
		if across != (m.UncertaintyNS > 0) {
			t.Errorf("pattern %d with %d initiators: uncertainty %d ns", m.Pattern, len(m.Ranks), m.UncertaintyNS)
		}
		if !across {
			inside++
		}
		if m.LatencyNS <= 0 || m.LatencyNS > int64(harness.Patience) {
			t.Errorf("pattern %d: latency %d ns", m.Pattern, m.LatencyNS)
		}
	}
	if len(doc.Measurements) == 0 || (ranks > hostCount) != (inside > 0) {
		t.Errorf("%d measurements, %d of them inside a host", len(doc.Measurements), inside)
	}
}

// checkWires proves that the bytes have passed over the network: UCX does not
// reach the memory of another host by a short cut. What leaves a host are at least
// the bytes that its ranks have written to other hosts.
func checkWires(t *testing.T, doc *result.Document, c *cluster) {
	t.Helper()
	least := make([]int64, hostCount)
	for _, m := range doc.Measurements {
		for _, cell := range doc.Matrices[doc.Patterns[m.Pattern].Matrix].Cells {
			from, to := int(cell[0])%hostCount, int(cell[1])%hostCount
			if from != to {
				least[from] += cell[2]
			}
		}
	}
	for i, h := range c.hosts {
		if n := h.sent(); n < least[i] {
			t.Errorf("%d bytes have left %s, but its ranks have sent %d to other hosts", n, h.name, least[i])
		}
	}
}

// A target may sleep while its memory is written and read: it does not hold up the
// initiators. The scenario fails if it does.
func TestSleepingTarget(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	out := c.start(t, spec{ranks: 3, args: []string{"run", harness.Script(t, "sleeper.lua")}}).mustEnd()
	harness.Contains(t, "stdout", out, "WRITE: done while the target slept", "READ: done while the target slept")
}
