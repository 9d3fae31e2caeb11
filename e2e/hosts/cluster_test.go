// Package hosts tests perigee on several hosts. A host has its own
// namespaces, for the network, its name, processes, mounts, System V memory and
// the monotonic clock, and its own /dev/shm: what its ranks share with other
// hosts is the network and the disk. The tests need root.
//
// Nothing here has a name outside of the namespaces, so nothing can be left: a
// cluster is gone with the processes that hold it, and these go when the tests do.
package hosts

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// The tests wait most of the time, so that more of them can run at once than there
// are cores.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "4")
	os.Exit(harness.Main(m))
}

// hostCount is the number of hosts of a cluster.
const hostCount = 3

// host is a set of namespaces, kept by a process that does nothing.
type host struct {
	*harness.NetworkHost
	name    string
	number  int           // from 1
	ahead   time.Duration // of this machine's monotonic clock
	cluster *cluster
}

// cluster is a few hosts whose eth0 are on one switch.
type cluster struct {
	t      testing.TB
	hosts  []*host
	fabric *host // holds the switch: a bridge with ports port1, port2, ...
}

// address families that a cluster can have.
const (
	ipv4 = 1 << iota
	ipv6
)

// newCluster makes hosts host1, host2, ... with addresses 10.77.0.N and fd77::N.
func newCluster(t testing.TB, families int) *cluster {
	t.Helper()
	harness.Need(t, "iproute2", "ip")
	harness.Need(t, "util-linux", "unshare", "nsenter")
	c := &cluster{t: t}
	c.fabric = c.newHost("fabric", 0, 0)
	must.Do(t, c.fabric.Bridge())
	for i := 1; i <= hostCount; i++ {
		// The clocks of hosts have nothing to do with each other.
		h := c.newHost(fmt.Sprint("host", i), i, time.Duration(i-1)*1_000_003*time.Second)
		c.hosts = append(c.hosts, h)
		var addresses []string
		if families&ipv4 != 0 {
			addresses = append(addresses, fmt.Sprintf("10.77.0.%d/24", i))
		}
		if families&ipv6 != 0 {
			addresses = append(addresses, fmt.Sprintf("fd77::%d/64 nodad", i))
		}
		must.Do(t, c.fabric.Plug(h.NetworkHost, i, addresses...))
	}
	return c
}

// newHost makes the namespaces of a host.
func (c *cluster) newHost(name string, number int, ahead time.Duration) *host {
	c.t.Helper()
	seconds := int(ahead.Seconds())
	h, err := harness.NewNetworkHost(name, harness.Environ(harness.Token), "", &seconds)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(h.Close)
	return &host{NetworkHost: h, name: name, number: number, ahead: ahead, cluster: c}
}

// run runs a command that cannot fail.
func (c *cluster) run(words ...string) string {
	c.t.Helper()
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// ip changes the network of the host. Processes have the machine's numbers in it.
func (h *host) ip(format string, args ...any) {
	h.cluster.t.Helper()
	if err := h.Net("ip", fmt.Sprintf(format, args...)); err != nil {
		h.cluster.t.Fatal(err)
	}
}

// unplug takes the host off the switch.
func (h *host) unplug() { h.cluster.fabric.ip("link set port%d down", h.number) }

// remove takes the host's interface away altogether.
func (h *host) remove() { h.cluster.fabric.ip("link del port%d", h.number) }

// part lets two hosts lose each other, while all others still reach both.
func part(a, b *host) {
	for _, h := range []*host{a, b} {
		h.cluster.fabric.ip("link set port%d type bridge_slave isolated on", h.number)
	}
}

// sent returns how many bytes have left the host by eth0.
func (h *host) sent() int64 {
	h.cluster.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", h.Holder))
	_, counters, found := strings.Cut(string(text), "eth0:")
	f := strings.Fields(counters)
	if err != nil || !found || len(f) < 9 {
		h.cluster.t.Fatalf("counters of eth0 on %s: %v\n%s", h.name, err, text)
	}
	n, err := strconv.ParseInt(f[8], 10, 64)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	return n
}

// checkClean fails the test if a process, memory or an open socket is left on the host.
func (h *host) checkClean(t testing.TB) {
	t.Helper()
	if out := h.cluster.run(append(h.Enter("/"), "sh", "-c", "ls -A /dev/shm; tail -n +2 /proc/sysvipc/shm")...); out != "" {
		t.Errorf("left in the shared memory of %s:\n%s", h.name, out)
	}
	for pid, command := range h.processes() {
		t.Errorf("left on %s: process %d, %s", h.name, pid, command)
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", h.Holder, table))
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			const established, listening = "01", "0A"
			if f := strings.Fields(line); len(f) > 3 && (f[3] == established || f[3] == listening) {
				t.Errorf("a socket is left on %s: %s", h.name, line)
			}
		}
	}
}

// processes returns what runs on the host, apart from its holder.
func (h *host) processes() map[int]string {
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.Holder))
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		space, err := os.Readlink(filepath.Join(d, "ns/pid"))
		pid, _ := strconv.Atoi(filepath.Base(d))
		if err != nil || space != own || pid == h.Holder {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	}
	return found
}

// job is perigee on all hosts, started as an indexed job starts it: a process
// per rank, each with its number and where rank 0 is to be found.
type job struct {
	t     testing.TB
	dir   string
	ranks []*harness.Process
	on    []*host // by rank
	began time.Time
}

// spec describes a job.
type spec struct {
	ranks  int
	master string   // MASTER_ADDR; 10.77.0.1 if empty
	env    []string // added for all
	args   []string
	own    map[int][]string // further arguments of a rank
	ownEnv map[int][]string // further variables of a rank
	local  bool             // all ranks on the first host
	absent []int            // ranks that are not started
	dir    string
}

const masterPort = 29500

// start starts a job. Rank r runs on host r mod hosts.
func (c *cluster) start(t testing.TB, s spec) *job {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	j := &job{t: t, dir: s.dir, began: time.Now()}
	for r := range s.ranks {
		h := c.hosts[r%len(c.hosts)]
		if s.local {
			h = c.hosts[0]
		}
		j.on = append(j.on, h)
		j.ranks = append(j.ranks, nil)
		if !slices.Contains(s.absent, r) {
			j.ranks[r] = startRank(t, s, r, h)
		}
	}
	return j
}

func startRank(t testing.TB, s spec, rank int, h *host) *harness.Process {
	env := slices.Concat([]string{
		fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", s.ranks), "MASTER_ADDR=" + cmp.Or(s.master, "10.77.0.1"),
		fmt.Sprint("MASTER_PORT=", masterPort), "PERIGEE_SECRET=the secret of this job",
	}, s.env, s.ownEnv[rank])
	return harness.Start(t, harness.Command{
		Argv: slices.Concat(h.Enter(s.dir), []string{harness.Program}, s.args, s.own[rank]),
		Dir:  s.dir, Env: env,
	})
}

// wait returns how the ranks have ended, and checks that nothing is left of them.
func (j *job) wait() []harness.Outcome {
	j.t.Helper()
	outcomes := make([]harness.Outcome, len(j.ranks))
	for r, p := range j.ranks {
		if p != nil {
			outcomes[r] = p.Wait()
		}
	}
	for _, p := range j.ranks {
		if p != nil {
			p.CheckNothingLeft(harness.Patience)
		}
	}
	for _, h := range slices.Compact(slices.Clone(j.on[:min(len(j.on), hostCount)])) {
		h.checkClean(j.t)
	}
	return outcomes
}

// mustEnd is wait for jobs that are expected to go well. It returns what rank 0
// has printed.
func (j *job) mustEnd() string {
	j.t.Helper()
	outcomes := j.wait()
	for r, o := range outcomes {
		if o.Code != 0 {
			j.t.Errorf("rank %d: exit code %d", r, o.Code)
		}
	}
	if j.t.Failed() {
		j.t.Fatal(describe(outcomes))
	}
	return outcomes[0].Stdout
}

func describe(outcomes []harness.Outcome) string {
	var b strings.Builder
	for r, o := range outcomes {
		fmt.Fprintf(&b, "rank %d, exit code %d after %v\n%s%s", r, o.Code, o.Took, o.Stdout, o.Stderr)
	}
	return b.String()
}

// untilPrint waits until rank 0 has printed a text.
func (j *job) untilPrints(text string) {
	j.t.Helper()
	j.ranks[0].UntilPrints(text)
}
