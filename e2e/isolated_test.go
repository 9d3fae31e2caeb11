package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// A workload has one isolated latency and one slowdown wherever they appear: in the printed table, the result, its
// summary, its conversion, the report and thresholds.
func TestOneIsolatedLatency(t *testing.T) {
	dir := harness.Files(t, map[string]string{
		"c.yaml": "iters: 5\nisolation_iters: 4\nwarmup_iters: 1\ntraffic_patterns:\n" +
			"- {matrix_file: a.txt, mem_type: dram}\n- {matrix_file: b.txt, mem_type: dram, xfer_op: READ}\n",
		"a.txt": "0 1M 0\n0 0 0\n0 0 0\n", "b.txt": "0 0 3M\n0 0 1M\n0 0 0\n",
	})
	limit := func(metric string, pattern int) string {
		return fmt.Sprintf("%s{pattern=%d}.median > 0", metric, pattern)
	}
	args := []string{"sequential-ct-perftest", "c.yaml", "--engine", "shm", "--result", "r.json"}
	for p := range 2 {
		args = append(args, "--threshold", limit("isolated_latency_ms", p), "--threshold", limit("latency_ms", p))
	}
	out := harness.MustRun(t, dir, args...)
	table := readTable(t, out.Stdout, "Transfer size (GB)", "Latency (ms)", "Isolated Latency (ms)", "Num Senders", "Mean BW (GB/s)")
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	must.Do(t, err)
	shown := harness.MustRun(t, dir, "result", "show", "r.json").Stdout
	converted, err := csv.NewReader(strings.NewReader(
		harness.MustRun(t, dir, "result", "convert", "r.json", "-", "--format", "csv", "--rows", "pattern").Stdout)).ReadAll()
	must.Do(t, err)
	var reports struct {
		Results []struct {
			Patterns []struct {
				IsolatedNS float64 `json:"isolated_ns"`
				LatencyNS  float64 `json:"latency_ns"`
				Slowdown   float64 `json:"slowdown"`
			} `json:"patterns"`
		} `json:"results"`
	}
	must.Do(t, json.Unmarshal([]byte(harness.MustRun(t, dir, "report", "--format", "json", "r.json").Stdout), &reports))
	report := reports.Results[0]
	for p := range 2 {
		f := doc.Patterns[p].PatternFigures
		if math.Abs(*f.Slowdown - *f.LatencyMS / *f.IsolatedLatencyMS) > 1e-9 {
			t.Errorf("pattern %d: the slowdown %v is not %v / %v", p, *f.Slowdown, *f.LatencyMS, *f.IsolatedLatencyMS)
		}
		for phase, want := range map[string]float64{"isolated": *f.IsolatedLatencyMS, "workload": *f.LatencyMS} {
			name, column, reported := "latency_ms", 1, report.Patterns[p].LatencyNS
			if phase == "isolated" {
				name, column, reported = "isolated_latency_ms", 2, report.Patterns[p].IsolatedNS
			}
			same := func(where, text string, digits float64) {
				t.Helper()
				if got, err := strconv.ParseFloat(text, 64); err != nil || math.Abs(got-want) > digits {
					t.Errorf("pattern %d, %s: %s has %s, the result %v", p, name, where, text, want)
				}
			}
			same("the table", table[p][column], 0.0005000001)
			row := regexp.MustCompile(fmt.Sprintf(`(?m)^ +%d +pattern .* %s +\d+ +\S+ +(\S+)`, p, phase)).FindStringSubmatch(shown)
			if row == nil {
				t.Fatalf("no row of pattern %d, %s:\n%s", p, phase, shown)
			}
			same("result show", row[1], want*1e-5)
			for _, line := range converted[1:] {
				if line[0] == strconv.Itoa(p) && line[2] == phase {
					same("result convert", line[6], want*1e-12)
				}
			}
			same("report", strconv.FormatFloat(reported/1e6, 'g', -1, 64), want*1e-12)
			for _, l := range doc.Thresholds {
				if l.Threshold == limit(name, p) {
					same("the threshold", strconv.FormatFloat(*l.Value, 'g', -1, 64), want*1e-12)
				}
			}
		}
		if got := report.Patterns[p].Slowdown; math.Abs(got-*f.Slowdown) > 1e-9 {
			t.Errorf("pattern %d: the report's slowdown is %v, the result's %v", p, got, *f.Slowdown)
		}
	}
	if got := converted[0][6]; got != "median_latency_ms" {
		t.Errorf("column 6 is %s", got)
	}
}
