package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
)

func TestParseQueue(t *testing.T) {
	out := "12|RUNNING|node[1-2]|2026-01-14T02:03:04|2026-01-14T03:03:04|perigee-A|None|\n" +
		"13|PENDING||N/A|N/A||ReqNodeNotAvail, May be reserved for other job|(null)\nslurm: a warning\n" +
		"14_1|COMPLETED||||x|y|\n14_2|RUNNING||||x|y|\n14_[3-9]|PENDING||||x|y|\n15+0|CANCELLED||||x|y|\n15+1|CANCELLED||||x|y|\nx_1|RUNNING||||x|y|\n"
	at := time.Date(2026, 1, 14, 2, 3, 4, 0, time.Local)
	want := map[string]Job{
		"12": {ID: "12", State: "RUNNING", Nodes: "node[1-2]", Started: at, Ended: at.Add(time.Hour), Comment: "perigee-A", Reason: "None"},
		"13": {ID: "13", State: "PENDING", Reason: "ReqNodeNotAvail, May be reserved for other job"},
		"14": {ID: "14", State: "RUNNING", Comment: "x", Reason: "y"},
		"15": {ID: "15", State: "CANCELLED", Comment: "x", Reason: "y"},
	}
	must.Equal(t, want, parseQueue(bars(out)))
	odd := parseQueue(strings.Join([]string{"12", "RUNNING", "n", "N/A", "N/A", "team|/x|y", "None", "/a|b/job.sh x"}, separator) + "\n" + bars("13|RUNNING|n|N/A|N/A||None|/c/job.sh\n"))
	if odd["12"].Comment != "team|/x|y" || odd["12"].Reason != "None" || odd["12"].Command != "/a|b/job.sh x" || odd["13"].Command != "/c/job.sh" || odd["13"].Comment != "" {
		t.Errorf("%+v", odd)
	}
	for state, over := range map[string]bool{"RUNNING": false, "COMPLETING": false, "PENDING": false, "CANCELLED": true, "TIMEOUT": true, "NODE_FAIL": true, "": false} {
		if (Job{State: state}).Over() != over {
			t.Errorf("%s: over is %v", state, !over)
		}
	}
}

// What was done to an earlier attempt of a job does not count.
func TestParsePast(t *testing.T) {
	const began = "JobId=5 StartTime=2026-01-14T02:03:04 "
	for out, want := range map[string]Past{
		"": {}, began + "PreemptTime=None SuspendTime=None SecsPreSuspend=0": {}, began + "SuspendTime=2026-01-14T02:03:04": {Suspended: true},
		began + "PreemptTime=2026-01-14T02:03:05 SuspendTime=2026-01-14T02:03:03": {Preempted: true}, "PreemptTime=2026-01-14T02:03:03 StartTime=Unknown": {Preempted: true},
	} {
		if got := parsePast(out); got != want {
			t.Errorf("%s: %+v, want %+v", out, got, want)
		}
	}
}

// bars is an answer of squeue, written with bars between its fields.
func bars(text string) string { return strings.ReplaceAll(text, "|", separator) }

// What a wrapper has started ends when perigee gives it up.
func TestSlowWrapper(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "squeue"), []byte("#!/bin/bash\nsh -c 'sleep 1; touch "+dir+"/late'\necho\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, err := new(Queue).output(t.Context(), 200*time.Millisecond, "squeue"); err == nil {
		t.Error("no error of a command that does not answer")
	}
	time.Sleep(1500 * time.Millisecond)
	if _, err := os.Stat(filepath.Join(dir, "late")); err == nil {
		t.Error("what the command had started went on")
	}
}

// Ctrl-C on the terminal goes to the group of the process, and sbatch is in none of ours.
func TestCommandsHaveTheirGroup(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/bash\necho Submitted batch job $(cut -d' ' -f5 /proc/$$/stat)\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	group, err := new(Queue).Submit(t.Context(), nil)
	if err != nil || group == fmt.Sprint(syscall.Getpgrp()) {
		t.Errorf("sbatch is in group %q, %v", group, err)
	}
}

func FuzzParseQueue(f *testing.F) {
	f.Add(bars("12|RUNNING|n|N/A|N/A||None|\n"))
	f.Add(bars("7|PENDING||2026-01-14T02:03:04|N/A|perigee-X|a|b\n13|CANCELLED|n[1-2]|2026-01-14T02:03:04|2026-01-14T02:03:05|c||\nx|y\n"))
	fuzztest.Run(f, []string{"12", "7", separator, "PENDING", "RUNNING", "N/A", "2026-01-14T02:03:04", "n[1-2]", "None", "perigee-X", "\n", "x"}, func(t *testing.T, out string) {
		for id, j := range parseQueue(out) {
			if id == "" || j.ID != id {
				t.Fatalf("%q: %+v", id, j)
			}
		}
	})
}
