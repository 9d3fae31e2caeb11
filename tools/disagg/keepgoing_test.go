package disagg

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

// jobFolder runs the script of a case as a run would submit it, as job 7 on this machine, and returns the case's folder.
func jobFolder(t *testing.T, text string) string {
	t.Helper()
	bin, file, dir := t.TempDir(), filepath.Join(t.TempDir(), "toy.yaml"), t.TempDir()
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	for name, body := range map[string]string{"scontrol": "echo node1", "squeue": "echo RUNNING 2026-01-01T00:00:00 N/A",
		"srun": `while [ $# -gt 0 ] && [ "$1" != bash ]; do shift; done; exec "$@"`} {
		must.Do(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	out, said, code := perigee(t, nil, "run", file, "--dry-run", "--output", dir, "--format", "json")
	var jobs []struct {
		Command []string
		Script  string
		Files   map[string]string
	}
	if err := json.Unmarshal([]byte(out), &jobs); err != nil || code != 0 || len(jobs) != 1 {
		t.Fatalf("%v, exit code %d, %s", err, code, said)
	}
	folder := filepath.Dir(jobs[0].Command[len(jobs[0].Command)-1])
	must.Do(t, os.MkdirAll(folder, 0o755))
	for name, text := range jobs[0].Files {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	cmd := exec.Command("bash", "-c", jobs[0].Script)
	cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=node1", "SLURM_NNODES=1", "SLURMD_NODENAME=node1"}
	cmd.Dir = folder
	cmd.Run() // which fails where the case does; its servers go on until the folder is gone
	return folder
}

// A level whose client fails ends the others, or with job.keep_going only itself; in both cases the case fails for it.
func TestKeepGoing(t *testing.T) {
	text := must.Read(t, "testdata/levels.yaml")
	const going = "job:\n  keep_going: true\n  evaluate: 'echo evaluated'\n"
	for _, c := range []struct{ old, new, levels, failed, evaluated string }{
		{"job:\n", "job:\n  evaluate: 'echo evaluated'\n", "1 ", "CLIENT on node1 has ended with code 1: boom", ""},
		{"job:\n", going, "1 4 ", "CLIENT on node1 has ended with code 1: concurrency 2: the client failed with code 1; the other levels follow (job.keep_going)", "evaluated\n"},
		// Nothing follows a server that has ended with an error; one that goes into the background is there.
		{"job:\n  nodes: 1\n  server: touch up; while [ -e up ]; do sleep 0.1; done", going + "  nodes: 1\n  server: touch up stops; while [ ! -e over ]; do sleep 0.1; done; exit 3", "1 ", "SERVER_0 on node1 has ended with code 3", ""},
		{"job:\n  nodes: 1\n  server: touch up; while [ -e up ]; do sleep 0.1; done", going + "  nodes: 1\n  server: touch up stops; while [ ! -e over ]; do sleep 0.1; done", "1 4 ", "CLIENT on node1 has ended with code 1: concurrency 2:", "evaluated\n"},
	} {
		changed := strings.Replace(strings.Replace(string(text), "exec sleep 600", "while [ -e up ]; do sleep 0.1; done", 1), c.old, c.new, 1)
		changed = strings.Replace(changed, "echo boom; exit 1;", "echo boom; touch over; until [ ! -e stops ] || [ -e exits/SERVER_0 ]; do sleep 0.1; done; exit 1;", 1)
		dir := jobFolder(t, changed)
		out, said, code := perigee(t, nil, "parse", dir)
		levels := ""
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "yes" {
				levels += fields[0] + " "
			}
		}
		if code != 12 || levels != c.levels || !strings.Contains(out, "failed: "+c.failed) || !strings.Contains(out, "level 2 ") {
			t.Errorf("%s: exit code %d, levels %q\n%s%s", c.new, code, levels, out, said)
		}
		if evaluated, _ := os.ReadFile(filepath.Join(dir, "7_accuracy_eval_command.log")); string(evaluated) != c.evaluated {
			t.Errorf("%s: evaluated %q", c.new, evaluated)
		}
		if _, err := os.Stat(filepath.Join(dir, "8_done_7.txt")); err == nil {
			t.Errorf("%s: the job has written its end mark", c.new)
		}
	}
	for value, want := range map[string]string{"'no'": "job.keep_going: wanted true or false", "true, command: a": "job.command: give job.client (once per level) or job.command"} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		must.Do(t, os.WriteFile(file, []byte("benchmark: {concurrency_list: 1}\njob: {client: a, keep_going: "+value+"}\n"), 0o600))
		if out, _, _ := perigee(t, nil, "validate", file); !strings.Contains(out, want) {
			t.Errorf("%s: %s", value, out)
		}
	}
}
