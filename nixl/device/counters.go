package device

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Counters holds what the network of a host has counted since it was set up: the traffic of all processes in its
// network namespace, and of the whole host at RDMA ports. What the kernel does not say is absent.
type Counters struct {
	TCP  map[string]int64
	NICs []NICCounters // by name
}

// NICCounters holds what a NIC has counted.
type NICCounters struct {
	Name           string // as in NIC
	Mbps           int64  // as in NIC; 0 where the driver makes it up, as that of veth does
	Sent, Received int64  // bytes
	// Congestion is by the names of docs/network.md.
	Congestion map[string]int64

	bits map[string]int // of counters that are narrow
}

// Network is where the counters of a host are found.
type Network struct {
	Root       string                            // folder that holds proc and sys
	Addressed  func() map[string]bool            // interfaces that have an address by which other hosts reach them
	Statistics func(nic string) map[string]int64 // of ethtool; nil: none
}

// ThisNetwork is the network of this process.
func ThisNetwork() Network {
	return Network{Root: "/", Addressed: withAddress, Statistics: statistics}
}

// Read reads all counters. Interfaces are those that are devices, and others that have an address and do not lie on one
// that is seen here, such as the eth0 of a container: so nothing counts twice that a bond, a bridge or a tunnel passes
// on. Loopback is none.
func (n Network) Read() Counters {
	c := Counters{NICs: n.nics(true)}
	texts := [2]map[string]int64{n.mib("snmp"), n.mib("netstat")}
	for _, s := range tcpSources {
		for _, text := range texts {
			if v, ok := text[s.key]; ok {
				set(&c.TCP, s.name, v)
			}
		}
	}
	return c
}

// Traffic is the bytes that the NICs of a host have sent and received since they were set up, of all processes.
type Traffic struct {
	Names          []string // of the NICs; empty where there are none, or where they count nothing
	Sent, Received int64    // bytes
}

// Traffic adds up the bytes of the NICs that Read reads.
func (n Network) Traffic() (t Traffic) {
	for _, nic := range n.nics(false) {
		t.Names = append(t.Names, nic.Name)
		t.Sent, t.Received = t.Sent+nic.Sent, t.Received+nic.Received
	}
	return t
}

// nics reads the NICs that count bytes.
func (n Network) nics(congestion bool) []NICCounters {
	list := n.ports(congestion)
	list = append(list, n.interfaces(congestion, len(list) > 0)...)
	slices.SortFunc(list, func(a, b NICCounters) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// ports reads the ports of RDMA adapters.
func (n Network) ports(congestion bool) (list []NICCounters) {
	class := filepath.Join(n.Root, "sys/class/infiniband")
	adapters, _ := names(class)
	for _, adapter := range adapters {
		ports, _ := names(filepath.Join(class, adapter, "ports"))
		for _, port := range ports {
			dir := filepath.Join(class, adapter, "ports", port)
			c := NICCounters{Name: adapter + ":" + port, Mbps: rate(attribute(dir, "rate"))}
			if !c.readTraffic(dir) || state(attribute(dir, "state")) == "DOWN" && c.Sent+c.Received == 0 {
				continue
			}
			if congestion {
				c.take(portSources, func(file string) (int64, bool) { return count(attribute(dir, file)) })
			}
			list = append(list, c)
		}
	}
	return list
}

func (c *NICCounters) readTraffic(dir string) bool {
	for _, t := range portTraffic {
		sent, ok := count(attribute(dir, t.sent))
		received, both := count(attribute(dir, t.received))
		if ok && both && max(sent, received) <= math.MaxInt64/(2*t.unit) {
			c.Sent, c.Received = sent*t.unit, received*t.unit
			return true
		}
	}
	return false
}

// take adds the counters that are there.
func (c *NICCounters) take(from []source, read func(key string) (int64, bool)) {
	for _, s := range from {
		if _, there := c.Congestion[s.name]; there {
			continue
		}
		var sum int64
		found := false
		for _, key := range expand(s.key) {
			if v, ok := read(key); ok {
				sum, found = sum+v, true
			}
		}
		if found && sum >= 0 {
			set(&c.Congestion, s.name, sum)
			if s.bits > 0 {
				set(&c.bits, s.name, s.bits)
			}
		}
	}
}

// expand replaces the # of a key by each priority.
func expand(key string) (keys []string) {
	if !strings.Contains(key, "#") {
		return []string{key}
	}
	for priority := range 8 {
		keys = append(keys, strings.Replace(key, "#", strconv.Itoa(priority), 1))
	}
	return keys
}

// set puts a value into a map that may not be there yet.
func set[T any](m *map[string]T, name string, v T) {
	if *m == nil {
		*m = map[string]T{}
	}
	(*m)[name] = v
}

// interfaces reads the network interfaces of the namespace: /proc/net/dev lists them even where sysfs is that of
// another namespace or not mounted.
func (n Network) interfaces(congestion, ports bool) (list []NICCounters) {
	const bytesIn, droppedIn, bytesOut, droppedOut, fields = 0, 3, 8, 11, 16
	var addressed map[string]bool
	if n.Addressed != nil {
		addressed = n.Addressed()
	}
	for line := range strings.Lines(n.text("net/dev")) {
		name, rest, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		f := strings.Fields(rest)
		if !ok || len(f) < fields || !filepath.IsLocal(name) {
			continue
		}
		dir := filepath.Join(n.Root, "sys/class/net", name)
		physical := has(dir, "device")
		received, ok := count(f[bytesIn])
		sent, both := count(f[bytesOut])
		idle := sent+received == 0 && attribute(dir, "operstate") == "down"
		if !ok || !both || idle || !physical && !addressed[name] || passesOn(dir, ports) {
			continue
		}
		c := NICCounters{Name: name, Sent: sent, Received: received}
		if !madeUp(dir) {
			c.Mbps, _ = count(attribute(dir, "speed"))
		}
		if congestion {
			dropped := map[string]string{"rx_dropped": f[droppedIn], "tx_dropped": f[droppedOut]}
			c.take([]source{{name: "rx_dropped", key: "rx_dropped"}, {name: "tx_dropped", key: "tx_dropped"}},
				func(key string) (int64, bool) { return count(dropped[key]) })
			if physical && n.Statistics != nil {
				all := n.Statistics(name)
				c.take(statisticSources, func(key string) (v int64, ok bool) { v, ok = all[key]; return v, ok })
			}
		}
		list = append(list, c)
	}
	return list
}

// passesOn reports whether what an interface counts is that of this host alone, or is counted by another NIC, too: by
// those below a bond or a VLAN, by the ports of a bridge, by what carries a tunnel, by a port for InfiniBand, by the
// uplink for the representor of a virtual function.
func passesOn(dir string, ports bool) bool {
	kind := netKinds[attribute(dir, "type")]
	if filepath.Base(dir) == "lo" || kind == "loopback" || kind == "infiniband" && ports {
		return true
	}
	if below, _ := filepath.Glob(filepath.Join(dir, "lower_*")); len(below) > 0 {
		return true
	}
	if part := attribute(dir, "phys_port_name"); strings.Contains(part, "vf") || strings.Contains(part, "sf") {
		return true
	}
	for line := range strings.Lines(attribute(dir, "uevent")) {
		switch strings.TrimSpace(line) {
		case "DEVTYPE=bridge", "DEVTYPE=vxlan", "DEVTYPE=geneve", "DEVTYPE=wireguard":
			return true
		}
	}
	return attribute(dir, "type") == "65534" // tun, which has no link layer
}

// mib reads a table of /proc/net, where a line of names is followed by one of values: "Tcp RetransSegs".
func (n Network) mib(table string) map[string]int64 {
	values := map[string]int64{}
	var heads []string
	for line := range strings.Lines(n.text("net/" + table)) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(heads) == len(f) && heads[0] == f[0] {
			for i, head := range heads[1:] {
				if v, ok := count(f[i+1]); ok {
					values[strings.TrimSuffix(f[0], ":")+" "+head] = v
				}
			}
		}
		heads = f
	}
	return values
}

// text reads a file of /proc; empty if that cannot be.
func (n Network) text(name string) string {
	const most = 4 << 20 // thousands of interfaces
	f, err := os.Open(filepath.Join(n.Root, "proc", name))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, most))
	return string(text)
}

// count reads a counter.
func count(text string) (int64, bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, false
	}
	return v, true
}

// withAddress lists the interfaces of this namespace that have an address which is valid beyond their link.
func withAddress() map[string]bool {
	interfaces, _ := net.Interfaces()
	table, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil
	}
	messages, _ := syscall.ParseNetlinkMessage(table)
	valid := map[int]bool{}
	for _, m := range messages { // an ifaddrmsg: family, prefix, flags, scope, index
		if m.Header.Type == syscall.RTM_NEWADDR && len(m.Data) >= 8 && m.Data[3] < syscall.RT_SCOPE_LINK {
			valid[int(binary.NativeEndian.Uint32(m.Data[4:]))] = true
		}
	}
	names := map[string]bool{}
	for _, i := range interfaces {
		if valid[i.Index] {
			names[i.Name] = true
		}
	}
	return names
}

// Since returns what has been counted since an earlier reading. A counter that has gone back for another reason than
// its width, or stands at the largest value that it can have, is left out, and so are NICs that were not there both
// times: notes name them.
func (c Counters) Since(before Counters) (gained Counters, notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	gained.TCP = gains(c.TCP, before.TCP, nil, func(name, what string) { note("%s of TCP %s", name, what) })
	old := map[string]NICCounters{}
	for _, nic := range before.NICs {
		old[nic.Name] = nic
	}
	for _, nic := range c.NICs {
		was, there := old[nic.Name]
		delete(old, nic.Name)
		switch {
		case !there:
			note("%s has come", nic.Name)
			continue
		case nic.Sent < was.Sent || nic.Received < was.Received:
			note("%s was set back", nic.Name)
			continue
		}
		gained.NICs = append(gained.NICs, NICCounters{
			Name: nic.Name, Mbps: nic.Mbps, Sent: nic.Sent - was.Sent, Received: nic.Received - was.Received,
			Congestion: gains(nic.Congestion, was.Congestion, nic.bits,
				func(name, what string) { note("%s of %s %s", name, nic.Name, what) }),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		note("%s has gone", name)
	}
	return gained, notes
}

// gains subtracts counters. note takes the name of one that is left out, and why.
func gains(now, before map[string]int64, bits map[string]int, note func(name, what string)) map[string]int64 {
	var out map[string]int64
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, there := before[name]
		if !there {
			continue
		}
		gained, width := now[name]-was, bits[name]
		if gained < -1<<31 && width == 32 { // less far back it was set back
			gained += 1 << 32
		}
		switch {
		case gained < 0:
			note(name, "was set back")
		case width == 16 && now[name] >= 1<<16-1:
			note(name, "counts no further")
		default:
			set(&out, name, gained)
		}
	}
	return out
}
