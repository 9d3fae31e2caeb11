package e2e

import (
	"fmt"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
)

// reports are n benchmark reports of one sweep.
func reports(t *testing.T, n int) string {
	t.Helper()
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("run%d/benchmark_report,_%d.json", i%20, i)] = fmt.Sprintf(`{"version": "0.1", "scenario": {"model": {"name": "m"}, "load": {"name": "vllm-benchmark", "args": {"max_concurrency": %d}},
 "host": {"type": ["replica"], "accelerator": [{"model": "g", "memory": 1, "count": 4, "parallelism": {"tp": 4}}]}},
 "metrics": {"time": {"duration": 1}, "requests": {"total": 10, "input_length": {"units": "count", "mean": 100}, "output_length": {"units": "count", "mean": 10}},
 "latency": {"time_to_first_token": {"units": "ms", "mean": 5}}, "throughput": {"total_tokens_per_sec": 1100, "output_tokens_per_sec": %d}}}`, i+1, 100+i)
	}
	return harness.Files(t, files)
}

// While many reports are read, a terminal shows how far that is, and nothing of it stays.
func TestSweepProgress(t *testing.T) {
	const n = 500
	dir := reports(t, n)
	args := []string{"sweep", "table", ".", "--columns", "Concurrency,Output_Token_Throughput", "--format", "csv"}
	plain := harness.MustRun(t, dir, args...)
	if lines := strings.Count(plain.Stdout, "\n"); lines != n+1 || strings.ContainsAny(plain.Stdout+plain.Stderr, "\r\x1b") {
		t.Fatalf("%d lines; stderr %q", lines, plain.Stderr)
	}
	for name, env := range map[string][]string{
		"colour":    {"TERM=xterm"},
		"no colour": {"TERM=xterm", "NO_COLOR=1"},
	} {
		t.Run(name, func(t *testing.T) {
			written := onTerminal(t, dir, env, args...)
			harness.Contains(t, "terminal", written, "reading reports", fmt.Sprintf(" / %d", n))
			if len(env) > 1 && strings.Contains(written, "\x1b[") {
				t.Error("escape sequences in spite of NO_COLOR")
			}
			seen := strings.Join(harness.Screen(written), "\n")
			if strings.Contains(seen, "reading reports") || !strings.Contains(seen, "Concurrency,Output_Token_Throughput") || !strings.Contains(seen, fmt.Sprintf("\n%d,", n)) {
				t.Errorf("on the screen in the end:\n%.300s", seen)
			}
		})
	}
}
