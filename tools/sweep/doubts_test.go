package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// doubtfulSweep has an honest run, one of which most requests failed, and one whose throughput its tokens deny.
func doubtfulSweep(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/sweepA/pd_4P_TP1_1D_TP4/benchmark_report,_c8.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, change := range map[string][]string{
		"good":     nil,
		"failing":  {"failures: 0", "failures: 480", "output_tokens_per_sec: 720", "output_tokens_per_sec: 2000", "tp: 1", "tp: 2"},
		"contrary": {"output_tokens_per_sec: 720", "output_tokens_per_sec: 56000", "tp: 1", "tp: 8"},
	} {
		out := strings.NewReplacer(change...).Replace(string(text))
		if (out == string(text)) != (change == nil) {
			t.Fatalf("%s is unchanged", name)
		}
		if err := os.MkdirAll(filepath.Join(dir, name, "run"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "run", "benchmark_report,_x.yaml"), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Runs that measured nothing stay in the table and the picture, are named with the reason, and are on no front.
func TestDoubtfulRuns(t *testing.T) {
	dir := doubtfulSweep(t)
	const failed = "480 of 500 requests failed (96 %), more than 0 %"
	const denied = "50000 tokens in 60 s are 833.3 tok/s, the report says 56000 tok/s"
	for _, c := range []struct {
		flags []string
		front string
		off   map[string]string // first reasons, by the folder
	}{
		{nil, "1 on the Pareto front, 2 kept off it", map[string]string{"failing": failed, "contrary": denied}},
		{[]string{"--max-failed", "96"}, "1 on the Pareto front, 2 kept off it", map[string]string{"failing": "2000 tokens in 60 s are 33.33 tok/s", "contrary": denied}},
		{[]string{"--allow-implausible"}, "1 on the Pareto front, 1 kept off it", map[string]string{"failing": failed}},
		{[]string{"--allow-implausible", "--max-failed", "96"}, "1 on the Pareto front;", nil},
	} {
		stdout, stderr := mustSweep(t, append([]string{"plot", dir, "-o", filepath.Join(t.TempDir(), "x.svg")}, c.flags...)...)
		if !strings.Contains(stdout, "3 runs of 3 configurations, "+c.front) {
			t.Errorf("%q: %s", c.flags, stdout)
		}
		if n := strings.Count(stderr, "kept off the Pareto front"); n != len(c.off) {
			t.Errorf("%q: %d runs are named:\n%s", c.flags, n, stderr)
		}
		out, _ := mustSweep(t, append([]string{"table", dir, "--format", "json"}, c.flags...)...)
		var rows []map[string]any
		if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 3 {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, row := range rows {
			folder := filepath.Base(row["Directory"].(string))
			why, _ := row["Off_Front"].(string)
			if want := c.off[folder]; !strings.HasPrefix(why, want) || want == "" && why != "" {
				t.Errorf("%q: %s is off for %q, want %q", c.flags, folder, why, want)
			}
			if _, shown := row["Off_Front"]; shown != (c.off != nil) {
				t.Errorf("%q: the column is shown: %v", c.flags, shown)
			}
			if want := map[string]float64{"good": 500, "contrary": 500, "failing": 20}[folder]; row["Completed"] != want {
				t.Errorf("%s: %v completed, want %v", folder, row["Completed"], want)
			}
		}
	}
	// Each note names the options that help, and no others.
	_, said := mustSweep(t, "table", dir, "--columns", "Name")
	for folder, options := range map[string]string{"contrary": "--allow-implausible", "failing": "--max-failed, --allow-implausible"} {
		if want := folder + "/run/benchmark_report,_x.yaml: kept off the Pareto front (" + options + "): "; !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	svg := filepath.Join(t.TempDir(), "x.svg")
	mustSweep(t, "plot", dir, "-o", svg)
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	if words := svgWords(t, text); !strings.Contains(words, "kept off the Pareto front:") || !strings.Contains(words, "480 of 500 requests failed") {
		t.Errorf("the picture does not say why:\n%s", words)
	}
	// Conditions see the marks, in commands that have no front, too.
	out, said := mustSweep(t, "scenarios", dir, "--where", "Off_Front == null", "--format", "csv")
	if !strings.HasSuffix(out, ",1,1\n") || strings.Contains(said, "Pareto") {
		t.Errorf("%s%s", out, said)
	}
	for _, args := range [][]string{{"table", dir, "--max-failed", "101"}, {"report", dir, "--max-failed=-1"}, {"plot", dir, "-o", svg, "--max-failed", "nan"}} {
		if _, _, err := sweep(t, args...); err == nil || !strings.Contains(err.Error(), "--max-failed: wanted a number from 0 to 100, got ") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, _, err := sweep(t, "scenarios", dir, "--max-failed", "5"); err == nil {
		t.Error("an option without effect is taken")
	}
}

// Of many doubtful runs the first are named, and the others counted.
func TestManyDoubtfulRuns(t *testing.T) {
	_, stderr := mustSweep(t, "table", "testdata/sweepA", "--columns", "Name")
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(s string) bool { return !strings.Contains(s, "kept off") })
	if len(lines) != 4 || lines[3] != "note: 9 more runs kept off the Pareto front; the column Off_Front says why" {
		t.Errorf("%q", lines)
	}
}

// Measured concurrencies are short for people, and whole in CSV; a condition that keeps nothing, and options that a
// single table does not use, are named.
func TestForPeople(t *testing.T) {
	text, err := os.ReadFile("testdata/sweepA/pd_4P_TP1_1D_TP4/benchmark_report,_c8.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "benchmark_report,_x.yaml")
	const long = "7.823481157476992"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "max_concurrency: 8", "max_concurrency: "+long, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"text": "7.823\n", "csv": long} {
		if out, _ := mustSweep(t, "table", file, "--columns", "Name,Concurrency", "--format", format); !strings.Contains(out, want) {
			t.Errorf("%s: %q is missing in\n%s", format, want, out)
		}
	}
	svg := filepath.Join(t.TempDir(), "x.svg")
	mustSweep(t, "plot", file, "-o", svg)
	if text, err = os.ReadFile(svg); err != nil || strings.Contains(string(text), long) || !strings.Contains(string(text), "7.823") {
		t.Errorf("%v, %s", err, svgWords(t, text))
	}
	out, said := mustSweep(t, "table", file, "--where", "TP == 99", "--split-by", "Start")
	if strings.Contains(out, "1 for all engines") || !strings.Contains(said, "--where keeps none of 1 run\n") ||
		!strings.Contains(said, "no effect on a single table") {
		t.Errorf("%s%s", out, said)
	}
}

// Times in seconds that are called ms, and fewer tokens than answers, are on no front, however well they do.
func TestImpossibleRunsAreOnNoFront(t *testing.T) {
	const slow = "500 requests, 8 at a time, take at most 0.0699 s by their E2EL, the report says 68.5 s (Little's law)"
	const empty = "500 requests were answered with 15 tokens, less than one each"
	dir := t.TempDir()
	for name, change := range map[string][]string{
		"seconds/benchmark_report_seconds.yaml": nil,
		"honest/benchmark_report_honest.yaml":   nil,
		"honest/benchmark_report_empty.yaml": {"output_length: {units: count, mean: 100}", "output_length: {units: count, mean: 0.03}",
			"output_tokens_per_sec: 729.927", "output_tokens_per_sec: 0.219"},
		"seconds/benchmark_report_open.yaml": {"request_rate: inf", "request_rate: 7.3"},
	} {
		source := map[bool]string{true: name, false: strings.NewReplacer("empty", "honest", "open", "seconds").Replace(name)}[change == nil]
		text, err := os.ReadFile(filepath.Join("../../internal/serving/runs/testdata/laws", source))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(strings.NewReplacer(change...).Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := mustSweep(t, "table", dir, "--format", "json", "--columns", "File,Off_Front")
	var rows []map[string]string
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range rows {
		want := map[string]string{"benchmark_report_seconds.yaml": slow, "benchmark_report_empty.yaml": empty}[filepath.Base(row["File"])]
		if !strings.HasPrefix(row["Off_Front"], want) || want == "" && row["Off_Front"] != "" {
			t.Errorf("%s is off for %q, want %q", row["File"], row["Off_Front"], want)
		}
	}
}
