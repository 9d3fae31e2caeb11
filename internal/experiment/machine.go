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
// that holds proc and sys, so "/" but in tests. What the kernel does not say stays empty.
func readHardware(root string) *result.Hardware {
	h := &result.Hardware{
		CPU:         cpuModel(filepath.Join(root, "proc/cpuinfo")),
		Kernel:      kernel(),
		NUMANodes:   numaNodes(filepath.Join(root, "sys/devices/system/node")),
		MemoryBytes: totalMemory(filepath.Join(root, "proc/meminfo")),
	}
	nics, _ := device.NICs(filepath.Join(root, "sys"))
	for _, n := range nics {
		if n.Kind == "loopback" || n.Bus == "" && !n.RDMA && n.State != "up" || len(h.NICs) == mostNICs {
			continue
		}
		h.NICs = append(h.NICs, result.NIC{Name: n.Name, Kind: n.Kind, Mbps: n.Mbps, Driver: n.Driver})
	}
	gpus, _ := device.GPUs()
	for _, g := range gpus {
		h.GPUs = append(h.GPUs, result.GPU{Name: g.Name, MemoryBytes: int64(g.Memory)})
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
