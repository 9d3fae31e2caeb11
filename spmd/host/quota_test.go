package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestCPUQuotaOfFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string // below the root; without proc/self/cgroup there are no cgroups
		want  int
	}{
		"no cgroup":         {nil, 0},
		"version 2":         {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1500},
		"without a link":    {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 500},
		"no limit":          {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0},
		"of an ancestor":    {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "25000 50000\n"}, 500},
		"in a container":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2000},
		"path of the host":  {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 500},
		"version 1":         {map[string]string{"proc/self/cgroup": "9:cpuset:/y\n1:cpu:/x\n0::/\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n"}, 3000},
		"none of version 1": {map[string]string{"proc/self/cgroup": "1:cpu:/x\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n"}, 0},
		"nonsense":          {map[string]string{"proc/self/cgroup": "0::/a\nx\n", "sys/fs/cgroup/a/cpu.max": "NaN 0\n"}, 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(root, file)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		}
		if got := CPUQuota(root); got.MilliCPUs != c.want || (got.Group != 0) != (c.want != 0) {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// inGroup makes this test print the quota of its process.
const inGroup = "PERIGEE_TEST_PRINTS_QUOTA"

// The kernel's own files say the same, where this machine lets a test make a cgroup: version 1, or 2 with the
// controller cpu. Elsewhere the files above are what is tested.
func TestCPUQuotaOfTheKernel(t *testing.T) {
	if os.Getenv(inGroup) != "" {
		fmt.Println("quota", CPUQuota("/").MilliCPUs)
		return
	}
	for top, limits := range map[string]map[string]string{
		"/sys/fs/cgroup/cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "70000"},
		"/sys/fs/cgroup":     {"cpu.max": "70000 100000"},
	} {
		group := filepath.Join(top, fmt.Sprintf("perigee-test-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(group) })
		if _, err := os.Stat(filepath.Join(group, "cgroup.procs")); err != nil {
			continue // a folder of a tmpfs
		}
		limited := true
		for name, text := range limits {
			limited = limited && os.WriteFile(filepath.Join(group, name), []byte(text), 0o644) == nil
		}
		if !limited {
			continue
		}
		child := exec.Command("sh", "-c", "echo $$ > "+group+`/cgroup.procs && exec "$0" -test.run=^TestCPUQuotaOfTheKernel$`, os.Args[0])
		child.Env = append(os.Environ(), inGroup+"=1")
		if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "quota 700\n") {
			t.Errorf("%s: %v\n%s", group, err, out)
		} else {
			t.Logf("tried in %s", group)
		}
	}
}
