package device

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"perigee/internal/kit/must"
)

// fixture is a host as testdata describes it: files below its root, statistics of ethtool, interfaces with an address.
func fixture(t *testing.T, name string) Network {
	t.Helper()
	text := must.Read(t, filepath.Join("testdata", name+".txt"))
	files, addresses, stats := map[string]string{}, map[string]bool{}, map[string]map[string]int64{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		words := strings.Fields(key)
		switch {
		case !ok:
		case key == "address":
			addresses[value] = true
		case words[0] == "ethtool":
			v, err := strconv.ParseInt(value, 10, 64)
			must.Do(t, err)
			if stats[words[1]] == nil {
				stats[words[1]] = map[string]int64{}
			}
			stats[words[1]][words[2]] = v
		default:
			files[key] = strings.ReplaceAll(value, `\n`, "\n") + "\n"
		}
	}
	return Network{Root: tree(t, files), Addressed: func() map[string]bool { return addresses },
		Statistics: func(nic string) map[string]int64 { return stats[nic] }}
}

// The counters of three vendors have the same names, and nothing counts twice: not what a bond passes on, and not
// priorities and their sum.
func TestVendors(t *testing.T) {
	drops := func(rx, tx int64, more map[string]int64) map[string]int64 {
		m := map[string]int64{"rx_dropped": rx, "tx_dropped": tx}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	for name, want := range map[string]Counters{
		"mlx5": {
			TCP: map[string]int64{"retransmits": 2174, "lost_retransmits": 3, "fast_retransmits": 40, "timeouts": 5, "syn_retransmits": 1},
			NICs: []NICCounters{
				{Name: "eth0", Mbps: 200000, Sent: 2000, Received: 1000, Congestion: drops(7, 0, map[string]int64{
					"pause_received": 401, "pause_sent": 20, "rx_discards": 8, "tx_discards": 0})},
				{Name: "mlx5_0:1", Mbps: 200000, Sent: 4000000, Received: 12000, Congestion: map[string]int64{
					"xmit_wait": 1<<32 - 6, "rx_errors": 65535, "tx_discards": 4, "cnp_sent": 31, "cnp_received": 7, "ecn_marked": 90,
					"out_of_sequence": 11, "sequence_errors": 12, "ack_timeouts": 2, "retransmits": 5, "not_ready": 1, "out_of_buffer": 6}},
			},
		},
		"bnxt_re": {
			TCP: map[string]int64{"retransmits": 0, "lost_retransmits": 0, "fast_retransmits": 0, "timeouts": 0, "syn_retransmits": 0},
			NICs: []NICCounters{
				{Name: "bnxt_re0:1", Mbps: 400000, Sent: 5000, Received: 7000, Congestion: map[string]int64{
					"cnp_sent": 3, "cnp_received": 4, "ecn_marked": 5, "out_of_sequence": 6, "sequence_errors": 7, "ack_timeouts": 8,
					"not_ready": 9, "rx_discards": 10}},
				{Name: "enp1s0f0", Mbps: 400000, Sent: 60, Received: 50, Congestion: drops(0, 0, map[string]int64{
					"pause_received": 111, "pause_sent": 0})},
			},
		},
		"ionic": {NICs: []NICCounters{
			{Name: "eth0", Sent: 600, Received: 500, Congestion: drops(0, 1, nil)},
			{Name: "ionic_0:1", Mbps: 400000, Sent: 12, Received: 13, Congestion: map[string]int64{
				"cnp_sent": 1, "cnp_received": 2, "ecn_marked": 3, "out_of_sequence": 4, "sequence_errors": 5, "ack_timeouts": 6,
				"retransmits": 7, "not_ready": 8, "out_of_buffer": 9, "rx_discards": 10}},
		}},
	} {
		n := fixture(t, name)
		got := n.Read()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(NICCounters{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		sum := Traffic{}
		for _, nic := range want.NICs {
			sum.Names, sum.Sent, sum.Received = append(sum.Names, nic.Name), sum.Sent+nic.Sent, sum.Received+nic.Received
		}
		if diff := cmp.Diff(sum, n.Traffic()); diff != "" {
			t.Errorf("%s: traffic (-want +got):\n%s", name, diff)
		}
	}
}

// Loopback, bridges, tunnels, representors and interfaces that are down are no NICs; an adapter without counters is
// left out. Of those that are no devices only ones with an address count: the others are other hosts' ends.
func TestTraffic(t *testing.T) {
	files := map[string]string{
		"proc/net/dev": "face |bytes\n lo: 1000 0 0 0 0 0 0 0 1000 0 0 0 0 0 0 0\n",

		"sys/class/net/br0/uevent":           "DEVTYPE=bridge\nINTERFACE=br0\n",
		"sys/class/net/vx0/uevent":           "INTERFACE=vx0\nDEVTYPE=vxlan\n",
		"sys/class/net/tun0/type":            "65534\n",
		"sys/class/net/ib0/type":             "32\n", // whose bytes mlx5_0:1 has counted
		"sys/class/net/ib0/device/vendor":    "0x15b3\n",
		"sys/class/net/eth0/device/vendor":   "0x1af4\n",
		"sys/class/net/rep0/device/vendor":   "0x15b3\n",
		"sys/class/net/rep0/phys_port_name":  "pf0vf3\n",
		"sys/class/net/spare/device/vendor":  "0x15b3\n",
		"sys/class/net/spare/operstate":      "down\n",
		"sys/class/net/pulled/device/vendor": "0x15b3\n",
		"sys/class/net/pulled/operstate":     "down\n",

		"sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "100\n",
		"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data":  "3\n",
		"sys/class/infiniband/mlx5_0/ports/2/state":                   "1: DOWN\n",
	}
	row := func(name, received, sent string) {
		files["proc/net/dev"] += name + ": " + received + " 1 0 0 0 0 0 0 " + sent + " 1 0 0 0 0 0 0\n"
	}
	for _, name := range []string{"br0", "vx0", "tun0", "ib0", "rep0", "veth9"} {
		row(name, "7", "7")
	}
	row("eth0", "500", "12") // no speed, no type
	row("veth1", "30", "40")
	row("spare", "0", "0")
	row("pulled", "1", "2")
	row("odd", "-5", "4")
	row("text", "x", "4")
	files["proc/net/dev"] += "torn: 5 5\n"
	addresses := map[string]bool{}
	for _, name := range []string{"br0", "vx0", "tun0", "veth1", "odd", "text", "torn", "lo"} {
		addresses[name] = true
	}
	n := Network{Root: tree(t, files), Addressed: func() map[string]bool { return addresses }}
	want := Traffic{Names: []string{"eth0", "mlx5_0:1", "pulled", "veth1"}, Sent: 12 + 400 + 2 + 40, Received: 500 + 12 + 1 + 30}
	must.Equal(t, want, n.Traffic())
	empty := Network{Root: t.TempDir()}
	if got := empty.Traffic(); len(got.Names) != 0 {
		t.Errorf("%+v", got)
	}
	if got := empty.Read(); got.TCP != nil || got.NICs != nil {
		t.Errorf("%+v, want nothing", got)
	}
}

// A file that has to be waited for, or holds anything but a number, is a counter that is not there.
func TestLies(t *testing.T) {
	n := fixture(t, "mlx5")
	dir := filepath.Join(n.Root, "sys/class/infiniband/mlx5_0/ports/1/hw_counters")
	put := func(name, text string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("np_cnp_sent", "-4\n")
	put("rp_cnp_handled", "N/A (no firmware)\n")
	put("out_of_sequence", strings.Repeat("1", 200_000))
	put("packet_seq_err", "99999999999999999999\n")
	put("local_ack_timeout_err", "")
	os.Remove(filepath.Join(dir, "out_of_buffer"))
	pipe := filepath.Join(dir, "roce_adp_retrans")
	os.Remove(pipe)
	must.Do(t, unix.Mkfifo(pipe, 0o600))
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // who never writes
	must.Do(t, err)
	defer writer.Close()
	os.WriteFile(filepath.Join(n.Root, "proc/net/netstat"), []byte("TcpExt: TCPTimeouts\nTcpExt: 1 2\nTcpExt:\n\n:"), 0o644)
	os.WriteFile(filepath.Join(n.Root, "proc/net/snmp"), []byte("Tcp: MaxConn RetransSegs\nTcp: -1 minus\n"), 0o644)
	began := time.Now()
	got := n.Read()
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %v", took)
	}
	if got.TCP != nil {
		t.Errorf("TCP: %v", got.TCP)
	}
	i := slices.IndexFunc(got.NICs, func(c NICCounters) bool { return c.Name == "mlx5_0:1" })
	if i < 0 {
		t.Fatalf("%+v", got.NICs)
	}
	want := map[string]int64{"xmit_wait": 1<<32 - 6, "rx_errors": 65535, "tx_discards": 4, "ecn_marked": 90, "not_ready": 1}
	must.Equal(t, want, got.NICs[i].Congestion)
}

// Counters of 32 bits begin again at 0, others that go back are left out and named, and so is a NIC that comes or goes.
func TestSince(t *testing.T) {
	n := fixture(t, "mlx5")
	before := n.Read()
	dir := filepath.Join(n.Root, "sys/class/infiniband/mlx5_0/ports/1")
	for name, text := range map[string]string{
		"counters/port_xmit_wait":     "10\n", // 6 until 2^32, and 10
		"counters/port_xmit_data":     "1000500\n",
		"hw_counters/np_cnp_sent":     "30\n",
		"hw_counters/out_of_sequence": "4294967295\n",
		"hw_counters/packet_seq_err":  "0\n", // from 12: the driver was loaded again
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	os.Remove(filepath.Join(dir, "hw_counters/out_of_buffer"))
	os.WriteFile(filepath.Join(n.Root, "proc/net/snmp"), []byte("Tcp: RetransSegs\nTcp: 2173\n"), 0o644)
	os.WriteFile(filepath.Join(n.Root, "proc/net/dev"), []byte("a|b\n eth1: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n"), 0o644)
	os.MkdirAll(filepath.Join(n.Root, "sys/class/net/eth1/device"), 0o755)
	got, notes := n.Read().Since(before)
	want := Counters{
		TCP: map[string]int64{"lost_retransmits": 0, "fast_retransmits": 0, "timeouts": 0, "syn_retransmits": 0},
		NICs: []NICCounters{{Name: "mlx5_0:1", Mbps: 200000, Sent: 2000, Congestion: map[string]int64{
			"xmit_wait": 16, "tx_discards": 0, "cnp_received": 0, "ecn_marked": 0, "out_of_sequence": 1<<32 - 1 - 11,
			"ack_timeouts": 0, "retransmits": 0, "not_ready": 0}}},
	}
	must.Equal(t, want, got, cmpopts.IgnoreUnexported(NICCounters{}))
	wantNotes := []string{"retransmits of TCP was set back", "eth1 has come", "cnp_sent of mlx5_0:1 was set back",
		"rx_errors of mlx5_0:1 counts no further", "sequence_errors of mlx5_0:1 was set back", "eth0 has gone"}
	if diff := cmp.Diff(wantNotes, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	os.WriteFile(filepath.Join(dir, "counters/port_xmit_data"), []byte("1\n"), 0o644)
	if got, notes := n.Read().Since(before); len(got.NICs) != 0 || !slices.Contains(notes, "mlx5_0:1 was set back") {
		t.Errorf("%+v, %q", got, notes)
	}
}

// The kernel answers about this process's own network, whatever it has.
func TestThisNetwork(t *testing.T) {
	c := ThisNetwork().Read()
	if _, ok := c.TCP["retransmits"]; !ok {
		t.Errorf("TCP: %v", c.TCP)
	}
	if slices.ContainsFunc(c.NICs, func(n NICCounters) bool { return n.Name == "lo" }) {
		t.Errorf("%+v", c.NICs)
	}
	if got := statistics("no such interface"); got != nil {
		t.Errorf("%v", got)
	}
	gained, notes := c.Since(c)
	if len(gained.NICs) != len(c.NICs) || len(notes) > 0 {
		t.Errorf("%+v, %q", gained, notes)
	}
}
