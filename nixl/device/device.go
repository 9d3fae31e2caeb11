// Package device knows the hardware below a transfer: GPUs and their memory, and network
// interfaces.
//
// The CUDA driver is loaded at run time, and only when somebody allocates GPU memory; GPUs are
// listed by NVML. A machine without either is an ordinary machine without GPUs.
package device

// GPU is what the driver tells of a GPU.
type GPU struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
	UUID   string `json:"uuid"`
	PCI    string `json:"pci"` // bus id, as in 00000000:3B:00.0
}
