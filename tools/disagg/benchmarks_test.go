package disagg

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/runs/runstest"
)

// Folders of what clients have written, which no batch has run, are judged, reported on and compared as batches are.
func TestFoldersOfBenchmarks(t *testing.T) {
	reports, err := filepath.Abs("../sweep/testdata/v02")
	must.Do(t, err)
	t.Chdir(t.TempDir())
	for side, tpot := range map[string]float64{"old": 10, "new": 9} {
		for _, name := range []string{"1p1d", "tp4"} {
			for repeat := range 4 {
				for _, c := range []int{1, 8} {
					path := filepath.Join(side, name, fmt.Sprintf("c%d_%d.json", c, repeat))
					runstest.VLLM(t, path, c, tpot+float64(repeat)/50)
				}
			}
		}
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"parse old", 0, "16 of 16 logs passed"},
		{"parse old/tp4 new", 0, "24 of 24 logs passed"},
		{"parse old --max-failed 5 --line 400Gbit", 0, "16 of 16 logs passed"},
		{"report --format text old", 0, "tp4                 8  SERVER_MEDIAN_E2EL               1050.97 "},
		{"report old -o p.html", 0, "0 cases, 56 figures; written to p.html"},
		{"compare old new", 0, "SERVER_MEDIAN_TPOT                10.03    9.03    0.900  "},
		{"compare new old", 13, "worse"},
		{"report .", 0, "0 cases, 112 figures"},
	} {
		out, errs, code := perigee(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	out, errs, code := perigee(t, nil, "parse", reports)
	if code != 12 || !strings.Contains(out, "2 of 3 logs passed") || !strings.Contains(out, "3 of 800 requests failed (0.375 %)") {
		t.Errorf("reports of llm-d: exit code %d\n%s%s", code, out, errs)
	}
	if _, errs, code := perigee(t, nil, "parse", reports, "--max-failed", "1"); code != 0 {
		t.Errorf("reports of llm-d: exit code %d, %s", code, errs)
	}
	for _, command := range []string{"parse", "report"} {
		if _, errs, code := perigee(t, nil, command, t.TempDir()); code != 3 {
			t.Errorf("%s of an empty folder: exit code %d, %s", command, code, errs)
		}
	}
}
