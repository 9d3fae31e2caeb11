package result

import (
	"fmt"
	"strconv"
	"strings"

	"perigee/internal/kit/size"
)

// Hardware lists the parts of a host, as its kernel says. What it does not say is empty.
type Hardware struct {
	CPU         string `json:"cpu,omitempty"`    // model name
	Kernel      string `json:"kernel,omitempty"` // name, release and machine: Linux 6.1.0 x86_64
	NUMANodes   int    `json:"numa_nodes,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	NICs        []NIC  `json:"nics,omitempty"` // those that are up or on a bus, and ports of RDMA adapters
	GPUs        []GPU  `json:"gpus,omitempty"`
}

// NIC is a network interface, or a port of an RDMA adapter.
type NIC struct {
	Name   string `json:"name"`             // eth0, or mlx5_0:1 for a port
	Kind   string `json:"kind"`             // ethernet, infiniband or other
	Mbps   int64  `json:"mbps,omitempty"`   // speed in 10^6 bits per second, 0 if unknown
	Driver string `json:"driver,omitempty"` // of the kernel
	PCI    string `json:"pci,omitempty"`    // address, if it is on the bus
	// NUMANode is nil where the firmware does not say.
	NUMANode *int `json:"numa_node,omitempty"`
}

// GPU is a GPU as its driver names it.
type GPU struct {
	Name        string `json:"name"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	UUID        string `json:"uuid,omitempty"`
	PCI         string `json:"pci,omitempty"` // address
	// NUMANode is nil where the firmware does not say.
	NUMANode *int `json:"numa_node,omitempty"`
	// NICs says how far those that are up are, by name: PIX, PXB, PHB, NODE or SYS, as nvidia-smi topo has it.
	NICs map[string]string `json:"nics,omitempty"`
}

// String is a line for people: equal lines mean equal hardware as far as it matters here.
func (h *Hardware) String() string {
	if h == nil {
		return "unknown"
	}
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	add(h.CPU)
	switch {
	case h.NUMANodes == 1:
		add("1 NUMA node")
	case h.NUMANodes > 1:
		add(fmt.Sprint(h.NUMANodes, " NUMA nodes"))
	}
	if h.MemoryBytes > 0 {
		add(size.Decimal(h.MemoryBytes))
	}
	add(h.Kernel)
	for _, n := range h.NICs {
		text := n.Name
		if n.Mbps > 0 {
			text += " " + strconv.FormatFloat(float64(n.Mbps)/1e3, 'g', -1, 64) + " Gb/s"
		}
		if n.Driver != "" {
			text += " (" + n.Driver + ")"
		}
		add(text)
	}
	var names []string
	count := map[string]int{}
	for _, g := range h.GPUs {
		if count[g.Name]++; count[g.Name] == 1 {
			names = append(names, g.Name)
		}
	}
	for _, name := range names {
		add(fmt.Sprintf("%d x %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}

// HostGroup is hosts with the same hardware.
type HostGroup struct {
	Hosts    []string
	Hardware string // as Hardware writes itself
}

// ByHardware groups the hosts whose hardware is known, in the order of their lowest ranks.
func (w World) ByHardware() (groups []HostGroup) {
	index := map[string]int{}
	for _, h := range w.Hosts {
		if h.Hardware == nil {
			continue
		}
		text := h.Hardware.String()
		i, there := index[text]
		if !there {
			i = len(groups)
			index[text] = i
			groups = append(groups, HostGroup{Hardware: text})
		}
		groups[i].Hosts = append(groups[i].Hosts, h.Name)
	}
	return groups
}
