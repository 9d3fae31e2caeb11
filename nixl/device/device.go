// Package device is the hardware below a transfer: kinds of memory (Memory: host, GPU, file), GPUs and network
// interfaces.
//
// The CUDA driver is loaded at run time. GPUs are listed by NVML, those that a process may use by CUDA (Visible). A
// machine without either is an ordinary machine without GPUs.
package device

// GPU describes a GPU as the driver reports it.
type GPU struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
	UUID   string `json:"uuid"`
	PCI    string `json:"pci"` // bus id, as in 00000000:3B:00.0
}
