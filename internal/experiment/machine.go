package experiment

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/result"
	"perigee/nixl/device"
)

// mostNICs bounds how many network interfaces are described: hosts of containers have hundreds.
const mostNICs = 32

// readHardware describes the machine that this rank runs on, since a figure means little without it. root is the folder
// that holds proc and sys, so "/" but in tests; gpus are those that NVML lists. What the kernel does not say stays
// empty.
func readHardware(root string, gpus []device.GPU) *result.Hardware {
	sys := filepath.Join(root, "sys")
	h := &result.Hardware{
		CPU:         cpuModel(filepath.Join(root, "proc/cpuinfo")),
		Kernel:      kernel(),
		NUMANodes:   numaNodes(filepath.Join(root, "sys/devices/system/node")),
		MemoryBytes: totalMemory(filepath.Join(root, "proc/meminfo")),
	}
	nics, _ := device.NICs(sys)
	for _, n := range nics {
		if n.Kind == "loopback" || n.Bus == "" && !n.RDMA && n.State != "up" || len(h.NICs) == mostNICs {
			continue
		}
		place, _ := device.Locate(sys, n.Bus)
		h.NICs = append(h.NICs, result.NIC{Name: n.Name, Kind: n.Kind, Mbps: n.Mbps, Driver: n.Driver, PCI: n.Bus,
			NUMANode: place.NUMA})
	}
	for _, g := range gpus {
		place, _ := device.Locate(sys, g.PCI)
		h.GPUs = append(h.GPUs, result.GPU{Name: g.Name, MemoryBytes: int64(g.Memory), UUID: g.UUID, PCI: place.Address,
			NUMANode: place.NUMA, NICs: device.Distances(sys, g.PCI, nics)})
	}
	return h
}

// cpuModel is the CPU's name. Kernels of other processors than x86 have other keys.
func cpuModel(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); ok && fields[key] == "" {
			fields[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	for _, key := range []string{"model name", "cpu model", "cpu", "Processor"} {
		if fields[key] != "" {
			return fields[key]
		}
	}
	if part := fields["CPU part"]; part != "" { // of ARM, where lscpu has a table of names
		return "ARM implementer " + fields["CPU implementer"] + " part " + part
	}
	return ""
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

var nodeName = regexp.MustCompile(`^node[0-9]+$`)

func numaNodes(folder string) (n int) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if nodeName.MatchString(e.Name()) {
			n++
		}
	}
	return n
}

// totalMemory is the line MemTotal of /proc/meminfo, in bytes.
func totalMemory(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
