package memory

import (
	"os"
	"path/filepath"
	"testing"

	"perigee/internal/kit/must"
)

func TestAvailable(t *testing.T) {
	const kib = "MemTotal: 100 kB\nMemAvailable:   50 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no cgroup", map[string]string{"proc/meminfo": kib}, 50 << 10},
		{"version 1, no files", map[string]string{"proc/meminfo": kib, "proc/self/cgroup": "5:memory:/a\n"}, 50 << 10},
		{"version 1, no limit", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "5:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "9\n",
		}, 50 << 10},
		{"version 1", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "0::/x\n5:hugetlb,memory:/a/b\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "500\n", "sys/fs/cgroup/memory/a/memory.stat": "active_file 7\ntotal_active_file 100\n",
		}, 600},
		{"version 1 in a container", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "5:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "300\n",
		}, 700},
		{"no limit", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "9\n",
		}, 50 << 10},
		{"limit", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "3:cpu:/x\n0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.current": "400\n",
		}, 600},
		{"files can be dropped", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "900\n",
			"sys/fs/cgroup/memory.stat": "anon 100\nactive_file 300\ninactive_file 350\n",
		}, 750},
		{"the parent is tighter", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/b/memory.current": "400\n",
			"sys/fs/cgroup/a/memory.max": "500\n", "sys/fs/cgroup/a/memory.current": "450\n",
		}, 50},
		{"above the limit", map[string]string{
			"proc/meminfo": kib, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "10\n", "sys/fs/cgroup/a/memory.current": "11\n",
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(root, name)
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.Do(t, os.WriteFile(path, []byte(text), 0o644))
			}
			if got, err := Available(root); err != nil || got != c.want {
				t.Errorf("got %d, %v; want %d", got, err, c.want)
			}
		})
	}
	for _, text := range []string{"", "MemAvailable:\n", "MemAvailable: many kB\n"} {
		root := t.TempDir()
		must.Do(t, os.MkdirAll(root+"/proc", 0o755))
		must.Do(t, os.WriteFile(root+"/proc/meminfo", []byte(text), 0o644))
		if n, err := Available(root); err == nil {
			t.Errorf("%q: got %d bytes, want an error", text, n)
		}
	}
	if n, err := Available("/"); err != nil || n < 1<<20 {
		t.Errorf("this machine: %d bytes, %v", n, err)
	}
}

// What may be taken at once is four fifths of what is available, where no limit leaves less.
func TestRoom(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemAvailable: 50 kB\n"), 0o644))
	if got, command := Room(root); got != 40<<10 || command != "" {
		t.Errorf("%d bytes, %q", got, command)
	}
}
