package host

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/memory"
)

// Quota limits the CPU time of the processes of a cgroup together, as containers do (limits.cpu of Kubernetes, --cpus
// of Docker).
type Quota struct {
	MilliCPUs int // thousandths of a CPU; 0 without a limit
	Group     int // equal for the processes that share it
}

// CPUQuota returns the tightest quota of this process's cgroup and those above it, of version 1 or 2. root is the
// folder that holds proc and sys, so "/" but in tests.
func CPUQuota(root string) (tightest Quota) {
	for _, folder := range memory.Cgroups(root, "cpu") {
		quota := quotaIn(folder)
		var info unix.Stat_t
		if quota > 0 && (tightest.MilliCPUs == 0 || quota < tightest.MilliCPUs) && unix.Stat(folder, &info) == nil {
			tightest = Quota{quota, int(info.Ino & math.MaxInt32)}
		}
	}
	return tightest
}

// quotaIn returns the quota of one cgroup in thousandths of a CPU, 0 if it has none: cpu.max of version 2 has it with
// its period, or max, and version 1 has two files, and -1 for none.
func quotaIn(folder string) int {
	words := strings.Fields(text(folder, "cpu.max"))
	if len(words) != 2 {
		words = strings.Fields(text(folder, "cpu.cfs_quota_us") + " " + text(folder, "cpu.cfs_period_us"))
	}
	if len(words) != 2 {
		return 0
	}
	quota, err := strconv.ParseFloat(words[0], 64)
	period, failed := strconv.ParseFloat(words[1], 64)
	const most = 1 << 20 // CPUs; a quota beyond is none
	if err != nil || failed != nil || !(quota > 0 && period > 0 && quota/period < most) {
		return 0
	}
	return max(1, int(math.Round(1000*quota/period)))
}

func text(folder, name string) string {
	data, _ := os.ReadFile(filepath.Join(folder, name)) // a file that is not there says nothing
	return string(data)
}
