package simulate

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// resetPeak makes the kernel forget how much memory this process has used.
func resetPeak() {
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // where it cannot, the peak is that of all simulations
}

// peakMemory is the most resident memory that this process has used since
// resetPeak, in bytes, 0 if the kernel does not report it.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
