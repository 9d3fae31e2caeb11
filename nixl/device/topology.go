package device

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Place is where a PCI device sits in its host, as sysfs shows it.
type Place struct {
	Address string // as sysfs writes it: 0000:3b:00.0
	NUMA    *int   // node; nil if the firmware does not say
	path    []string
}

// Locate looks a PCI address up below a sysfs root ("/sys"). NVML's form 00000000:3B:00.0 will do. ok is false for what
// is not there, as in many containers.
func Locate(sysfsRoot, address string) (p Place, ok bool) {
	p.Address = strings.ToLower(address)
	domain, rest, _ := strings.Cut(p.Address, ":")
	if number, err := strconv.ParseUint(domain, 16, 32); err == nil {
		p.Address = fmt.Sprintf("%04x:%s", number, rest)
	}
	if p.Address == "" || strings.Contains(p.Address, "/") {
		return p, false
	}
	target, err := filepath.EvalSymlinks(filepath.Join(sysfsRoot, "bus/pci/devices", p.Address))
	if err != nil {
		return p, false
	}
	parts := strings.Split(target, "/")
	bridge := slices.IndexFunc(parts, func(s string) bool {
		return strings.HasPrefix(s, "pci") && strings.Contains(s, ":")
	})
	if bridge < 0 {
		return p, false
	}
	p.path = parts[bridge:]
	node, err := strconv.Atoi(attribute(target, "numa_node"))
	_, several := os.Stat(filepath.Join(sysfsRoot, "devices/system/node/node1"))
	switch {
	case err == nil && node >= 0:
		p.NUMA = &node
	case several != nil: // firmware of hosts with one node often says -1
		p.NUMA = new(int)
	}
	return p, true
}

// Classes are the distances between two PCI devices, near ones first, in the words of nvidia-smi topo: behind one
// switch or bridge, behind several, by the host bridge, by the bridges of a NUMA node, between NUMA nodes.
var Classes = []string{"PIX", "PXB", "PHB", "NODE", "SYS"}

// Distance is one of Classes; "" where the NUMA nodes that decide are not known.
func Distance(a, b Place) string {
	same := 0
	for same < min(len(a.path), len(b.path)) && a.path[same] == b.path[same] {
		same++
	}
	far := max(len(a.path), len(b.path)) - same // devices on the way down from what both have above them
	switch {
	case same == 0 && (a.NUMA == nil || b.NUMA == nil):
		return ""
	case same == 0 && *a.NUMA != *b.NUMA:
		return "SYS"
	case same == 0:
		return "NODE"
	case same == 1 && far > 0:
		return "PHB"
	case far <= 2: // a port of a switch, and the device
		return "PIX"
	}
	return "PXB"
}

// Distances says how far a PCI device is from those of a host's NICs that are up and on the bus, by their names.
func Distances(sysfsRoot, address string, nics []NIC) map[string]string {
	from, ok := Locate(sysfsRoot, address)
	if !ok {
		return nil
	}
	list := map[string]string{}
	for _, n := range nics {
		if up := n.RDMA && n.State == "ACTIVE" || !n.RDMA && n.State == "up"; !up {
			continue
		}
		if to, ok := Locate(sysfsRoot, n.Bus); ok {
			if d := Distance(from, to); d != "" {
				list[n.Name] = d
			}
		}
	}
	return list
}

// Usable leaves those of Distances that UCX takes under a value of UCX_NET_DEVICES: those that it names, or all; of all
// the ports of RDMA adapters, if there are any.
func Usable(distances map[string]string, value string) map[string]string {
	asked := asksFor(value)
	rdma := slices.ContainsFunc(slices.Collect(maps.Keys(distances)), isPort)
	left := map[string]string{}
	for name, class := range distances {
		if asked == nil && (!rdma || isPort(name)) || slices.Contains(asked, name) {
			left[name] = class
		}
	}
	return left
}

func isPort(name string) bool { return strings.Contains(name, ":") }

// Nearest are the names of the least distance, sorted, and its class; "" where there are none.
func Nearest(distances map[string]string) (names []string, class string) {
	for _, class = range Classes {
		for name, c := range distances {
			if c == class {
				names = append(names, name)
			}
		}
		if names != nil {
			slices.Sort(names)
			return names, class
		}
	}
	return nil, ""
}
