package hosts

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// Senders that share a link lose segments, one that has it alone loses none: its window fits into the queue of 60 kB,
// the windows of two do not. The result says in which phase, the run says it, and a threshold
// catches it.
func TestCongestion(t *testing.T) {
	harness.NeedNIXL(t)
	harness.Need(t, "iproute2", "tc")
	t.Parallel()
	c := newCluster(t, ipv4)
	fourth := c.newHost("host4", 4, 0)
	c.hosts = append(c.hosts, fourth)
	must.Do(t, c.fabric.Plug(fourth.NetworkHost, 4, "10.77.0.4/24"))
	for _, h := range c.hosts {
		// Segments are sent one by one: the queue would count a bundle of them as one packet.
		h.ip("link set eth0 gso_max_segs 1")
		c.fabric.ip("link set port%d gso_max_segs 1", h.number)
		c.run(append(h.Enter("/proc/sys/net/ipv4"), "sh", "-c", "echo 4096 16384 65536 >tcp_wmem && "+
			"echo 4096 16384 65536 >tcp_rmem && echo 0 >tcp_early_retrans")...)
		h.ip("route change 10.77.0.0/24 dev eth0 rto_min 1s")
	}
	// What is sent again was lost, and neither late nor overtaken on a busy machine: one CPU handles what arrives.
	for _, h := range append(c.hosts, c.fabric) {
		c.run("nsenter", "--target", fmt.Sprint(h.Holder), "--net", "unshare", "--mount", "sh", "-c", "mount -t sysfs sysfs /sys && "+
			"for q in /sys/class/net/[ep]*/queues/rx-0/rps_cpus; do echo 1 >$q; done")
	}
	if err := c.fabric.Net("tc", "qdisc add dev port1 root tbf rate 200mbit burst 64kb limit 60kb"); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	j := c.start(t, spec{ranks: 4, env: []string{"UCX_TLS=tcp,self"}, args: []string{
		"run", harness.Script(t, "senders.lua"), "--engine", "nixl", "--result", path,
		"--threshold", `tcp_retransmits{phase="1 sender"}.max == 0`,
		"--threshold", `tcp_retransmits{phase="3 senders"}.max == 0`,
		"--threshold", `nic_counter{counter="cnp_sent"}.count == 0`,
	}})
	outcomes := j.wait()
	for r, o := range outcomes {
		if o.Code != 12 {
			t.Fatalf("rank %d: exit code %d\n%s", r, o.Code, describe(outcomes))
		}
	}
	d, err := result.Read(path)
	must.Do(t, err)
	lost, received := map[string]int64{}, map[string]int64{}
	for _, w := range d.Network.Windows {
		if w.Note != "" {
			t.Errorf("%s: %s", d.World.Hosts[w.Host].Name, w.Note)
		}
		lost[w.Phase] += w.TCP["retransmits"]
		for _, nic := range w.NICs {
			if nic.Name != "eth0" {
				t.Errorf("%s is no NIC", nic.Name)
			}
			if d.World.Hosts[w.Host].Name == "host1" {
				received[w.Phase] += nic.Received
			}
		}
	}
	t.Logf("retransmitted %v, received %v", lost, received)
	const message = 20 << 20
	for n, phase := range []string{"1 sender", "2 senders", "3 senders"} {
		if least := int64(n+1) * message; received[phase] < least || received[phase] > least*5/4 {
			t.Errorf("%s: host1 received %d bytes, want %d and headers", phase, received[phase], least)
		}
	}
	if lost["1 sender"] > 0 || lost["2 senders"] == 0 || lost["3 senders"] < 100 {
		t.Errorf("retransmitted segments: %v, want none of one sender, some of two, hundreds of three", lost)
	}
	// Each segment that the queue dropped was sent again, and none else.
	stats := c.run("nsenter", "--target", fmt.Sprint(c.fabric.Holder), "--net", "tc", "-s", "qdisc", "show", "dev", "port1")
	found := regexp.MustCompile(`dropped ([0-9]+)`).FindStringSubmatch(stats)
	if found == nil {
		t.Fatal(stats)
	}
	dropped, _ := strconv.ParseInt(found[1], 10, 64)
	if sum := lost["1 sender"] + lost["2 senders"] + lost["3 senders"]; sum < dropped*9/10 || sum > dropped*11/10 {
		t.Errorf("%d retransmitted segments, but the queue dropped %d", sum, dropped)
	}
	if passed := d.Thresholds[0].Passed; passed == nil || !*passed {
		t.Errorf("one sender alone: %+v", d.Thresholds[0])
	}
	var line string
	for l := range strings.Lines(outcomes[0].Stdout) {
		if strings.HasPrefix(l, "# network: ") {
			line += l
		}
	}
	if strings.Count(line, "\n") != 1 || strings.Contains(line, "1 sender:") || !strings.Contains(line, "; 3 senders: ") ||
		!strings.Contains(line, fmt.Sprintf("(%d on 3 hosts)", lost["3 senders"])) {
		t.Errorf("the run says %q", line)
	}
	harness.Contains(t, "complaint", outcomes[0].Stderr, `no host shows it; there are the counters rx_dropped, tx_dropped`)
}

// What stays inside a host is not seen at its NICs. One that goes away during a run is named, and the run goes on.
func TestNICGoesAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, ipv4)
	h := c.hosts[0]
	h.ip("link add eth1 type veth peer name nowhere")
	h.ip("addr add 10.79.0.1/24 dev eth1")
	h.ip("link set eth1 up")
	path := filepath.Join(t.TempDir(), "r.json")
	j := c.start(t, spec{ranks: 2, local: true, args: []string{"run", harness.Script(t, "gone.lua"), "--engine", "shm", "--result", path}})
	j.untilPrints("take eth1 away")
	h.ip("link del eth1")
	out := j.mustEnd()
	harness.Contains(t, "output", out, "# network: change: on host1 eth1 has gone (all traffic of the hosts counts)")
	d, err := result.Read(path)
	must.Do(t, err)
	names := map[string]string{}
	for _, w := range d.Network.Windows {
		for _, nic := range w.NICs {
			names[w.Phase] += nic.Name + " "
			if most := int64(1 << 20); nic.Sent > most || nic.Received > most {
				t.Errorf("%s: %+v of a host that moves bytes inside", w.Phase, nic)
			}
		}
	}
	if len(names) != 3 || names["inside"] != "eth0 eth1 " || names["change"] != "eth0 " || names["after"] != "eth0 " {
		t.Errorf("NICs by phase: %q", names)
	}
}
