package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"perigee/internal/kit/must"
	"perigee/internal/serving/judge"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/config"
	"perigee/internal/serving/plan"
)

// fake puts commands in front of Slurm's. Each notes its calls in calls; jobs end
// when the file over exists. What squeue prints has bars between its fields.
func fake(t *testing.T, squeue string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"sbatch": `echo "sbatch $*" >> calls; n=$(grep -c ^sbatch calls); echo "Submitted batch job $((100 + n))"`,
		"squeue": `echo "squeue $*" >> calls; n=$(grep -c ^squeue calls); set -o pipefail
( ` + squeue + `
) | tr '|' '\037'`,
		"scontrol": `cat record 2> /dev/null; true`,
		"scancel":  `echo "scancel $*" >> calls`,
		"sacct":    `echo "sacct $*" >> calls; exit 1`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\ncd "+dir+"\n"+text+"\n"), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// answer is a squeue that knows all jobs it is asked for; they are over once the
// file over is there.
const answer = `s=RUNNING; [ -e over ] && s=COMPLETED
for a in "$@"; do case $a in --jobs=*) for i in ${a#--jobs=}; do IFS=,; for j in $i; do echo "$j|$s|node1|2026-01-01T00:00:00|N/A||None|"; done; done;; esac; done`

func manager(t *testing.T, out string) *Manager {
	t.Helper()
	l, err := OpenLedger(out)
	must.Do(t, err)
	settle := late
	late = 0
	t.Cleanup(func() { l.Close(); late = settle })
	return &Manager{Queue: &slurm.Queue{}, Ledger: l, Poll: 100 * time.Millisecond, Watch: 20 * time.Millisecond, Timeout: time.Minute,
		Log: io.Discard, Ended: func(*Task) error { return nil }}
}

func tasks(t *testing.T, n int) (list []*Task) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("case%d", i)
		dir := filepath.Join(t.TempDir(), name)
		list = append(list, &Task{Config: &config.Config{}, Name: name, Dir: dir, Plan: func(comment string) (*plan.Plan, error) {
			return &plan.Plan{Args: []string{"--comment=" + comment}, Script: filepath.Join(dir, "job.sh")}, nil
		}})
	}
	return list
}

func calls(t *testing.T, dir, command string) int {
	t.Helper()
	data := must.Read(t, filepath.Join(dir, "calls"))
	return strings.Count("\n"+string(data), "\n"+command+" ")
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Error(err)
	}
}

// S7: many jobs cost one status command per interval.
func TestOnePollForAll(t *testing.T) {
	dir := fake(t, answer)
	list := tasks(t, 20)
	m := manager(t, t.TempDir())
	began := time.Now()
	time.AfterFunc(time.Second, func() { touch(t, filepath.Join(dir, "over")) })
	must.Do(t, m.Run(context.Background(), list))
	if most := int(time.Since(began)/m.Poll) + 1; calls(t, dir, "squeue") > most {
		t.Errorf("%d status commands in %s, want at most %d", calls(t, dir, "squeue"), time.Since(began), most)
	}
	for _, task := range list {
		if !task.Over() || task.Job.State != "COMPLETED" || task.End.Lost {
			t.Errorf("%s: %+v", task.Name, task.Job)
		}
	}
}

// S7: a controller that does not answer, or knows the job only later, ends no wait.
func TestHiccup(t *testing.T) {
	dir := fake(t, `[ "$n" -le 2 ] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
[ "$n" -le 4 ] && { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
`+answer)
	list := tasks(t, 1)
	m := manager(t, t.TempDir())
	time.AfterFunc(2*time.Second, func() { touch(t, filepath.Join(dir, "over")) })
	must.Do(t, m.Run(context.Background(), list))
	if task := list[0]; task.End.Lost || task.Job.State != "COMPLETED" || calls(t, dir, "squeue") < 5 {
		t.Errorf("%+v after %d status commands", task.Job, calls(t, dir, "squeue"))
	}
}

// A job that Slurm has forgotten is over, and nothing says how it ended.
func TestForgotten(t *testing.T) {
	dir := fake(t, `exit 0`)
	list := tasks(t, 1)
	must.Do(t, manager(t, t.TempDir()).Run(context.Background(), list))
	if !list[0].End.Lost || calls(t, dir, "squeue") != patience || calls(t, dir, "sacct") != 1 {
		t.Errorf("lost is %v after %d status commands", list[0].End.Lost, calls(t, dir, "squeue"))
	}
}

// A refused job fails its own task only.
func TestRefused(t *testing.T) {
	dir := fake(t, answer)
	touch(t, filepath.Join(dir, "over"))
	refuse := "#!/bin/bash\necho \"sbatch: error: invalid partition\" >&2; exit 1\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(refuse), 0o755))
	list := tasks(t, 2)
	count := 0
	m := manager(t, t.TempDir())
	m.Ended = func(*Task) error { count++; return nil }
	must.Do(t, m.Run(context.Background(), list))
	if count != 2 || list[1].Err == nil || !strings.Contains(list[1].Err.Error(), "Job submission failed: sbatch: sbatch: error: invalid partition") {
		t.Errorf("%d ended, %v", count, list[1].Err)
	}
}

// A job that Slurm has taken although sbatch has failed is found as soon as Slurm answers again, and is not taken for
// refused before.
func TestTakenAfterAll(t *testing.T) {
	dir := fake(t, `case "$*" in
*--jobs=*) echo "101|COMPLETED|node1|2026-01-01T00:00:00|N/A||None|";;
*) [ $n -le 2 ] && { echo "squeue: Socket timed out" >&2; exit 1; }
   [ $n = 3 ] && exit 0 # what sbatch has asked is still under way
   echo "101|RUNNING|node1|2026-01-01T00:00:00|N/A|$(sed -n 's/^sbatch .*--comment=\([^ ]*\).*/\1/p' calls)|None|job.sh";;
esac`)
	taken := "#!/bin/bash\necho \"sbatch $*\" >> " + dir + "/calls\necho 'sbatch: Socket timed out' >&2; exit 1\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(taken), 0o755))
	list := tasks(t, 1)
	var log strings.Builder
	m := manager(t, t.TempDir())
	m.Log = &log
	must.Do(t, m.Run(context.Background(), list))
	if list[0].Err != nil || list[0].Job.ID != "101" || strings.Count(log.String(), "does not say whether it has taken the job") != 2 {
		t.Errorf("job %q, %v\n%s", list[0].Job.ID, list[0].Err, &log)
	}
}

// While Slurm does not say whether it has taken a job, the run can be interrupted, and the job is still open.
func TestInterruptedBeforeSlurmSays(t *testing.T) {
	dir := fake(t, `echo "squeue: Socket timed out" >&2; exit 1`)
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte("#!/bin/bash\nexit 1\n"), 0o755))
	ctx, cancel := context.WithCancel(context.Background())
	m := manager(t, t.TempDir())
	m.Log = writer(func(p []byte) {
		if strings.Contains(string(p), "does not say") {
			cancel()
		}
	})
	if err := m.Run(ctx, tasks(t, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if open := m.Ledger.Open(); open["case0"].Event != submitting {
		t.Errorf("%+v", open)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A disk without room for a case ends the run, which can be resumed: the case has not failed.
func TestNoRoom(t *testing.T) {
	dir := fake(t, answer)
	touch(t, filepath.Join(dir, "over"))
	disk := t.TempDir()
	must.Do(t, unix.Mount("none", disk, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	list := tasks(t, 2)
	list[1].Plan = func(string) (*plan.Plan, error) {
		return &plan.Plan{Script: filepath.Join(disk, "case1", "job.sh"), Text: strings.Repeat("#", 1<<20)}, nil
	}
	m := manager(t, t.TempDir())
	ended := 0
	m.Ended = func(*Task) error { ended++; return nil }
	if err := m.Run(context.Background(), list); fault.KindOf(err) != fault.Output || ended != 0 {
		t.Fatalf("%v, %d tasks ended", err, ended)
	}
	if _, done := m.Ledger.Last(); done || calls(t, dir, "sbatch") != 1 {
		t.Errorf("the run counts as finished: %v", done)
	}
	must.Do(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=8m"))
	if n, err := m.Resume(context.Background(), list); n != 1 || err != nil {
		t.Fatalf("%d jobs go on, %v", n, err)
	}
	if err := m.Run(context.Background(), list); err != nil || ended != 2 || calls(t, dir, "sbatch") != 2 {
		t.Errorf("%v, %d tasks ended", err, ended)
	}
}

// What is recorded once stays so, however often the run is interrupted, its jobs cancelled, and resumed.
func TestResumeAfterCancels(t *testing.T) {
	dir := fake(t, answer)
	m := manager(t, t.TempDir())
	for i := range 3 {
		name := fmt.Sprint("case", i)
		for _, e := range []Event{
			{Event: recorded, Task: name, State: "passed"}, {Event: cancelled, Task: "case3"}, {Event: finished},
		} {
			must.Do(t, m.Ledger.Add(e))
		}
		list := tasks(t, 4)
		next := *m
		if n, err := next.Resume(t.Context(), list); n != 0 || err != nil {
			t.Fatalf("%d jobs go on, %v", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // before anything is submitted
		next.Run(ctx, list)
		for j, task := range list {
			if (task.Verdict == "passed") != (j <= i) {
				t.Errorf("resumed %d times: case %d is %q", i+1, j, task.Verdict)
			}
		}
	}
	if n := calls(t, dir, "sbatch"); n != 0 {
		t.Errorf("%d jobs submitted", n)
	}
}

// An intent whose job id was never written is found by its comment, and not
// submitted again.
func TestResumeIntent(t *testing.T) {
	out := t.TempDir()
	m := manager(t, out)
	comment := newComment()
	for _, e := range []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: comment}} {
		must.Do(t, m.Ledger.Add(e))
	}
	dir := fake(t, `case "$*" in *--jobs=*) ;; *) echo "77|RUNNING|node1|N/A|N/A|`+comment+`|None|/x/job.sh"; exit;; esac
`+answer)
	touch(t, filepath.Join(dir, "over"))
	list := tasks(t, 2)
	n, err := m.Resume(context.Background(), list)
	if err != nil || n != 1 || list[0].Job.ID != "77" {
		t.Fatalf("%d, %v, %+v", n, err, list[0].Job)
	}
	must.Do(t, m.Run(context.Background(), list))
	if calls(t, dir, "sbatch") != 1 || list[1].Job.ID != "101" {
		t.Errorf("%d submissions, %+v", calls(t, dir, "sbatch"), list[1].Job)
	}
}

// A run that goes on takes all the jobs of the one before, or none: nothing would wait for the others.
func TestResumeOfOtherCases(t *testing.T) {
	fake(t, `exit 0`)
	list := tasks(t, 2)
	for last, refused := range map[string]bool{submitting: true, submitted: true, ended: true, recorded: false, cancelled: false, rejected: false} {
		m := manager(t, t.TempDir())
		m.Ledger.events = []Event{{Event: began}, {Event: submitting, Task: "case0"}, {Event: last, Task: "case0", Job: "5"}}
		_, err := m.Resume(context.Background(), list[1:])
		if refused != (err != nil && fault.KindOf(err) == fault.Input && strings.Contains(err.Error(), "has a job of case0, and this command does not select it")) {
			t.Errorf("%s: %v", last, err)
		}
	}
	m := manager(t, t.TempDir())
	m.Ledger.events = []Event{{Event: began}, {Event: ended, Task: "case0", Job: "5"}, {Event: finished}}
	if _, err := m.Resume(context.Background(), list[1:]); err != nil {
		t.Errorf("a run that is over: %v", err)
	}
	m = manager(t, t.TempDir())
	m.Ledger.events = []Event{{Event: began}, {Event: submitted, Task: "case0", Job: "5"}}
	list[0].Problems = []config.Problem{{Message: "streaming must be true"}}
	if _, err := m.Resume(context.Background(), list); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "is invalid now: streaming must be true") {
		t.Errorf("an invalid case: %v", err)
	}
}

// What a job has measured is not judged by a configuration that has changed since.
func TestResumeOfAnotherConfiguration(t *testing.T) {
	fake(t, `exit 0`)
	for text, refused := range map[string]bool{"levels: 2 4\n": false, "levels: 2 8\n": true} {
		var log strings.Builder
		m := manager(t, t.TempDir())
		m.Log = &log
		m.Ledger.events = []Event{{Event: began}, {Event: submitted, Task: "case0", Job: "5", Time: time.Now()}}
		list := tasks(t, 1)
		tree := func(text string) *conf.Value {
			tree, err := conf.Parse("a.yaml", []byte(text))
			must.Do(t, err)
			return tree
		}
		then, err := plan.EffectiveText(&config.Config{Tree: tree(text)})
		must.Do(t, err)
		list[0].Tree = tree("levels: 2 4\n")
		must.Do(t, os.MkdirAll(list[0].Dir, 0o755))
		must.Do(t, os.WriteFile(filepath.Join(list[0].Dir, plan.Effective), []byte(then), 0o600))
		n, err := m.Resume(t.Context(), list)
		if (err != nil) != refused || refused != (n == 0) {
			t.Errorf("submitted with %q: %d jobs go on, %v", text, n, err)
		}
		if refused && (fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "job 5 of case0 was submitted with another configuration")) {
			t.Errorf("%v", err)
		}
		// What is recorded keeps its figures, and is said to have them from there.
		m.Ledger.events = append(m.Ledger.events, Event{Event: recorded, Task: "case0", State: "success"})
		n, err = m.Resume(t.Context(), list)
		if said := strings.Contains(log.String(), "has changed since case0 was run"); err != nil || n != 0 || said != refused {
			t.Errorf("recorded with %q: %d jobs go on, %v, and said: %q", text, n, err, log.String())
		}
	}
}

// Who is killed while he cancels jobs has the rest of them cancelled, and all of them run again; a job that was over before
// is collected.
func TestKilledWhileCancelling(t *testing.T) {
	for _, c := range []struct {
		name, state         string // "": Slurm does not know it any more
		done, again, goesOn bool
	}{
		{"cancelled", "CANCELLED", false, false, false},
		{"not yet cancelled", "RUNNING", false, true, false},
		{"forgotten", "", false, false, false},
		{"over before", "COMPLETED", false, false, true},
		{"done before", "CANCELLED", true, false, true},
	} {
		m := manager(t, t.TempDir())
		list := tasks(t, 1)
		own := newComment()
		answer := "true"
		if c.state != "" {
			answer = "echo '7|" + c.state + "|n|N/A|N/A|" + own + "|None|/x/job.sh'"
		}
		dir := fake(t, answer)
		submission := time.Now().Add(-time.Hour)
		m.Ledger.events = []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: own}, {Event: submitted, Task: "case0", Job: "7", Time: submission},
			{Event: cancelling, Task: "case0", Job: "7", Time: time.Now()}}
		if c.done {
			must.Do(t, os.MkdirAll(list[0].Dir, 0o755))
			touch(t, filepath.Join(list[0].Dir, "8_done_7.txt"))
		}
		if err := m.missing(map[string]Event{"case0": m.Ledger.events[3]}, nil); err == nil {
			t.Errorf("%s: the job is forgotten", c.name)
		}
		if open := m.Ledger.Open(); len(open) != 1 || !open["case0"].Time.Equal(submission) {
			t.Errorf("%s: open: %+v", c.name, open)
		}
		n, err := m.Resume(t.Context(), list)
		last, _ := m.Ledger.Last()
		if err != nil || (n == 1) != c.goesOn || (list[0].Job.ID == "7") != c.goesOn || (last["case0"].Event == cancelled) == c.goesOn {
			t.Errorf("%s: %d go on, job %q, the ledger says %s, %v", c.name, n, list[0].Job.ID, last["case0"].Event, err)
		}
		if got := calls(t, dir, "scancel"); (got == 1) != c.again {
			t.Errorf("%s: scancel was called %d times", c.name, got)
		}
	}
}

// The time of a job is that of its submission, also where it has ended by now.
func TestTimeOfEndedJobs(t *testing.T) {
	fake(t, `exit 0`)
	m := manager(t, t.TempDir())
	at := time.Now().Add(-time.Hour)
	m.Ledger.events = []Event{{Event: began}, {Event: submitted, Task: "case0", Job: "5", Time: at}, {Event: ended, Task: "case0", Job: "5", Time: time.Now()}}
	list := tasks(t, 1)
	if n, err := m.Resume(context.Background(), list); n != 1 || err != nil || !list[0].Submitted.Equal(at) {
		t.Errorf("%d jobs go on, %v, submitted at %s, want %s", n, err, list[0].Submitted, at)
	}
}

// An event of which a full disk has taken a part is taken back: the next one would stand behind it.
func TestFullLedger(t *testing.T) {
	disk := t.TempDir()
	must.Do(t, unix.Mount("none", disk, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	l, err := OpenLedger(disk)
	must.Do(t, err)
	t.Cleanup(func() { l.Close() })
	n := 0
	for ; n < 1000; n++ {
		if err = l.Add(Event{Event: ended, Task: fmt.Sprint("case", n)}); err != nil {
			break
		}
	}
	if fault.KindOf(err) != fault.Output {
		t.Fatalf("the disk is not full after %d events: %v", n, err)
	}
	must.Do(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=64k"))
	must.Do(t, l.Add(Event{Event: ended, Task: "last"}))
	l.Close()
	again, err := OpenLedger(disk)
	must.Do(t, err)
	defer again.Close()
	if len(again.events) != n+1 || again.events[n].Task != "last" {
		t.Errorf("%d events, want %d", len(again.events), n+1)
	}
}

// A ledger may name a job that Slurm does not know yet: when another job of the user gets the number, that one is neither
// waited for nor cancelled, whatever the folder says.
func TestNumberOfAnother(t *testing.T) {
	out := t.TempDir()
	dir := fake(t, `case "$*" in *--jobs=*) echo "30|RUNNING|n|N/A|N/A|mine|None|";; esac`)
	m := manager(t, out)
	list := tasks(t, 1)
	own := newComment()
	for _, e := range []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: own, Dir: list[0].Dir},
		{Event: submitted, Task: "case0", Job: "30"}} {
		must.Do(t, m.Ledger.Add(e))
	}
	exits := filepath.Join(list[0].Dir, "exits")
	must.Do(t, os.MkdirAll(exits, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(exits, "SERVER_0"), []byte("1 node1\n"), 0o644))
	list[0].Plan = func(string) (*plan.Plan, error) { return &plan.Plan{}, nil }
	if n, err := m.Resume(context.Background(), list); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	list[0].Submitted = time.Now()
	must.Do(t, m.Run(context.Background(), list))
	if data, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Contains(string(data), "scancel") || list[0].Job.State != "" {
		t.Errorf("state %q\n%s", list[0].Job.State, data)
	}
}

// The ids of a ledger may have been given again: what Slurm does not know as the ledger's own is neither cancelled nor
// taken up.
func TestForeignJobs(t *testing.T) {
	out := t.TempDir()
	own, other := newComment(), newComment()
	in := func(name string) string { return filepath.Join(out, judge.LogsFolder, name) }
	jobs := []struct {
		task, id string
		event    Event // as the ledger has it
		squeue   string
		cancel   bool
	}{
		{"comment", "11", Event{Comment: own, Dir: "/elsewhere/a"}, "RUNNING|n|N/A|N/A|" + own + "|None|/elsewhere/a/job.sh", true},
		{"script", "12", Event{Comment: other, Dir: in("b")}, "RUNNING|n|N/A|N/A|of the site|None|" + in("b") + "/job.sh", true},
		{"over", "13", Event{Comment: other, Dir: in("c")}, "COMPLETED|n|N/A|N/A|(null)|None|" + in("c") + "/job.sh", false},
		{"another comment", "14", Event{Comment: own, Dir: in("d")}, "RUNNING|n|N/A|N/A|" + other + "|None|/elsewhere/job.sh", false},
		{"no comment", "15", Event{Dir: in("e")}, "RUNNING|n|N/A|N/A||None|(null)", false},
		{"any comment", "16", Event{Comment: "(null)", Dir: in("f")}, "PENDING||N/A|N/A|(null)|None|/elsewhere/job.sh", false},
		{"script elsewhere", "17", Event{Comment: other, Dir: "/elsewhere/a"}, "RUNNING|n|N/A|N/A||None|/elsewhere/b/job.sh", false},
		{"gone", "19", Event{Comment: other, Dir: in("g")}, "", false},
		{"array", "21", Event{Comment: other, Dir: in("h")}, "RUNNING|n|N/A|N/A||None|/elsewhere/job.sh", false},
	}
	var answers strings.Builder
	for _, j := range jobs {
		if j.squeue != "" {
			id := j.id
			if j.task == "array" {
				id += "_1"
			}
			fmt.Fprintf(&answers, "%s|%s\n", id, j.squeue)
		}
	}
	fill := func(l *Ledger) {
		t.Helper()
		must.Do(t, l.Add(Event{Event: began}))
		for _, j := range jobs {
			e := j.event
			e.Event, e.Task = submitting, j.task
			must.Do(t, l.Add(e))
			must.Do(t, l.Add(Event{Event: submitted, Task: j.task, Job: j.id}))
		}
	}
	m := manager(t, out)
	fill(m.Ledger)
	same := func(string) (*plan.Plan, error) { return &plan.Plan{}, nil }
	dir := fake(t, "cat <<'END'\n"+answers.String()+"END")
	for _, j := range jobs {
		e := j.event
		e.Event, e.Task, e.Job = submitted, j.task, j.id
		alone := &Manager{Queue: m.Queue, Ledger: &Ledger{dir: out, events: []Event{{Event: began}, e}}}
		_, err := alone.Resume(context.Background(), []*Task{{Config: &config.Config{}, Name: j.task, Plan: same}})
		foreign := !j.cancel && j.task != "over" && j.task != "gone"
		if (err != nil) != foreign || foreign && (fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "job "+j.id+" is yours, but")) {
			t.Errorf("resume %s: %v", j.task, err)
		}
	}
	n, left, err := Cancel(context.Background(), m.Queue, m.Ledger, func(string) {})
	if err != nil || n != 2 || len(left) != 6 {
		t.Errorf("%d cancelled, left %q, %v", n, left, err)
	}
	text := must.Read(t, filepath.Join(dir, "calls"))
	for _, j := range jobs {
		said := slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, j.task+": ") && strings.Contains(s, j.id) })
		last := cancelled
		if j.task == "over" { // its figures may be collected yet
			last = ended
		}
		if tasks, _ := m.Ledger.Last(); tasks[j.task].Event != last {
			t.Errorf("%s: the ledger has %+v, want %s", j.task, tasks[j.task], last)
		}
		if called := regexp.MustCompile(`(?m)^scancel .*\b` + j.id + `$`).Match(text); called != j.cancel || said == (j.cancel || j.task == "over") {
			t.Errorf("%s: cancelled %v, said %v", j.task, called, said)
		}
	}
	if open := m.Ledger.Open(); len(open) != 0 {
		t.Errorf("still open: %v", open)
	}
}

// A job that has left its end mark has figures, also where it has cancelled itself or Slurm does not know it any more.
func TestCancelOfMarkedJobs(t *testing.T) {
	out := t.TempDir()
	m := manager(t, out)
	secret := newComment()
	for _, j := range []struct{ id, state string }{{"7", "CANCELLED"}, {"8", ""}, {"9", "CANCELLED"}} {
		dir := filepath.Join(out, judge.LogsFolder, "c"+j.id)
		must.Do(t, os.MkdirAll(dir, 0o755))
		if j.id != "9" {
			must.Do(t, os.WriteFile(filepath.Join(dir, "8_done_"+j.id+".txt"), nil, 0o600))
		}
		for _, e := range []Event{{Event: submitting, Task: "c" + j.id, Comment: secret, Dir: dir}, {Event: submitted, Task: "c" + j.id, Job: j.id}} {
			must.Do(t, m.Ledger.Add(e))
		}
	}
	line := func(id string) string { return id + "|CANCELLED|n1|N/A|N/A|" + secret + "|None|" }
	fake(t, "cat <<'END'\n"+line("7")+"\n"+line("9")+"\nEND")
	if _, _, err := Cancel(context.Background(), m.Queue, m.Ledger, func(string) {}); err != nil {
		t.Fatal(err)
	}
	tasks, _ := m.Ledger.Last()
	for name, want := range map[string]string{"c7": ended, "c8": ended, "c9": cancelled} {
		if tasks[name].Event != want {
			t.Errorf("%s: %+v, want %s", name, tasks[name], want)
		}
	}
}

// The ledger outlives a process that was killed while it wrote.
func TestLedgerCut(t *testing.T) {
	out := t.TempDir()
	l, err := OpenLedger(out)
	must.Do(t, err)
	if _, err := OpenLedger(out); err == nil {
		t.Error("two processes have the ledger open")
	}
	l.Add(Event{Event: began})
	l.Add(Event{Event: submitted, Task: "a", Job: "5"})
	l.Close()
	file := filepath.Join(out, ledgerName)
	data := must.Read(t, file)
	must.Do(t, os.WriteFile(file, append(data, `{"event":"subm`...), 0o644))
	if l, err = OpenLedger(out); err != nil {
		t.Fatal(err)
	}
	if open := l.Open(); len(open) != 1 || open["a"].Job != "5" {
		t.Errorf("%v", open)
	}
	l.Close()
	must.Do(t, os.WriteFile(file, append([]byte("nonsense\n"), data...), 0o644))
	if _, err = OpenLedger(out); err == nil || !strings.Contains(err.Error(), "line 1 is not an event") {
		t.Errorf("%v", err)
	}
	must.Do(t, os.Truncate(file, mostLedger+1))
	if _, err = OpenLedger(out); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "it is larger than 67108864 bytes") {
		t.Errorf("%v", err)
	}
}

// A run that begins anew knows nothing of an interrupted one before it; the reason
// for which a job waits is kept.
func TestForget(t *testing.T) {
	l, err := OpenLedger(t.TempDir())
	must.Do(t, err)
	defer l.Close()
	for _, e := range []Event{{Event: began}, {Event: recorded, Task: "a", State: "passed"}} {
		must.Do(t, l.Add(e))
	}
	if tasks, done := l.Last(); done || len(tasks) != 1 {
		t.Errorf("%v, %v", tasks, done)
	}
	must.Do(t, l.Forget())
	l.Add(Event{Event: began})
	if tasks, done := l.Last(); done || len(tasks) != 0 {
		t.Errorf("%v, %v", tasks, done)
	}
	task := &Task{Submitted: time.Now().Add(-time.Minute)}
	task.see(slurm.Job{State: "PENDING", Reason: "Resources"})
	task.see(slurm.Job{State: "RUNNING", Reason: "None", Started: time.Now().Add(-40 * time.Second)})
	if task.Pending != "Resources" || task.Queued.Round(time.Second) != 20*time.Second {
		t.Errorf("%q, %s", task.Pending, task.Queued)
	}
}
