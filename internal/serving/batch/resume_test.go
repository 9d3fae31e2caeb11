package batch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/plan"
)

// An sbatch that outlives its run keeps the ledger: what it submits would be missed.
func TestSubmitOutlivesItsRun(t *testing.T) {
	dir := fake(t, answer)
	script := "#!/bin/bash\ncd " + dir + "\n(while [ ! -e go ]; do sleep 0.01; done) > /dev/null 2>&1 &\necho Submitted batch job 7\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(script), 0o755))
	out := t.TempDir()
	l, err := OpenLedger(out)
	must.Do(t, err)
	q := &slurm.Queue{Keep: l.Held()}
	if _, err := q.Submit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.file.Close() // as the end of a process does
	if _, err := OpenLedger(out); fault.KindOf(err) != fault.Output {
		t.Fatalf("the ledger of a command that is still at work: %v", err)
	}
	touch(t, filepath.Join(dir, "go"))
	for {
		if l, err := OpenLedger(out); err == nil {
			l.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A job that Slurm comes to know only now, as its sbatch was sent by a run that was killed, is waited for.
func TestResumeLateIntent(t *testing.T) {
	m := manager(t, t.TempDir())
	late = time.Minute
	comment := newComment()
	for _, e := range []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: comment}} {
		must.Do(t, m.Ledger.Add(e))
	}
	fake(t, `[ $n -le 2 ] || echo "77|RUNNING|node1|N/A|N/A|`+comment+`|None|/x/job.sh"`)
	list := tasks(t, 1)
	if n, err := m.Resume(t.Context(), list); err != nil || n != 1 || list[0].Job.ID != "77" {
		t.Errorf("%d, %v, %+v", n, err, list[0].Job)
	}
}

// A job that is over and forgotten when its intent is looked up has left its id in its folder.
func TestResumeForgottenIntent(t *testing.T) {
	fake(t, `exit 0`)
	for _, c := range []struct {
		info, dir string
		want      int
	}{
		{"SLURM_JOB_ID: 239\n", "", 1},
		{"", "", 0},
		{"SLURM_JOB_ID: 239;x\n", "", 0},
		{"SLURM_JOB_ID: 239\n", "/elsewhere", 0}, // the job of another folder
	} {
		m, list := manager(t, t.TempDir()), tasks(t, 1)
		dir := list[0].Dir
		must.Do(t, os.MkdirAll(dir, 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, plan.JobInfo), []byte(c.info), 0o644))
		intent := Event{Event: submitting, Task: "case0", Comment: newComment(), Dir: dir}
		if c.dir != "" {
			intent.Dir = c.dir
		}
		for _, e := range []Event{{Event: began}, intent} {
			must.Do(t, m.Ledger.Add(e))
		}
		n, err := m.Resume(t.Context(), list)
		if err != nil || n != c.want || (list[0].Job.ID == "239") != (n == 1) {
			t.Errorf("%q in %q: %d, %v, job %q", c.info, c.dir, n, err, list[0].Job.ID)
		}
	}
}

// Why a run that was killed then has cancelled a job is known to the run that goes on with it, and of no other job or end.
func TestResumeStopped(t *testing.T) {
	const why = "SERVER_0 on node1 has ended with code 3: fatal: no memory"
	for name, c := range map[string]struct {
		state string
		mark  bool
		want  string
	}{"cancelled": {"CANCELLED", false, why}, "done before": {"CANCELLED", true, ""}, "failed": {"FAILED", false, ""}, "good": {"COMPLETED", true, ""}} {
		t.Run(name, func(t *testing.T) {
			m := manager(t, t.TempDir())
			list := tasks(t, 1)
			comment := newComment()
			for _, e := range []Event{
				{Event: began}, {Event: submitting, Task: "case0", Comment: comment, Dir: list[0].Dir}, {Event: submitted, Task: "case0", Job: "77"},
				{Event: stopping, Task: "case0", Job: "77", Reason: why},
			} {
				must.Do(t, m.Ledger.Add(e))
			}
			fake(t, `echo "77|`+c.state+`|node1|N/A|N/A|`+comment+`|None|/x/job.sh"`)
			must.Do(t, os.MkdirAll(list[0].Dir, 0o755))
			if c.mark {
				touch(t, filepath.Join(list[0].Dir, "8_done_77.txt"))
			}
			if n, err := m.Resume(t.Context(), list); err != nil || n != 1 {
				t.Fatalf("%d, %v", n, err)
			}
			must.Do(t, m.Run(t.Context(), list))
			if list[0].End.Stopped != c.want || list[0].Job.State != c.state {
				t.Errorf("%q, %+v", list[0].End.Stopped, list[0].Job)
			}
		})
	}
	// The job that follows has no reason.
	l := manager(t, t.TempDir()).Ledger
	for _, e := range []Event{
		{Event: submitted, Task: "a", Job: "1"}, {Event: stopping, Task: "a", Job: "1", Reason: why}, {Event: ended, Task: "a", Job: "1"},
		{Event: submitting, Task: "a"}, {Event: submitted, Task: "a", Job: "2"},
	} {
		must.Do(t, l.Add(e))
	}
	if last, _ := l.Last(); last["a"].Reason != "" || last["a"].Job != "2" {
		t.Errorf("%+v", last)
	}
}

// An sbatch that dies in its own configuration has asked Slurm for nothing: the case fails at once, whatever squeue says.
func TestNoConfiguration(t *testing.T) {
	m := manager(t, t.TempDir())
	dir := fake(t, "echo squeue: fatal: Unable to process configuration file >&2; exit 1")
	script := "#!/bin/sh\necho 'sbatch: s_p_parse_file: cannot stat file /etc/slurm/slurm.conf: Permission denied, retrying in 1sec up to 60sec' >&2\n" +
		"echo 'sbatch: fatal: Unable to process configuration file' >&2\nexit 1\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(script), 0o755))
	list := tasks(t, 1)
	began := time.Now()
	if err := m.submitOne(t.Context(), list[0]); err != nil || list[0].Err == nil || !strings.Contains(list[0].Err.Error(), "Unable to process configuration file") {
		t.Errorf("%v, %v", err, list[0].Err)
	}
	if spent := time.Since(began); spent > 5*time.Minute {
		t.Errorf("it took %v", spent)
	}
}
