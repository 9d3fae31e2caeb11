package hosts

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// The host of rank 0, or of the store of torchrun's agents, may be called localhost there, and by its name elsewhere.
func TestLocalhostOfSeveralHosts(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	for name, env := range map[string][]string{
		"by hand": nil, "agents": {"LOCAL_WORLD_SIZE=1", "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RUN_ID=job"},
	} {
		t.Run(name, func(t *testing.T) {
			out := c.start(t, spec{
				ranks: hostCount, dir: workload(t, hostCount), args: []string{"sequential-ct-perftest", "c.yaml", "--verify-buffers"},
				env: env, ownEnv: map[int][]string{0: {"MASTER_ADDR=localhost"}},
			}).mustEnd()
			harness.Contains(t, "stdout", out, "3 ranks on 3 hosts: host1 (", "# note: verified: every byte of ")
		})
	}
}

// Where a host has no address of IPv4, not even at its loopback interface, rank 0 listens at its others all the same.
func TestNoAddressOfIPv4(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv6)
	for _, h := range c.hosts {
		del := slices.Concat(h.Enter("/"), []string{"ip", "address", "del", "127.0.0.1/8", "dev", "lo"})
		if out, err := exec.Command(del[0], del[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, s := range []spec{{ranks: 2, local: true, master: "::1"}, {ranks: hostCount, master: "fd77::1"}} {
		s.dir, s.args = workload(t, s.ranks), []string{"sequential-ct-perftest", "c.yaml", "--verify-buffers"}
		harness.Contains(t, "stdout", c.start(t, s).mustEnd(), "# note: verified: every byte of ")
	}
}

// Where the loopback interface is down, as in a new network namespace, the ranks of a host say so, and what to do: that is
// no network which has failed. With an address it only swallows what is sent.
func TestLoopbackIsDown(t *testing.T) {
	t.Parallel()
	h := newCluster(t, ipv4).hosts[0]
	h.ip("link set lo down")
	fresh := []string{"unshare", "--net"}
	for name, c := range map[string]harness.Command{
		"with an address":    {Argv: []string{harness.Program, "run", "alltoall", "-n", "3"}},
		"started by perigee": {Argv: append(fresh, harness.Program, "run", "alltoall", "-n", "3")},
		"by hand": {
			Argv: append(fresh, harness.Program, "run", "alltoall"),
			Env:  []string{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", masterPort)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.Dir, c.Argv = dir, slices.Concat(h.Enter(dir), c.Argv)
			o := harness.Start(t, c).Wait()
			if o.Code != int(fault.Launch) || o.Took > harness.Patience {
				t.Errorf("exit code %d after %v", o.Code, o.Took)
			}
			harness.Contains(t, "stderr", o.Stderr, "the ranks of this host cannot reach each other: ", "  hint: the loopback interface is down")
			h.checkClean(t)
		})
	}
}

// A host with fewer local ports than its ranks need is named with the setting that widens them.
func TestFewLocalPorts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ipv4)
	c.run(append(c.hosts[1].Enter("/"), "sh", "-c", "echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range")...)
	j := c.start(t, spec{ranks: 4 * hostCount, args: []string{"run", harness.Script(t, "hello.lua"), "--timeout", "15s"}})
	outcomes := j.wait()
	named := 0
	for r, o := range outcomes {
		if !strings.Contains(o.Stderr, "widen net.ipv4.ip_local_port_range, now 40000 to 40001 (sysctl)") {
			continue
		}
		named++
		harness.Contains(t, fmt.Sprint("stderr of rank ", r), o.Stderr, " on host2, phase start: ")
		if o.Code != int(fault.Resource) {
			t.Errorf("rank %d: exit code %d", r, o.Code)
		}
	}
	if named == 0 {
		t.Error(describe(outcomes))
	}
}

// Initiators on hosts whose clocks have nothing to do with each other start at one instant: no run begins before it, and
// of many runs some begin close together. How close depends on the CPUs: where other processes keep both ranks on one,
// they never begin at the same time. The clocks are many seconds apart.
func TestStartByTheClockBetweenHosts(t *testing.T) {
	harness.NeedNIXL(t)
	c := newCluster(t, ipv4)
	dir := harness.Files(t, map[string]string{
		"c.yaml": "iters: 60\nisolation_iters: 140\nwarmup_iters: 2\nstart: clock\ntraffic_patterns:\n- {matrix_file: m.txt, mem_type: cpu}\n",
		"m.txt":  "0 4K\n4K 0\n",
	})
	out := c.start(t, spec{ranks: 2, dir: dir, args: []string{"sequential-ct-perftest", "c.yaml", "--result", "r.json"}}).mustEnd()
	harness.Contains(t, "stdout", out, "# start skew by the clock: median ", "uncertainty of the clocks ")
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	must.Do(t, err)
	closest := int64(math.MaxInt64)
	for _, m := range doc.Measurements {
		if m.AgreedNS == nil || m.StartSkewNS == nil {
			t.Fatalf("a run without an instant: %+v", m)
		}
		for _, r := range m.Ranks {
			if r.StartNS < *m.AgreedNS-m.UncertaintyNS {
				t.Errorf("rank %d started %d ns before the instant, with clocks uncertain by %d ns", r.Rank, *m.AgreedNS-r.StartNS, m.UncertaintyNS)
			}
		}
		closest = min(closest, *m.StartSkewNS-m.UncertaintyNS)
	}
	if len(doc.Measurements) != 200 || closest > int64(time.Millisecond) {
		t.Errorf("of %d starts the closest were %d ns apart, beyond what is known of the clocks\n%s", len(doc.Measurements), closest, out)
	}
}
