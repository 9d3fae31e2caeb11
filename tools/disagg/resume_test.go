package disagg

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// What lies between two times is the same after they were written down and read.
func TestTimesOfOutcomes(t *testing.T) {
	now := time.Now()
	o := new(session).outcomeOf(&batch.Task{Config: &config.Config{}, Submitted: now})
	if o.Began != now.Round(0) || o.Ended != o.Ended.Round(0) {
		t.Errorf("with readings of the monotonic clock: %v, %v", o.Began, o.Ended)
	}
}

// A run that ends between the figures of a case and the ledger, as on a full disk, records the case once.
func TestResumeRecordsOnce(t *testing.T) {
	commands := t.TempDir()
	for name, text := range map[string]string{
		"squeue": `case "$*" in *--jobs=17*) echo "17|COMPLETED|node1|2026-01-01T00:00:00|N/A||None|" | tr '|' '\037';; esac`,
		"sbatch": "exit 1",
		"sacct":  "exit 1",
	} {
		must.Do(t, os.WriteFile(filepath.Join(commands, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	t.Setenv("PATH", commands+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		name, log string
		code      int
		folder    string
	}{
		{"passed", goodLog(), 0, "disagg_perf_effective"},
		{"failed", strings.Replace(goodLog(), "Total generated", "No", 1), 12, "disagg_perf_effective_ERROR"},
	} {
		from := caseFolder(t, c.log, true)
		out := filepath.Join(t.TempDir(), "out")
		config, result := filepath.Join(t.TempDir(), "effective.yaml"), filepath.Join(out, judge.LogsFolder, "disagg_perf_effective")
		must.Do(t, os.MkdirAll(filepath.Dir(result), 0o755), os.Rename(filepath.Join(from, "effective.yaml"), config), os.Rename(from, result))
		ledger := filepath.Join(out, "jobs.jsonl")
		events := `{"time":"2026-01-14T02:03:04.5Z","event":"began"}
{"time":"2026-01-14T02:03:04.5Z","event":"submitting","task":"disagg_perf_effective","dir":"` + result + `"}
{"time":"2026-01-14T02:03:04.5Z","event":"submitted","task":"disagg_perf_effective","job":"17"}
{"time":"2026-01-14T02:33:04.5Z","event":"ended","task":"disagg_perf_effective","job":"17"}
`
		var rows, verdict []byte
		for time := range 2 {
			must.Do(t, os.WriteFile(ledger, []byte(events), 0o600))
			_, said, code := perigee(t, map[string]string{"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a"}, "run", config, "--gpu", "GB200",
				"--output", out, "--settle", "0s", "--poll", "10ms", "--resume")
			if code != c.code {
				t.Fatalf("%s: exit code %d, want %d\n%s", c.name, code, c.code, said)
			}
			figures, err := os.ReadFile(filepath.Join(out, report.CSVName))
			if err != nil && c.code == 0 {
				t.Fatal(err)
			}
			judged, err := os.ReadFile(filepath.Join(out, judge.LogsFolder, c.folder, judge.CaseName))
			if err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, said)
			}
			if time == 1 && (!bytes.Equal(figures, rows) || !bytes.Equal(judged, verdict)) {
				t.Errorf("%s: again it has\n%s%s\nwant\n%s%s", c.name, figures, judged, rows, verdict)
			}
			rows, verdict = figures, judged
		}
		if text, err := os.ReadFile(ledger); err != nil || !bytes.Contains(text, []byte(`"recorded"`)) {
			t.Errorf("%s: %v, the ledger is\n%s", c.name, err, text)
		}
	}
}
