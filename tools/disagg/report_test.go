package disagg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// runFolder makes the output folder of four runs of a case, with a figure in each.
func runFolder(t *testing.T, metric string, value float64, input int) string {
	t.Helper()
	return folderOf(t, metric, value, input, judge.Passed)
}

// folderOf makes the same of runs of any state; failed ones have levels, and no rows.
func folderOf(t *testing.T, metric string, value float64, input int, state string) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 4 {
		start := time.Date(2026, 1, 2, 3, i, 0, 0, time.UTC)
		row := report.Row{Test: "t[a]", Concurrency: 4, Metric: metric, Value: value + float64(i), Start: start, End: start.Add(time.Minute + time.Duration(i)*time.Microsecond)}
		if state == judge.Passed {
			must.Do(t, report.AppendCSV(filepath.Join(dir, report.CSVName), []report.Row{row}))
		}
		sub := filepath.Join(dir, "slurm_logs", fmt.Sprint("a", i))
		must.Do(t, os.MkdirAll(sub, 0o755))
		text := fmt.Sprintf(`{"id": "a", "input_length": %d, "submitted": %q, "state": %q, "levels": [{"concurrency": 4, "complete": true, "metrics": {"SERVER_MEDIAN_TPOT": %g}, "output_tok_s": 100}], "reasons": [%s]}`,
			input, start.Format(time.RFC3339), state, value+float64(i), map[string]string{judge.Failed: `"it lies"`}[state])
		must.Do(t, os.WriteFile(filepath.Join(sub, judge.CaseName), []byte(text), 0o600))
	}
	return dir
}

// Other files among the folders of cases, such as a user's notes, are no cases.
func TestFilesAmongCases(t *testing.T) {
	dir := runFolder(t, "SERVER_MEDIAN_TTFT", 100, 1024)
	other := runFolder(t, "SERVER_MEDIAN_TTFT", 101, 1024)
	must.Do(t, os.WriteFile(filepath.Join(dir, "slurm_logs", "notes.txt"), nil, 0o600))
	for _, args := range [][]string{{"report", "--format", "text", dir}, {"compare", dir, other}} {
		if out, said, code := perigee(t, nil, args...); code != 0 {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, said)
		}
	}
}

// Cases without figures are compared by how they ended.
func TestCompareWithoutFigures(t *testing.T) {
	passed, failed := runFolder(t, "SERVER_MEDIAN_TTFT", 100, 1024), folderOf(t, "SERVER_MEDIAN_TTFT", 100, 1024, judge.Failed)
	must.Do(t, os.Remove(filepath.Join(passed, report.CSVName)))
	for _, c := range []struct {
		old, fresh string
		code       int
	}{{passed, failed, 13}, {failed, passed, 0}} {
		if out, said, code := perigee(t, nil, "compare", c.old, c.fresh); code != c.code || c.code == 13 && !strings.Contains(out, "Passed in OLD and fail in NEW: a") {
			t.Errorf("exit code %d, want %d: %s%s", code, c.code, out, said)
		}
	}
}

// A table that was put aside and the output folder that has gone on since have runs in common, which count once.
func TestCompareGrownFolder(t *testing.T) {
	out, later := runFolder(t, "SERVER_MEDIAN_TTFT", 100, 1024), runFolder(t, "SERVER_MEDIAN_TTFT", 150, 1024)
	table := filepath.Join(out, report.CSVName)
	data, err := os.ReadFile(table)
	more, err2 := os.ReadFile(filepath.Join(later, report.CSVName))
	_, rows, _ := strings.Cut(strings.ReplaceAll(string(more), "2026-01-02", "2026-01-03"), "\n")
	base := filepath.Join(t.TempDir(), "base.csv")
	must.Do(t, err, err2, os.WriteFile(base, data, 0o644), os.WriteFile(table, append(data, rows...), 0o644))
	list, said, code := perigee(t, nil, "compare", base, out)
	if code != 13 || !strings.Contains(list, "worse") || !strings.Contains(said, "4 runs of "+out+" stand in "+base) {
		t.Errorf("exit code %d, %s%s", code, list, said)
	}
	// What did not pass, says the column state.
	must.Do(t, os.WriteFile(table, []byte(strings.Replace(string(data), ",valid,", ",failed,", 1)), 0o644))
	if list, said, code := perigee(t, nil, "report", table, "--format", "json"); code != 0 || !strings.Contains(list, `"runs": 3`) || !strings.Contains(said, "1 figure of runs that failed or were invalid") {
		t.Errorf("exit code %d, %s%s", code, list, said)
	}
}

func TestCompareDirections(t *testing.T) {
	old, fresh := runFolder(t, "KV_HITS", 100, 1024), runFolder(t, "KV_HITS", 200, 1024)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 0, "--better NAME=higher"},
		{[]string{"--fail-on", "any"}, 13, "0 figures worse, 0 better, 1 different"},
		{[]string{"--better", "KV_HITS=higher"}, 0, "better"},
		{[]string{"--better", "KV_HITS=lower"}, 13, "worse"},
		{[]string{"--better", "KV_HITS=up"}, 2, "wanted KV_HITS=lower or KV_HITS=higher"},
		{[]string{"--better", "HITS=lower"}, 2, "there is no metric HITS"},
	} {
		out, said, code := perigee(t, nil, append([]string{"compare", old, fresh}, c.args...)...)
		if code != c.code || !strings.Contains(out+said, c.want) || strings.Contains(said, "warning") {
			t.Errorf("%q: exit code %d, %s%s", c.args, code, out, said)
		}
	}
}

// Runs of one case that did not do the same are named.
func TestMixtures(t *testing.T) {
	old, fresh := runFolder(t, "SERVER_MEDIAN_TTFT", 100, 1024), runFolder(t, "SERVER_MEDIAN_TTFT", 800, 8192)
	const want = "warning: a: input_length is 1024 in some runs and 8192 in others; their figures are taken together\n"
	for _, args := range [][]string{{"compare", "--fail-on", "none", old, fresh}, {"report", "--format", "json", old, fresh}} {
		out, said, code := perigee(t, nil, args...)
		if code != 0 || said != want || args[0] == "report" && strings.Count(out, "and 8192 in others, and their") != 4 {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, said)
		}
	}
}

// A case of which all runs fail has no figures, and is worse all the same.
func TestCompareFailingCases(t *testing.T) {
	good, bad := runFolder(t, "SERVER_MEDIAN_TTFT", 100, 1024), folderOf(t, "SERVER_MEDIAN_TTFT", 100, 1024, judge.Failed)
	for _, c := range []struct {
		old, fresh, failOn string
		code               int
		out, said          string
	}{
		{good, bad, "worse", 13, "Passed in OLD and fail in NEW: a\n", "0 figures worse, 0 better; passed in OLD and fail in NEW: a"},
		{good, bad, "none", 0, "Passed in OLD and fail in NEW: a\n", ""},
		{bad, good, "worse", 0, "", ""},
		{bad, good, "any", 13, "", "failed in OLD and pass in NEW: a"},
		{good, good, "any", 3, "", "stands in " + good + ", too: there is nothing to compare"},
		{filepath.Join(good, report.CSVName), bad, "worse", 13, "Passed in OLD and fail in NEW: a\n", "passed in OLD and fail in NEW: a"},
	} {
		out, said, code := perigee(t, nil, "compare", "--fail-on", c.failOn, c.old, c.fresh)
		if code != c.code || !strings.Contains(out, c.out) || c.out == "" && strings.Contains(out, "Passed") || !strings.Contains(said, c.said) || c.said == "" && said != "" {
			t.Errorf("%+v: exit code %d, %s%s", c, code, out, said)
		}
	}
}
