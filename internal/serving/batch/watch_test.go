package batch

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/judge"
)

// exited leaves the mark of a part of a task's job that has ended.
func exited(t *testing.T, task *Task, mark string) {
	t.Helper()
	exits, whole := filepath.Join(task.Dir, "exits"), filepath.Join(task.Dir, "mark") // an empty mark is a full disk
	if err := errors.Join(os.MkdirAll(exits, 0o755), os.WriteFile(whole, []byte(mark), 0o644),
		os.Rename(whole, filepath.Join(exits, "SERVER_0"))); err != nil {
		t.Error(err)
	}
}

// A job that has the id of a case's, since Slurm has lost what it knew, is neither cancelled nor taken for the case's.
func TestNumberGivenAgain(t *testing.T) {
	for _, other := range []string{"thesis|None|/home/job.sh", "(null)|None|(null)"} {
		dir := fake(t, `case "$*" in *--jobs=*) of="$(sed -n 's/^sbatch .*--comment=\([^ ]*\).*/\1/p' calls)|None|/case/job.sh"
[ $n -gt 1 ] && of="`+other+`"; echo "101|RUNNING|n|2026-01-01T00:00:00|N/A|$of";; esac`)
		m := manager(t, t.TempDir())
		m.Timeout = 250 * time.Millisecond
		list := tasks(t, 1)
		must.Do(t, m.Run(context.Background(), list))
		if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || !list[0].End.Lost {
			t.Errorf("%s: %+v\n%s", other, list[0], data)
		}
	}
}

// What Slurm has done to another job that has the id of a case's by now is not asked for.
func TestPastOfAnotherJob(t *testing.T) {
	dir := fake(t, "")
	record := "JobId=101 StartTime=2026-01-01T00:00:00 SuspendTime=2026-01-01T00:01:00\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "record"), []byte(record), 0o600))
	m := manager(t, t.TempDir())
	for _, foreign := range []bool{false, true} {
		task := tasks(t, 1)[0]
		task.Job.ID, task.foreign = "101", foreign
		if m.past(context.Background(), task); task.End.Suspended == foreign {
			t.Errorf("of another job: %t, suspended: %t", foreign, task.End.Suspended)
		}
	}
}

// What a resumed run finds of an attempt before, of a job that waits to run again, is no death of a part.
func TestResumedWhileItWaitsAgain(t *testing.T) {
	list := tasks(t, 1)
	task := list[0]
	exits := filepath.Join(task.Dir, "exits")
	exited(t, task, "1 node1\n")
	dir := fake(t, `s=PENDING; at=2026-01-01T00:00:00; [ $n -gt 3 ] && s=RUNNING; [ $n -gt 5 ] && rm -rf `+exits+`; [ $n -gt 7 ] && s=COMPLETED
echo "101|$s|n|$at|N/A|(null)|BeginTime|`+filepath.Join(task.Dir, "job.sh")+`"`)
	m := manager(t, t.TempDir())
	task.Job.ID, task.Submitted = "101", time.Now()
	must.Do(t, m.Run(context.Background(), list))
	if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || task.Job.State != "COMPLETED" || task.End.Death != nil {
		t.Errorf("%+v\n%s", task.Job, data)
	}
}

// What Slurm ends to run the job again is no death of a part.
func TestRequeued(t *testing.T) {
	list := tasks(t, 1)
	exits := filepath.Join(list[0].Dir, "exits")
	dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; at=00:00:01
[ $n = 2 ] && s=COMPLETING && mkdir -p `+exits+` && echo 143 node1 > `+exits+`/SERVER_0
[ $n = 3 ] && s=PENDING; [ $n -gt 3 ] && at=00:00:09; [ $n -gt 7 ] && s=COMPLETED
echo "101|$s|n|2026-01-01T$at|N/A||None|";; esac`)
	m := manager(t, t.TempDir())
	must.Do(t, m.Run(context.Background(), list))
	if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || list[0].Job.State != "COMPLETED" {
		t.Errorf("%+v\n%s", list[0].Job, data)
	}
}

// A part that a signal has ended in a job that goes on is a death.
func TestPartKilled(t *testing.T) {
	dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; grep -q scancel calls && s=CANCELLED; echo "101|$s|n|2026-01-01T00:00:00|N/A||None|";; esac`)
	m := manager(t, t.TempDir())
	list := tasks(t, 1)
	time.AfterFunc(200*time.Millisecond, func() { exited(t, list[0], "137 node1\n") })
	must.Do(t, m.Run(context.Background(), list))
	if list[0].End.Death == nil || list[0].End.Death.Code != 137 || calls(t, dir, "scancel") != 1 {
		t.Errorf("%+v %v %+v", list[0].End.Death, (list[0].End.Late != ""), list[0].Job)
	}
}

// Where a site changes comments, the job of an intent is the one that runs the script of its folder, begun since.
func TestIntentFoundByScript(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Now().Add(d) }
	for name, c := range map[string]struct {
		job   slurm.Job
		found bool
	}{
		"pending":           {slurm.Job{State: "PENDING"}, true},
		"running":           {slurm.Job{State: "RUNNING", Started: at(0)}, true},
		"over already":      {slurm.Job{State: "COMPLETED", Started: at(0)}, true},
		"of a run before":   {slurm.Job{State: "RUNNING", Started: at(-time.Hour)}, false},
		"known":             {slurm.Job{ID: "5", State: "PENDING"}, false},
		"of another folder": {slurm.Job{State: "PENDING", Command: "/home/thesis/job.sh"}, false},
	} {
		l, err := OpenLedger(t.TempDir())
		must.Do(t, err)
		dir := filepath.Join(l.dir, judge.LogsFolder, "case0")
		l.events = []Event{{Event: submitted, Task: "other", Job: "5"}}
		if c.job.ID == "" {
			c.job.ID = "6"
		}
		if c.job.Command == "" {
			c.job.Command = filepath.Join(dir, "job.sh")
		}
		c.job.Comment = "projectX"
		id := l.find(map[string]slurm.Job{c.job.ID: c.job}, Event{Time: at(0), Comment: newComment(), Dir: dir})
		if (id != "") != c.found {
			t.Errorf("%s: found %q", name, id)
		}
		l.Close()
	}
}

// An answer of sbatch counts though something that it has left behind holds its output, and the ledger is free after a
// run that has ended.
func TestWrapperLeavesSomething(t *testing.T) {
	dir := fake(t, answer)
	script := "#!/bin/bash\ncd " + dir + "\necho \"sbatch $*\" >> calls\n(while [ -e calls ]; do sleep 0.01; done) &\necho Submitted batch job 101\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(script), 0o755))
	touch(t, filepath.Join(dir, "over"))
	out := t.TempDir()
	m := manager(t, out)
	m.Queue.Keep = m.Ledger.Held()
	list := tasks(t, 1)
	if err := m.Run(context.Background(), list); err != nil || list[0].Err != nil || list[0].Job.ID != "101" {
		t.Fatal(err, list[0].Err, list[0].Job)
	}
	m.Ledger.Close()
	l, err := OpenLedger(out)
	must.Do(t, err)
	l.Close()
}

// A job on another cluster is not watched from here.
func TestOtherCluster(t *testing.T) {
	dir := fake(t, answer)
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte("#!/bin/bash\necho Submitted batch job 5 on cluster other\n"), 0o755))
	list := tasks(t, 1)
	must.Do(t, manager(t, t.TempDir()).Run(context.Background(), list))
	if list[0].Err == nil || !strings.Contains(list[0].Err.Error(), "job 5 is on the cluster other") {
		t.Error(list[0].Err)
	}
}

// A job is cancelled as soon as Slurm answers again.
func TestCancelledWhenSlurmAnswers(t *testing.T) {
	dir := fake(t, `case "$*" in *--jobs=*) [ $n -gt 2 ] && [ $n -lt 7 ] && { echo "squeue: Socket timed out" >&2; exit 1; }
s=RUNNING; grep -q scancel calls && s=CANCELLED; echo "101|$s|n|2026-01-01T00:00:00|N/A||None|";; esac`)
	m := manager(t, t.TempDir())
	var log strings.Builder
	m.Log = &log
	list := tasks(t, 1)
	m.Timeout = 250 * time.Millisecond
	must.Do(t, m.Run(context.Background(), list))
	if calls(t, dir, "scancel") != 1 || list[0].Job.State != "CANCELLED" || strings.Count(log.String(), "has not ended within") != 1 {
		t.Errorf("%d calls of scancel, state %s\n%s", calls(t, dir, "scancel"), list[0].Job.State, &log)
	}
}

// A server of a job that is being preempted ends while Slurm says that the job runs.
func TestPreempted(t *testing.T) {
	for _, code := range []string{"143", "1"} { // of a server that ends by itself when it is told to
		list := tasks(t, 1)
		exits := filepath.Join(list[0].Dir, "exits")
		dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; at=00:00:01
[ $n = 2 ] && echo JobId=101 PreemptTime=2026-01-01T00:00:30 > record && mkdir -p `+exits+` && echo `+code+` node1 > `+exits+`/SERVER_0
[ $n = 7 ] && s=PENDING && rm -f record; [ $n -gt 7 ] && at=00:00:09; [ $n -gt 9 ] && s=COMPLETED && rm -rf `+exits+`
echo "101|$s|n|2026-01-01T$at|N/A||None|";; esac`)
		m := manager(t, t.TempDir())
		must.Do(t, m.Run(context.Background(), list))
		if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || list[0].Job.State != "COMPLETED" || list[0].End.Death != nil || list[0].End.Preempted {
			t.Errorf("%+v\n%s", list[0].Job, data)
		}
	}
}

// What Slurm has done to a job between two polls it still knows when the job is over; if it does not, nothing fails.
func TestPast(t *testing.T) {
	for record, want := range map[string]bool{"echo JobId=101 StartTime=2026-01-01T00:00:00 SuspendTime=2026-01-01T00:00:05": true,
		"echo JobId=101 SuspendTime=None": false, "echo scontrol: error: Socket timed out >&2; exit 1": false} {
		list := tasks(t, 2)
		dir := fake(t, answer)
		must.Do(t, os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/bash\necho scontrol $* >> "+dir+"/calls; "+record+"\n"), 0o755))
		touch(t, filepath.Join(dir, "over"))
		must.Do(t, manager(t, t.TempDir()).Run(context.Background(), list))
		once := 2
		if strings.HasSuffix(record, "exit 1") {
			once = 1 // who does not answer is not asked about the next job at once
		}
		if n := calls(t, dir, "scontrol"); list[0].End.Suspended != want || list[1].End.Suspended != want || list[0].End.Lost || n != once {
			t.Errorf("%s: suspended is %v, %v after %d questions", record, list[0].End.Suspended, list[1].End.Suspended, n)
		}
	}
}

// The mark of an attempt that Slurm has ended does not count in the next one, however late that removes it.
func TestMarkOfAnEarlierAttempt(t *testing.T) {
	task, death := &Task{}, &judge.Death{Code: 1, Part: "S1"}
	say := func(state string) {
		task.see(slurm.Job{State: state})
		if !task.restarted.IsZero() {
			task.restarted = time.Now().Add(-time.Minute)
		}
	}
	want := func(what string, dead bool) {
		t.Helper()
		if task.isDead(death) != dead {
			t.Errorf("%s: dead is %v, want %v", what, !dead, dead)
		}
	}
	say("RUNNING")
	if !task.restarted.IsZero() {
		t.Error("its first start counts as another one")
	}
	want("it ran when the mark was there", true)
	say("PENDING")
	want("it waits", false)
	say("RUNNING")
	want("the mark was there while it waited", false)
	death = &judge.Death{Code: 1, Part: "S2"}
	want("a new mark", true)
	say("SUSPENDED")
	want("it does not run now", false)
	say("RUNNING")
	want("it was suspended", true)
	if !task.End.Suspended {
		t.Error("it was not suspended")
	}
	say("PENDING")
	say("RUNNING")
	if task.End.Suspended {
		t.Error("this attempt was suspended, too")
	}
}

// A job that has ended in time is not late, although Slurm says so late.
func TestEndedWhileSlurmIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		after, does string // its state when Slurm answers again, and what it does before
		late        bool
	}{
		"over": {after: "COMPLETED"}, "end mark": {after: "RUNNING", does: "touch 8_done_101.txt"}, "running": {after: "RUNNING", late: true},
	} {
		list := tasks(t, 1)
		dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; [ $n -gt 4 ] && s=`+c.after+`; grep -q scancel calls && s=CANCELLED
(mkdir -p `+list[0].Dir+` && cd `+list[0].Dir+` && `+cmp.Or(c.does, "true")+`); [ $n -gt 1 ] && [ $n -lt 5 ] && exit 1
echo "101|$s|n|2026-01-01T00:00:00|N/A||None|";; esac`)
		m := manager(t, t.TempDir())
		m.Timeout = 250 * time.Millisecond
		must.Do(t, m.Run(context.Background(), list))
		if cancels := calls(t, dir, "scancel") == 1; (list[0].End.Late != "") != c.late || cancels != (c.after == "RUNNING") {
			t.Errorf("%s: timed out is %v, cancelled %v", name, (list[0].End.Late != ""), cancels)
		}
	}
}

// Slurm runs a job again whose node went away; it says so when it is asked whether the job may be cancelled.
func TestDeathWhileSlurmBeginsAnew(t *testing.T) {
	list := tasks(t, 1)
	exits := filepath.Join(list[0].Dir, "exits")
	dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; [ $n = 2 ] && s=PENDING; [ $n -gt 2 ] && rm -rf `+exits+`; [ $n -gt 4 ] && s=COMPLETED
[ $n = 1 ] && mkdir -p `+exits+` && echo 1 node1 > `+exits+`/SERVER_0; echo "101|$s|n|2026-01-01T00:00:00|N/A||None|";; esac`)
	m := manager(t, t.TempDir())
	must.Do(t, m.Run(context.Background(), list))
	if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || list[0].End.Death != nil {
		t.Errorf("%+v\n%s", list[0].Job, data)
	}
}

// A wrapper of sbatch may send a copy of the script, with a comment of its site.
func TestCopiedScript(t *testing.T) {
	dir := fake(t, `case "$*" in *--jobs=*) s=RUNNING; [ -e over ] && s=COMPLETED; echo "101|$s|n|2026-01-01T00:00:00|N/A|site|None|/spool/copy.sh";; esac`)
	m := manager(t, t.TempDir())
	list := tasks(t, 1)
	time.AfterFunc(700*time.Millisecond, func() { touch(t, filepath.Join(dir, "over")) })
	if err := m.Run(context.Background(), list); err != nil || list[0].End.Lost || list[0].Job.State != "COMPLETED" {
		t.Errorf("%v, %+v", err, list[0].Job)
	}
}

// A job that Slurm holds is named once with what holds it, and so is what a job that is cancelled for its time waited for.
func TestHeld(t *testing.T) {
	fake(t, `case "$*" in *--jobs=*) s=PENDING; r="launch failed requeued held"; [ $n -gt 2 ] && r=JobHeldUser; grep -q scancel calls && s=CANCELLED; echo "101|$s||N/A|N/A||$r|";; esac`)
	m := manager(t, t.TempDir())
	var log strings.Builder
	m.Log = &log
	m.Timeout = 3 * time.Second
	list := tasks(t, 1)
	must.Do(t, m.Run(context.Background(), list))
	for text, times := range map[string]int{"case0: Slurm holds job 101 (launch failed requeued held)": 1, "case0: Slurm holds job 101 (JobHeldUser)": 1, "scontrol release 101": 2,
		"has not ended within 3s and is cancelled: it was waiting (JobHeldUser)\n": 1} {
		if strings.Count(log.String(), text) != times {
			t.Errorf("wanted %q %d times\n%s", text, times, &log)
		}
	}
	if !(list[0].End.Late != "") || !strings.HasSuffix(list[0].End.Late, "(JobHeldUser)") {
		t.Errorf("%+v", list[0])
	}
}
