package load

import (
	"os"
	"path/filepath"
	"testing"
)

// Files that may take much memory are read one at a time.
func TestLargeFiles(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, c := range map[string]struct {
		bytes int
		want  bool
	}{
		"benchmark_report.yaml":  {64 << 10, false},
		"benchmark_report2.json": {64<<10 + 1, true},
		"r.json.zst":             {10, true},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, c.bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (found{root: root, name: name}).large(); got != c.want {
			t.Errorf("%s of %d bytes: %v", name, c.bytes, got)
		}
	}
	if (found{root: root, name: "benchmark_report3.yaml"}).large() {
		t.Error("a file that is not there")
	}
}
