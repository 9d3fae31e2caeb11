package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
)

// What the barriers before the runs of a sweep were like stands below its table, once.
func TestSweepTellsSkew(t *testing.T) {
	o := harness.MustRun(t, t.TempDir(), "run", "alltoall", "-n", "2", "--engine", "shm", "-b", "1K", "-e", "4K", "--iters", "20")
	if n := strings.Count(o.Stdout, "# barrier exit skew: median "); n != 1 || !regexp.MustCompile(`(?m)^ +4096 +8192 .*\n# barrier exit skew: .* over 60$`).MatchString(o.Stdout) {
		t.Errorf("%d lines of skew:\n%s", n, o.Stdout)
	}
}

// A bandwidth of files is not taken for one of memory.
func TestReportOfFiles(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "files"), 0o755))
	harness.MustRun(t, dir, "run", "kvbench", "-n", "2", "--engine", "shm", "--filepath", "files", "--backend", "POSIX", "--start_block_size", "64K",
		"--max_block_size", "64K", "--max_batch_size", "1", "--num_iter", "20", "--result", "r.json")
	for _, format := range []string{"text", "json"} {
		o := harness.MustRun(t, dir, "report", "--format", format, "r.json")
		if text := strings.Join(strings.Fields(o.Stdout), " "); !strings.Contains(text, "WRITE of files (POSIX AIO, new files, page cache) with blocks of 64 KiB") {
			t.Errorf("%s: %s", format, o.Stdout)
		}
	}
}
