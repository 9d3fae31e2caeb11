package device

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// NIC is a network interface of the host, or a port of an RDMA adapter.
type NIC struct {
	Name  string `json:"name"`          // eth0, or mlx5_0:1 for a port of an adapter
	Kind  string `json:"kind"`          // ethernet, infiniband, loopback or other
	State string `json:"state"`         // as the kernel words it: up, down, ACTIVE, ...
	Mbps  int64  `json:"mbps"`          // speed in 1e6 bits per second; 0 if unknown
	RDMA  bool   `json:"rdma"`          // an adapter's port rather than a network interface
	Bus   string `json:"bus,omitempty"` // PCI address, if it has one
	// Driver is the kernel's, if the device has one.
	Driver string `json:"driver,omitempty"`
	Links  string `json:"links,omitempty"` // network interfaces of an adapter, separated by blanks
}

// NICs lists the interfaces in /sys/class/net and /sys/class/infiniband below a sysfs root ("/sys"),
// by name. A missing folder is an empty one.
func NICs(sysfsRoot string) ([]NIC, error) {
	nets, err := names(filepath.Join(sysfsRoot, "class", "net"))
	if err != nil {
		return nil, err
	}
	var nics []NIC
	for _, name := range nets {
		nics = append(nics, readNet(filepath.Join(sysfsRoot, "class", "net", name)))
	}
	adapters, err := names(filepath.Join(sysfsRoot, "class", "infiniband"))
	if err != nil {
		return nil, err
	}
	for _, name := range adapters {
		ports, err := readAdapter(filepath.Join(sysfsRoot, "class", "infiniband", name))
		if err != nil {
			return nil, err
		}
		nics = append(nics, ports...)
	}
	slices.SortFunc(nics, func(a, b NIC) int { return cmp.Compare(a.Name, b.Name) })
	return nics, nil
}

// names lists a folder's entries that are folders or lead to one.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if st, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && st.IsDir() {
			list = append(list, e.Name())
		}
	}
	return list, nil
}

// Values of /sys/class/net/*/type, from the kernel's if_arp.h.
var netKinds = map[string]string{"1": "ethernet", "32": "infiniband", "772": "loopback"}

func readNet(dir string) NIC {
	// A link that is down has no speed; some say -1 then, and some refuse to be read.
	mbps, _ := strconv.ParseInt(attribute(dir, "speed"), 10, 64)
	return NIC{
		Name:  filepath.Base(dir),
		Kind:  cmp.Or(netKinds[attribute(dir, "type")], "other"),
		State: cmp.Or(attribute(dir, "operstate"), "unknown"),
		Mbps:  max(mbps, 0),
		Bus:   bus(dir), Driver: driverOf(dir),
	}
}

// readAdapter describes each port of an RDMA adapter below /sys/class/infiniband. Attributes that a driver lacks stay
// empty.
func readAdapter(dir string) ([]NIC, error) {
	ports, err := names(filepath.Join(dir, "ports"))
	if err != nil {
		return nil, err
	}
	nets, err := names(filepath.Join(dir, "device", "net"))
	if err != nil {
		return nil, err
	}
	var nics []NIC
	for _, port := range ports {
		at := filepath.Join(dir, "ports", port)
		nics = append(nics, NIC{
			Name:  filepath.Base(dir) + ":" + port,
			Kind:  cmp.Or(strings.ToLower(attribute(at, "link_layer")), "other"),
			State: state(attribute(at, "state")),
			Mbps:  rate(attribute(at, "rate")),
			RDMA:  true,
			Bus:   bus(dir), Driver: driverOf(dir),
			Links: strings.Join(nets, " "),
		})
	}
	return nics, nil
}

// state cuts the number off "4: ACTIVE".
func state(s string) string {
	if _, word, ok := strings.Cut(s, ":"); ok {
		s = word
	}
	return cmp.Or(strings.TrimSpace(s), "unknown")
}

// rate reads "200 Gb/sec (4X HDR)" in 1e6 bits per second.
func rate(s string) int64 {
	number, unit, _ := strings.Cut(s, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || !(gbps >= 0 && gbps < 1e6) {
		return 0
	}
	return int64(gbps * 1000)
}

// attribute reads a file of sysfs, which hands it over at once: what is larger than a page is none, and what would have
// to be waited for is empty.
func attribute(dir, name string) string {
	const page = 4096
	fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var text [page + 1]byte
	n, err := unix.Read(fd, text[:])
	if err != nil || n > page {
		return ""
	}
	return strings.TrimSpace(string(text[:n]))
}

// bus is the last part of where the device link leads, if that looks like a PCI address.
func bus(dir string) string {
	target, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return ""
	}
	if name := filepath.Base(target); strings.Count(name, ":") == 2 && strings.Contains(name, ".") {
		return name
	}
	return ""
}

// driverOf is the name of the kernel's driver of a device.
func driverOf(dir string) string {
	target, err := filepath.EvalSymlinks(filepath.Join(dir, "device", "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}
