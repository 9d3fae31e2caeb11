package device

// GPU describes a GPU as the driver reports it.
type GPU struct {
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
	UUID   string `json:"uuid"`
	PCI    string `json:"pci"` // bus id, as in 00000000:3B:00.0
}
