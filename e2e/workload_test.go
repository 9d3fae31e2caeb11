package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result/resulttest"
)

// What matgen made is named in the header, the result and the report; classes and their limits in the configuration
// become shares and samples of a threshold; a title goes along, and to a repetition.
func TestWhatWasMeasured(t *testing.T) {
	dir := t.TempDir()
	harness.MustRun(t, dir, "matgen", "generate", "--model", "llama3.1-8b", "--num-prefill-nodes", "1", "--num-decode-nodes", "1",
		"--ppn", "2", "--prefill-tp", "1", "--decode-tp", "2", "--num-user-requests", "3", "--scale", "1e-4", "--time-scale", "1e-6",
		"--results-dir", "w")
	path := filepath.Join(dir, "w/metadata.yaml")
	text := must.Read(t, path)
	edited := strings.Replace(string(text), "- matrix_file: matrix_1.txt\n", "- matrix_file: matrix_1.txt\n  class: chat\n  slo_ms: 60000\n", 1)
	rewrite := func(text string) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o666))
	}
	rewrite(edited)
	run := []string{"sequential-ct-perftest", "w/metadata.yaml", "--engine", "shm", "--iters", "2", "--isolation-iters", "2", "--title", "a title"}
	out := harness.MustRun(t, dir, append(run, "--result", "r.json", "--threshold", "slo_attainment.mean == 1")...).Stdout
	const want = "Llama 3.1 8B in bf16 (default), 2 prefill TP1 -> 1 decode TP2, 3 requests of 2384 to 27,993 tokens, bytes at 1/10,000"
	if !strings.HasPrefix(out, "# a title\n# perigee ") || !strings.Contains(out, "\n# workload: "+want+"\n") {
		t.Errorf("header:\n%s", out)
	}
	d := resulttest.Check(t, filepath.Join(dir, "r.json"))
	if !slices.Equal(d.What(), []string{"a title", want}) || d.Patterns[1].Terms().Class != "chat" {
		t.Errorf("result: %q, %v", d.What(), d.Patterns[1].Metadata)
	}
	if out := harness.MustRun(t, dir, "report", "--format", "json", "r.json").Stdout; !strings.Contains(out, `"slo_attainment": 1`) {
		t.Errorf("no attainment in the report:\n%.2000s", out)
	}
	if out := harness.MustRun(t, dir, "rerun", "r.json", "--result", "again.json").Stdout; !strings.HasPrefix(out, "# a title\n") {
		t.Errorf("repetition:\n%.500s", out)
	}
	rewrite(strings.Replace(edited, "slo_ms: 60000", "slo_ms: -1", 1))
	if out := harness.Run(t, dir, run...); out.Code != int(fault.Input) || !strings.Contains(out.Stderr, "slo_ms") {
		t.Errorf("slo_ms of -1: exit code %d, %s", out.Code, out.Stderr)
	}
}
