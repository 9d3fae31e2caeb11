package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// Inside one host there is a ceiling with either engine, and no line, whatever the user says.
func TestCeilingOfOneHost(t *testing.T) {
	for _, engine := range []string{"shm", "nixl"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "nixl" {
				harness.NeedNIXL(t)
			}
			dir := t.TempDir()
			job := []string{"run", "pingpong", "-n", "2", "--engine", engine, "--iters", "20", "--result", "r.json"}
			out := harness.MustRun(t, dir, append(job, "--ceiling", "--threshold", "pair_bw_gb_per_s.p50 > 0.001 * ceiling")...)
			harness.Contains(t, "stdout", out.Stdout, "# ceiling: ", "one message of 64 MiB from rank 0 to rank 1\n", "> 0.001 * ceiling (")
			if strings.Contains(out.Stdout, "# line:") {
				t.Errorf("a line inside one host:\n%s", out.Stdout)
			}
			d, err := result.Read(filepath.Join(dir, "r.json"))
			if err != nil || d.Line.Ceiling.Runs != 7 || d.Line.Rate != 0 || *d.Thresholds[0].Limit != 0.001*d.Line.Ceiling.Rate/1e9 {
				t.Errorf("%v: %+v", err, d.Line)
			}
			for limit, want := range map[string]string{"line": "the line is not known: all ranks are on one host", "ceiling": "the ceiling is not measured"} {
				out := harness.Run(t, dir, append(job, "--threshold", "pair_bw_gb_per_s.p50 > "+limit)...)
				if out.Code != int(fault.Usage) {
					t.Errorf("%s: exit code %d", limit, out.Code)
				}
				harness.Contains(t, "stderr", out.Stderr, want, "hint: ", "--ceiling")
			}
			out = harness.MustRun(t, dir, append(job, "--line", "1GB/s")...)
			harness.Contains(t, "stdout", out.Stdout, "# WARNING: --line 1GB/s is without effect: all ranks are on one host\n")
			if strings.Contains(out.Stdout, "# line:") {
				t.Errorf("a line inside one host:\n%s", out.Stdout)
			}
		})
	}
}
