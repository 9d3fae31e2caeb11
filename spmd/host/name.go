package host

import (
	"os"
	"strings"
)

// Name is the name of this host, "unknown" where it has none.
func Name() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// Kernel names the kernel that runs, "" where it does not say: hosts that have the same one, such as containers, are
// one machine, and share its CPUs.
func Kernel() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
