package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
)

// Scenarios and configurations are formed by any columns.
func TestGroups(t *testing.T) {
	for name, args := range map[string][]string{
		"grouped.txt": {"scenarios", "testdata/sweepA", "testdata/v02", "--group-by", "GPU,Is_PD", "--split-by", "OSL"},
		"split.txt": {"table", "testdata/sweepA", "testdata/v02", "--group-by", "Is_PD", "--scenario", "0", "--split-by", "GPU", "--where", "ISL <= 2000",
			"--columns", "Name,Concurrency,ISL,Thpt_per_GPU"},
	} {
		stdout, _ := mustSweep(t, args...)
		got := strings.ReplaceAll(stdout, here(t), "/data")
		if first, rest, ok := strings.Cut(got, ": "); ok && strings.HasPrefix(first, "# perigee") {
			got = rest
		}
		file := filepath.Join("testdata", "golden", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for want, args := range map[string][]string{
		`--group-by: there is no column "Modell"; did you mean "Model"?`: {"scenarios", "testdata/sweepA", "--group-by", "Modell"},
		"--split-by: tp is there twice":                                  {"plot", "testdata/sweepA", "-o", "x.png", "--split-by", "TP,tp"},
	} {
		if _, _, err := sweep(t, args...); err == nil || err.Error() != want || fault.KindOf(err) != fault.Usage {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}

// A folder as llm-d leaves it has nothing to complain of.
func TestStrictPassesHealthyFolders(t *testing.T) {
	stdout, stderr := mustSweep(t, "table", "../../internal/serving/runs/testdata/llmd", "--strict", "--columns", "Run,Failures", "--format", "csv")
	if strings.Count(stdout, "\n") != 7 || strings.Contains(stderr, "skipped") {
		t.Errorf("%s\n%s", stdout, stderr)
	}
	want := "_session_lifecycle_metrics.json.yaml: a report of whole sessions, not of requests; it makes no run (and 5 more)"
	if !strings.Contains(stderr, want) {
		t.Errorf("no note %q in\n%s", want, stderr)
	}
}
