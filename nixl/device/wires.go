package device

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// wires finds NICs.
type wires struct {
	root      string                   // the folder that holds sys and dev
	env       func(name string) string // of UCX
	addressed map[string]bool          // interfaces by which other hosts reach this one
	index     func(name string) int    // of an interface
}

// Wires lists the NICs by which UCX can reach other hosts from this process with such an environment, the fastest
// first. The port of an adapter and its network interface are one wire: where a port can be used, UCX prefers ports. An
// error of the kernel, or what only UCX understands, is the reason why they are not known.
func Wires(env func(name string) string) (list []NIC, reason string) {
	return wires{"/", env, withAddress(), indexOf}.list()
}

func (w wires) list() (list []NIC, reason string) {
	devices := w.env("UCX_NET_DEVICES")
	if devices != "all" && asksFor(devices) == nil && devices != "" {
		return nil, "which devices UCX_NET_DEVICES=" + devices + " means only UCX knows"
	}
	nics, err := NICs(filepath.Join(w.root, "sys"))
	if err != nil {
		return nil, err.Error()
	}
	asked := asksFor(devices)
	var ports, nets []NIC
	for _, n := range nics {
		switch {
		case asked != nil && !slices.Contains(asked, n.Name):
		case n.RDMA && n.State == "ACTIVE" && w.opens(n.Name):
			ports = append(ports, n)
		case !n.RDMA && n.Kind != "loopback" && n.State != "down" && w.addressed[n.Name] &&
			!has(w.net(n.Name), "bridge"):
			nets = append(nets, n)
		}
	}
	if list = ports; len(ports) == 0 || onlyTCP(w.env("UCX_TLS")) {
		if slices.ContainsFunc(nets, w.foreign) {
			return nets, "/sys is that of another network namespace"
		}
		virtual := func(n NIC) bool { return madeUp(w.net(n.Name)) }
		if list = slices.DeleteFunc(slices.Clone(nets), virtual); len(list) == 0 {
			list = nets
		}
		if len(nets) > 0 && virtual(list[0]) && list[0].Mbps > 0 {
			return nets, fmt.Sprintf("%s is a virtual interface, whose %g Gb/s stand for no wire", nets[0].Name,
				float64(nets[0].Mbps)/1e3)
		}
	}
	slices.SortStableFunc(list, func(a, b NIC) int { return cmp.Compare(b.Mbps, a.Mbps) })
	switch i := slices.IndexFunc(list, func(n NIC) bool { return n.Mbps == 0 }); {
	case len(list) == 0:
		reason = "there is no NIC that is up and has an address"
	case i >= 0 && list[i].Driver != "":
		reason = fmt.Sprintf("the kernel does not say the speed of %s (%s)", list[i].Name, list[i].Driver)
	case i >= 0:
		reason = "the kernel does not say the speed of " + list[i].Name
	}
	return list, reason
}

// indexOf is the number that this process's network has for an interface; 0 if it has none of that name.
func indexOf(name string) int {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return i.Index
}

// onlyTCP reports whether a value of UCX_TLS leaves no transport for adapters.
func onlyTCP(value string) bool {
	names, except := Transports(value)
	return len(names) > 0 && !except && !slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "\\"), "_")
		return slices.Contains([]string{"all", "ib", "rc", "ud", "dc", "srd", "gga"}, name)
	})
}

// net is the folder of a network interface in sysfs.
func (w wires) net(name string) string { return filepath.Join(w.root, "sys/class/net", name) }

// has reports whether a folder has an entry.
func has(dir, entry string) bool {
	_, err := os.Stat(filepath.Join(dir, entry))
	return err == nil
}

// foreign reports whether an interface in sysfs is another one than this process has by that name.
func (w wires) foreign(n NIC) bool {
	index, err := strconv.Atoi(attribute(w.net(n.Name), "ifindex"))
	return err == nil && index != w.index(n.Name)
}

// madeUp reports whether the speed of the network interface with a folder in sysfs is one that its driver has made up,
// as that of veth and tun: they have neither a device nor, as bond, vlan and macvlan, a type and the speed of devices
// below them.
func madeUp(dir string) bool {
	return !has(dir, "device") && !strings.Contains(attribute(dir, "uevent"), "DEVTYPE=")
}

// opens reports whether this process has the device file of an adapter's port: a container sees the adapters of its
// host in sysfs, and the files of those that it may use.
func (w wires) opens(port string) bool {
	adapter, _, _ := strings.Cut(port, ":")
	files, _ := names(filepath.Join(w.root, "sys/class/infiniband", adapter, "device/infiniband_verbs"))
	return len(files) == 0 || slices.ContainsFunc(files, func(f string) bool {
		_, err := os.Stat(filepath.Join(w.root, "dev/infiniband", f))
		return err == nil
	})
}
