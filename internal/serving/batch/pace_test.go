package batch

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/kit/slurm"
)

// slowly is a squeue that is late at first, as Slurm is that was away, and knows the job 77 of a comment only some
// prompt answers later.
func slowly(comment string) string {
	return `[ $n = 1 ] && sleep 1.2; case "$*" in *--jobs=*) ;; *) [ $n -gt 3 ] && echo "77|RUNNING|node1|N/A|N/A|` + comment + `|None|/x/job.sh"; exit 0;; esac
` + answer
}

// A Slurm that was away first answers what it is asked, and then does what the sbatch of a killed run has asked of it,
// however long ago: the job is neither submitted twice nor left behind.
func TestIntentOfSlowSlurm(t *testing.T) {
	for _, how := range []string{"resume", "cancel"} {
		t.Run(how, func(t *testing.T) {
			m := manager(t, t.TempDir())
			late = 3 * time.Second
			comment := newComment()
			for _, e := range []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: comment}} {
				must.Do(t, m.Ledger.Add(e))
				m.Ledger.events[len(m.Ledger.events)-1].Time = time.Now().Add(-time.Hour)
			}
			dir := fake(t, slowly(comment))
			if how == "resume" {
				list := tasks(t, 1)
				if n, err := m.Resume(t.Context(), list); err != nil || n != 1 || list[0].Job.ID != "77" {
					t.Errorf("%d, %v, %+v", n, err, list[0].Job)
				}
				return
			}
			if n, left, err := Cancel(t.Context(), &slurm.Queue{}, m.Ledger, func(string) {}); err != nil || n != 1 || left != nil || calls(t, dir, "scancel") != 1 {
				t.Errorf("%d, %q, %v", n, left, err)
			}
		})
	}
}

// Jobs whose ids are known are cancelled before anything waits for one that Slurm may still take, and the user is told.
func TestCancelDoesNotWait(t *testing.T) {
	m := manager(t, t.TempDir())
	late = time.Second
	comment := newComment()
	for _, e := range []Event{{Event: began}, {Event: submitting, Task: "case0", Comment: comment}, {Event: submitted, Task: "case0", Job: "77"},
		{Event: submitting, Task: "case1", Comment: newComment()}} {
		must.Do(t, m.Ledger.Add(e))
	}
	dir := fake(t, `sleep 0.2; echo "77|RUNNING|node1|N/A|N/A|`+comment+`|None|/x/job.sh"`)
	said := 0
	n, left, err := Cancel(t.Context(), &slurm.Queue{}, m.Ledger, func(text string) {
		if said++; calls(t, dir, "scancel") != 1 {
			t.Errorf("%s: %d jobs are cancelled", text, calls(t, dir, "scancel"))
		}
	})
	if err != nil || n != 1 || left != nil || said != 1 || calls(t, dir, "scancel") != 1 {
		t.Errorf("%d, %q, %v, told %d times", n, left, err, said)
	}
}

// A job is found, too, whose sbatch has failed as Slurm was away, in the run itself.
func TestSubmittedToSlowSlurm(t *testing.T) {
	list := tasks(t, 1)
	dir := fake(t, slowly(`$(sed -n 's/^sbatch .*--comment=\([^ ]*\).*/\1/p' calls)`))
	touch(t, filepath.Join(dir, "over"))
	taken := "#!/bin/bash\necho \"sbatch $*\" >> " + dir + "/calls\nexit 1\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "sbatch"), []byte(taken), 0o755))
	m := manager(t, t.TempDir())
	late = 3 * time.Second
	if err := m.Run(t.Context(), list); err != nil || list[0].Err != nil || list[0].Job.ID != "77" {
		t.Errorf("%v, %v, %+v", err, list[0].Err, list[0].Job)
	}
}

// What Slurm does not know is not there once it has answered promptly twice, and for a while where it was slow; one that
// is always slow is believed, too.
func TestPace(t *testing.T) { synctest.Test(t, testPace) }

func testPace(t *testing.T) {
	in := func(took time.Duration) time.Time { return time.Now().Add(-took) }
	var p pace
	if p.answered(in(0)) || !p.answered(in(0)) {
		t.Error("a second prompt answer is to be believed, and no first one")
	}
	p.failed()
	if p.answered(in(0)) || p.answered(in(0)) {
		t.Error("Slurm has not answered a moment ago")
	}
	time.Sleep(late)
	if !p.answered(in(0)) {
		t.Error("Slurm has been prompt for long enough")
	}
	if p.answered(in(2*prompt)) || p.answered(in(0)) || p.answered(in(0)) {
		t.Error("Slurm was late a moment ago")
	}
	p = pace{}
	if p.answered(in(2*prompt)) || p.answered(in(2*prompt)) {
		t.Error("Slurm is slow")
	}
	time.Sleep(4*late + 1)
	if !p.answered(in(2 * prompt)) {
		t.Error("Slurm is always slow")
	}
}
