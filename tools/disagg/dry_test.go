package disagg

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/config"
)

const toyText = `metadata: {model_name: toy, precision: fp8, supported_gpus: [LOCAL]}
slurm: {job_time: '00:10:00'}
benchmark: {concurrency_list: 1, multi_round: 8, input_length: 1, output_length: 1}
job: {nodes: 2, server: s, ready: y, client: z}
`

// A dry run has a line for each case, and writes scripts where it is told to; a key that is misspelt is named with what
// was meant, though it is missing, too. The options of pytest are taken.
func TestDryRun(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	must.Do(t, os.WriteFile(good, []byte(toyText), 0o600))
	must.Do(t, os.WriteFile(bad, []byte(strings.Replace(toyText, "concurrency_list", "concurency_list", 1)), 0o600))
	text, said, code := perigee(t, nil, "run", "--dry-run", "--gpu", "LOCAL", "-s", "-vv", good, bad)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if code != 3 || len(lines) != 2 || !strings.Contains(text, "disagg_perf_good: 2 nodes, 2 tasks, --time=00:10:00, template command\n") ||
		!strings.Contains(text, `disagg_perf_bad: not submitted: `+bad+`:3: benchmark.concurency_list`) || !strings.Contains(text, `did you mean "concurrency_list"?`) {
		t.Errorf("exit code %d\n%s%s", code, text, said)
	}
	if _, said, code := perigee(t, nil, "run", "--dry-run", "--gpu", "LOCAL", "-o", out, "-v", good); code != 0 || !strings.Contains(said, filepath.Join(out, dryFolder)) {
		t.Errorf("exit code %d\n%s", code, said)
	}
	folder := filepath.Join(out, dryFolder, "disagg_perf_good")
	for name, want := range map[string]string{"job.sh": "#!/bin/bash", "client.sh": "z", "effective.yaml": "concurrency_list"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "jobs.jsonl")); err == nil {
		t.Error("a dry run has begun a run")
	}
}

// Before anything is submitted all problems of the selected cases are said, once for all cases of a file.
func TestSayInvalid(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	must.Do(t, os.WriteFile(bad, []byte(strings.Replace(toyText, "concurrency_list", "concurency_list", 1)+"sweep: {benchmark.input_length: [1, 2]}\n"), 0o600))
	entries, err := config.Paths([]string{bad})
	must.Do(t, err)
	var said strings.Builder
	sayInvalid(&said, config.LoadAll(entries, config.Options{Rules: config.Strict, Env: func(string) string { return "" }}))
	if n := strings.Count(said.String(), "not submitted: "+bad+`:3: benchmark.concurency_list: `); n != 1 || !strings.Contains(said.String(), `did you mean "concurrency_list"?`) {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
}

// The keys at which two configurations differ are named.
func TestChangedKeys(t *testing.T) {
	first, later := t.TempDir(), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(first, "effective.yaml"), []byte(toyText), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(later, "effective.yaml"), []byte(strings.Replace(toyText, "server: s", "server: t, setup: u", 1)), 0o600))
	if got := changedKeys(first, later); got != " (job.server, job.setup)" {
		t.Error(got)
	}
	if got := changedKeys(first, first) + changedKeys(first, t.TempDir()); got != "" {
		t.Error(got)
	}
}
