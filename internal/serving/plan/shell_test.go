package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/config"
)

// function is the text of a function of job scripts.
func function(t *testing.T, name string) string {
	t.Helper()
	p, err := New(load(t, "benchmark: {concurrency_list: 1}\njob: {client: 'true', server: 'true'}\n"), Options{Dir: "/r/x", GPU: config.FindGPU("LOCAL")})
	must.Do(t, err)
	_, text, found := strings.Cut(p.Text, "\n"+name+"() {")
	text, _, ended := strings.Cut(text, "\n}\n")
	if !found || !ended {
		t.Fatalf("no function %s", name)
	}
	return name + "() {" + text + "\n}\n"
}

// bash runs a script in a folder, where fake programs come first.
func bash(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-uc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// What Slurm says of a job that is over, or has to make room for another, and of one that goes on.
func TestOver(t *testing.T) {
	over := function(t, "over")
	for said, want := range map[string]string{
		"RUNNING 2026-01-01T00:00:00 N/A":                         "goes on",
		"SUSPENDED 2026-01-01T00:00:00 N/A":                       "goes on",
		"RUNNING 2026-01-01T00:00:00 2026-01-01T00:00:09":         "over",
		"RUNNING 2026-01-01T00:00:09 2026-01-01T00:00:09":         "over",
		"RUNNING 2026-01-01T00:00:10 2026-01-01T00:00:09":         "goes on", // the attempt before was preempted
		"COMPLETING 2026-01-01T00:00:10 N/A":                      "over",
		"PENDING N/A N/A":                                         "over",
		"":                                                        "goes on", // no answer
		"RUNNING          2026-01-01T00:00:00           N/A     ": "goes on",

		"NOTICE: maintenance on Friday\nRUNNING 2026-01-01T00:00:00 N/A":    "goes on",
		"STATE START_TIME PREEMPT_TIME\nRUNNING 2026-01-01T00:00:00 N/A":    "goes on",
		"NOTICE: maintenance on Friday\nCOMPLETING 2026-01-01T00:00:00 N/A": "over",
		"NOTICE: maintenance on Friday":                                     "goes on",
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "squeue"), []byte("#!/bin/sh\necho '"+said+"'\n"), 0o755))
		if got := bash(t, dir, over+"if over; then echo over; else echo goes on; fi"); got != want+"\n" {
			t.Errorf("%q: got %q, want %s", said, got, want)
		}
	}
	// One that does not know the times knows the state.
	dir := t.TempDir()
	old := "#!/bin/sh\ncase \"$*\" in *Time*) exit 1;; *%T*) echo $STATE;; esac\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "squeue"), []byte(old), 0o755))
	if got := bash(t, dir, over+"for STATE in RUNNING TIMEOUT; do export STATE; over; echo $?; done"); got != "1\n0\n" {
		t.Errorf("an old squeue: %q", got)
	}
}

// A job waits for Slurm only where Slurm has preempted it to run it again.
func TestSpared(t *testing.T) {
	functions := function(t, "over") + function(t, "spared")
	const preempted, again, requeue = "RUNNING 2026-01-01T00:00:00 2026-01-01T00:00:09", "Requeue=1 Restarts=0", "PreemptMode=REQUEUE State=UP"
	for _, c := range []struct{ squeue, job, partition, want string }{
		{preempted, again, requeue, "waits\n"}, {preempted, again, "PreemptMode=CANCEL State=UP", ""},
		{preempted, "Requeue=0 Restarts=0", requeue, ""}, {"RUNNING 2026-01-01T00:00:00 N/A", again, requeue, ""},
		{"COMPLETING 2026-01-01T00:00:00 N/A", again, requeue, ""}, {"", again, requeue, ""}, {preempted, "", "", ""},
	} {
		dir := t.TempDir()
		writeTools(t, dir, map[string]string{"squeue": "echo " + c.squeue, "sleep": "echo waits; exit 1",
			"scontrol": `case "$*" in *"show job 7") echo "JobId=7 ` + c.job + ` X=";; *"show partition p") echo "P=p ` + c.partition + ` X=";; esac`})
		if got := bash(t, dir, "SLURM_JOB_PARTITION=p\n"+functions+"spared"); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// A server that ends well since Slurm ends the job has not ended by itself.
func TestStepOfAJobThatEnds(t *testing.T) {
	functions := function(t, "over") + function(t, "fate") + function(t, "step") + "ended() { echo \"$*\"; }\n"
	for squeue, want := range map[string]string{
		"RUNNING 2026-01-01T00:00:00 N/A":                 "SERVER_0 0 n1\nSERVER_1 7 n2\n",
		"RUNNING 2026-01-01T00:00:00 2026-01-01T00:00:09": "", "COMPLETING 2026-01-01T00:00:00 N/A": "",
	} {
		dir := t.TempDir()
		writeTools(t, dir, map[string]string{"squeue": "echo " + squeue})
		if got := bash(t, dir, functions+": > log\nstep SERVER_0 0 log n1; step SERVER_1 7 log n2; true"); got != want {
			t.Errorf("%s: got %q, want %q", squeue, got, want)
		}
	}
}

// A script, and its tasks, that Slurm has given up with their node and that still run note nothing where the job runs again.
func TestCutOffAttempt(t *testing.T) {
	p, err := New(load(t, "benchmark: {concurrency_list: 1}\njob: {client: 'true', server: 'true'}\n"), Options{Dir: "/r/x", GPU: config.FindGPU("LOCAL")})
	must.Do(t, err)
	_, task, _ := strings.Cut(p.Text, "<< 'END' || lost task.sh\n")
	task, _, _ = strings.Cut(task, "END\n")
	functions := function(t, "current") + function(t, "ended") + function(t, "surely") + function(t, "measuring") + function(t, "well") +
		"perigee_nodes=(node1)\nover() { perigee_state=RUNNING; return 1; }\n"
	for attempt, want := range map[string]string{"0 node1 5": "6_bench.log 7_accuracy.log exits: CLIENT SERVER_0", "1 node2 7": "exits:"} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "task.sh"), []byte(task), 0o644))
		bash(t, dir, "mkdir exits; echo '"+attempt+"' > exits/.attempt; export PERIGEE_ATTEMPT='0 node1 5'\n"+functions+
			"(ended CLIENT 1); bash $PWD/task.sh SERVER_0 false || true\n"+
			"(measuring; echo figures > 6_bench.log); (well && echo figures > 7_accuracy.log); true")
		if got := strings.Join(strings.Fields(bash(t, dir, "ls exits *.log || true")), " "); !strings.HasSuffix(got, want) {
			t.Errorf("in attempt %s: got %q, want %q", attempt, got, want)
		}
	}
}
