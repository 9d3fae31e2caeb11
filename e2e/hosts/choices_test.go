package hosts

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// refused checks that all ranks end with the same code, and rank 0's report.
func (j *job) refused(kind fault.Kind, wanted ...string) {
	j.t.Helper()
	outcomes := j.wait()
	for r, o := range outcomes {
		if o.Code != int(kind) {
			j.t.Errorf("rank %d: exit code %d, want %d", r, o.Code, kind)
		}
	}
	if n := strings.Count(outcomes[0].Stderr, "perigee: "); n != 1 {
		j.t.Errorf("rank 0 complains %d times", n)
	}
	harness.Contains(j.t, "report of rank 0", outcomes[0].Stderr, wanted...)
	if j.t.Failed() {
		j.t.Error(describe(outcomes))
	}
}

// withoutNIXL is a job on which perigee finds no library.
func withoutNIXL(t testing.TB, s spec) spec {
	t.Helper()
	home := t.TempDir()
	s.env = append(s.env, "NIXL_LIBRARY=", "VIRTUAL_ENV=", "CONDA_PREFIX=", "HOME="+home, "LD_LIBRARY_PATH=")
	return s
}

// Which engine the ranks get depends on where they are, and all get the same.
func TestEngine(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	alltoall := []string{"run", "alltoall", "--iters", "1"}
	t.Run("auto on one host without NIXL", func(t *testing.T) {
		out := c.start(t, withoutNIXL(t, spec{ranks: 3, args: alltoall, local: true})).mustEnd()
		harness.Contains(t, "stdout", out, "3 ranks on 1 host: host1 (3)", "# engine: shm", "# note: shm instead of nixl")
	})
	t.Run("auto on one host", func(t *testing.T) {
		out := c.start(t, spec{ranks: 3, args: alltoall, local: true}).mustEnd()
		harness.Contains(t, "stdout", out, "# engine: nixl", "progress poll (one host)")
	})
	t.Run("auto without NIXL", func(t *testing.T) {
		c.start(t, withoutNIXL(t, spec{ranks: 3, args: alltoall})).refused(fault.Engine, "ranks on several hosts need NIXL", "pip install nixl-cu12")
	})
	t.Run("auto without NIXL on one of the hosts", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "libnixl_capi.so")
		c.start(t, spec{ranks: 3, args: alltoall, own: map[int][]string{2: {"--nixl-lib", missing}}}).
			refused(fault.Engine, "perigee: rank 2 on host3, phase ", missing)
	})
	t.Run("shm", func(t *testing.T) {
		c.start(t, spec{ranks: 3, args: append(alltoall, "--engine", "shm")}).
			refused(fault.Engine, "the shm engine serves ranks of one host only, and this job has several", "use --engine nixl")
	})
	t.Run("different choices", func(t *testing.T) {
		c.start(t, spec{ranks: 4, args: alltoall, own: map[int][]string{1: {"--engine", "shm"}, 3: {"--engine", "nixl"}}}).
			refused(fault.Usage, "ranks ask for different engines: auto (rank 0 on host1, rank 2 on host3); shm (rank 1 on host2); nixl (rank 3 on host1)")
	})
}

// Ranks find each other over the network that they are told to take, also where
// the hosts have others that lead nowhere.
func TestInterfaces(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4|ipv6)
	for i, h := range c.hosts {
		// An interface that comes before eth0 by name and family, and swallows all.
		h.ip("link add dark0 type veth peer name dark1")
		h.ip("link set dark0 up")
		h.ip("link set dark1 up")
		h.ip("addr add 10.66.0.%d/24 dev dark0", i+1)
	}
	alltoall := []string{"run", "alltoall", "--iters", "1"}
	net := []string{"UCX_NET_DEVICES=eth0"}
	for _, test := range []struct{ master, iface string }{
		{"10.77.0.1", ""}, {"10.77.0.1", "eth0"}, {"10.77.0.1", "10.77.0.0/24"}, {"10.77.0.1", "fd77::/64"}, {"fd77::1", ""},
		{"fd77::1", "10.77.0.0/24"},
	} {
		t.Run(fmt.Sprintf("%s by %q", test.master, test.iface), func(t *testing.T) {
			args := alltoall
			if test.iface != "" {
				args = append(args, "--iface", test.iface)
			}
			out := c.start(t, spec{ranks: 3, master: test.master, args: args, env: net}).mustEnd()
			harness.Contains(t, "stdout", out, "3 ranks on 3 hosts: host1 (1), host2 (1), host3 (1)")
		})
	}
	t.Run("which addresses there were, and which was taken", func(t *testing.T) {
		s := spec{ranks: 3, dir: t.TempDir(), args: append(alltoall, "--log-dir", "logs", "--log-level", "debug"), env: net}
		c.start(t, s).mustEnd()
		data := must.Read(t, filepath.Join(s.dir, "logs", "rank-0001.log"))
		for _, want := range []string{
			`log of rank 1 on host2, launcher torchrun, `,
			`msg="looking for rank 0" rank=1 host=host2 candidates=\[10\.77\.0\.1:29500\]`,
			`msg="found rank 0" rank=1 host=host2 address=10\.77\.0\.1:29500 from=10\.77\.0\.2:`,
			`msg=linked rank=1 host=host2 peer=\d address=10\.77\.0\.\d:(\d+) candidates="\[10\.77\.0\.\d:\d+ 10\.66\.0\.\d:\d+ `,
			`msg="joined the world" rank=1 host=host2 size=3 hosts=3 names="\[host1 host2 host3\]"`,
			`msg="measured the clocks" rank=1 host=host2 offset_ns=-\d+ uncertainty_ns=\d+`,
			`msg="opened the engine" rank=1 host=host2 engine=nixl .*progress:thread \(several hosts\)`,
			`msg=connecting rank=1 host=host2 peers="\[0 2\]"`, `msg=connected rank=1 host=host2 agents=1 `,
		} {
			if !regexp.MustCompile(want).Match(data) {
				t.Errorf("no line like %s in\n%s", want, data)
			}
		}
	})
	t.Run("an interface that is missing", func(t *testing.T) {
		outcomes := c.start(t, spec{ranks: 3, args: append(alltoall, "--iface", "ib0"), env: net}).wait()
		if outcomes[0].Code != int(fault.Launch) {
			t.Error(describe(outcomes))
		}
		harness.Contains(t, "report of rank 0", outcomes[0].Stderr, "ib0 on host1 means no address of this host; it has", "eth0 10.77.0.1")
	})
	t.Run("a network that leads nowhere", func(t *testing.T) {
		outcomes := c.start(t, spec{ranks: 3, args: append(alltoall, "--iface", "dark0"), env: net}).wait()
		for r, o := range outcomes {
			if o.Code == 0 {
				t.Errorf("rank %d: exit code 0", r)
			}
		}
		harness.Contains(t, "report of rank 0", outcomes[0].Stderr, "10.66.0.")
		if t.Failed() {
			t.Error(describe(outcomes))
		}
	})
}

// A rank that comes late is waited for, and rank 0 says so.
func TestLateRank(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ipv4)
	s := spec{ranks: 3, dir: t.TempDir(), args: []string{"run", harness.Script(t, "hello.lua")}, absent: []int{2}}
	j := c.start(t, s)
	j.ranks[0].Until("line about the missing rank", func() bool {
		return strings.Contains(j.ranks[0].Stderr.String(), "perigee: waiting for 1 of 3 ranks: 2\n")
	})
	j.ranks[2] = startRank(t, s, 2, c.hosts[2])
	harness.Contains(t, "stdout", j.mustEnd(), "host1\thost2\thost3")
}
