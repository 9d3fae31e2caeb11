package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// run --last-failed runs what failed, until nothing has.
func TestLastFailed(t *testing.T) {
	fixed, out := filepath.Join(t.TempDir(), "fixed"), filepath.Join(t.TempDir(), "out")
	fakeSlurm(t, map[string]string{"a": "[ -e " + fixed + " ] || rm $d/6_bench.log", "c": "rm $d/6_bench.log"})
	files := cases(t, "a", "b", "c")
	if said, code := runCases(t, out, files, "--last-failed"); code != 3 || !strings.Contains(said, "there was no run in this folder") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	jobs := func() int {
		text, _ := os.ReadFile(filepath.Join(out, "jobs.txt"))
		return strings.Count(string(text), "\n")
	}
	if said, code := runCases(t, out, files); code != 12 || jobs() != 3 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	list, said, code := perigee(t, nil, append([]string{"list", "--last-failed", "--output", out}, files[:2]...)...)
	if code != 0 || !strings.Contains(list, "2 tests, 1 selected") || !strings.Contains(list, "deselected: --last-failed: it has not failed") ||
		!strings.Contains(said, "--last-failed: disagg_perf_c failed, and is not among the cases here") {
		t.Errorf("exit code %d\n%s%s", code, list, said)
	}
	must.Do(t, os.WriteFile(fixed, nil, 0o600))
	if said, code := runCases(t, out, files[:2], "--lf"); code != 0 || jobs() != 4 || !strings.Contains(said, "[SUCCESS] disagg_perf_a") {
		t.Errorf("exit code %d, %d jobs\n%s", code, jobs(), said)
	}
	if said, code := runCases(t, out, files[:2], "--last-failed"); code != 0 || jobs() != 4 || !strings.Contains(said, "nothing to run: none of these cases failed when it last ran\n") {
		t.Errorf("exit code %d, %d jobs\n%s", code, jobs(), said)
	}
	if said, code := runCases(t, out, files, "--last-failed", "-k", "nowhere"); code != 3 || !strings.Contains(said, "no test is selected (-k nowhere, --last-failed)") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if said, code := runCases(t, out, files, "--last-failed"); code != 12 || jobs() != 5 { // c, which no run was about since
		t.Errorf("exit code %d, %d jobs\n%s", code, jobs(), said)
	}
	if _, said, code := perigee(t, nil, "report", out, "--format", "text"); code != 0 || !strings.Contains(said, "warning: 2 of 4 runs of cases failed; the page and json say why: disagg_perf_a, disagg_perf_c\n") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if said, code := runCases(t, out, files, "--last-failed", "--resume"); code != 2 || !strings.Contains(said, "wanted one of them") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if _, said, code := perigee(t, nil, append([]string{"list", "--output", out}, files...)...); code != 2 || !strings.Contains(said, "--output: has no effect without --last-failed") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if list, said, code := perigee(t, nil, "run", "--last-failed", "--output", out, "--format", "json", files[1]); code != 0 || list != "[]\n" {
		t.Errorf("exit code %d, %s%s", code, list, said)
	}
}
