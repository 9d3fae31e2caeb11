package batch

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/kit/conf"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
)

// Task is one run of a case, with the state of its job.
type Task struct {
	*config.Config
	Name   string // id of the case, with #2 for the second repetition
	Repeat int    // which repetition it is, from 1
	Dir    string // result folder, absolute
	Plan   func(comment string) (*plan.Plan, error)

	Err       error     // why there is no job
	Written   bool      // the files of the job are in Dir: what is there is no earlier run's
	Job       slurm.Job // as last seen
	Submitted time.Time
	Queued    time.Duration // until it started; all of its time if it never did
	Pending   string        // why it was last waiting, in Slurm's words
	Ended     time.Time
	End       judge.End // how it has ended, as far as is known by now
	Resumed   bool
	Verdict   string // of an earlier run that recorded it: it is not run again
	Recorded  string // the reason of that verdict, if no folder has it

	over    bool
	comment string // of the job
	ours    bool   // Slurm has taken the job from this run, or has said that it is of the one that is resumed
	seen    bool   // Slurm has said how the job is
	known   bool   // Slurm knew it when it was asked last
	absent  int    // regular polls in a row in which Slurm did not know it
	foreign bool   // another job has its id now

	// Slurm may run a job more than once. What an earlier attempt has left in the folder is no failure.
	ran       bool      // the job, as far as Slurm has said
	restarted time.Time // when Slurm first said that it runs the job once more; zero if it has not
	old       string    // the mark of a part that an earlier attempt has left

	suspect   bool      // a part has died, or its time is over: it is cancelled if Slurm says that it runs
	announced bool      // why it is cancelled
	cancelled time.Time // when Slurm was asked to
	held      string    // why Slurm holds it, as was said last
	why       string    // an earlier run was about to cancel it
}

// Over reports whether the task needs no more waiting.
func (t *Task) Over() bool { return t.over }

// owns reports whether a job that has the id of the task's is the task's: since Slurm has lost what it knew, another
// may have that id.
func (t *Task) owns(job slurm.Job) bool {
	if bears(job, t.comment) || filepath.Dir(job.Command) == t.Dir {
		return true
	}
	// A wrapper of sbatch can send a copy of the script: Slurm's first answer then says which script is the task's.
	return t.ours && (!t.seen || t.Job.Command == job.Command)
}

// see takes what Slurm says of the job.
func (t *Task) see(job slurm.Job) {
	began := job.Started.After(t.Job.Started) || t.Job.State == "PENDING" && job.State == "RUNNING"
	if t.ran && began {
		t.restarted = time.Now()
		t.End.Preempted, t.End.Suspended = false, false // the attempt before was
	}
	t.Job, t.seen, t.ran = job, true, t.ran || job.State == "RUNNING"
	t.End.Suspended = t.End.Suspended || job.State == "SUSPENDED"
	if t.waits() && job.Reason != "None" {
		t.Pending = job.Reason
	}
	start := job.Started
	if job.State == "PENDING" || start.IsZero() || start.After(time.Now()) {
		start = time.Now()
	}
	t.Queued = max(0, start.Sub(t.Submitted))
	t.over = t.over || job.Over()
}

// waits reports whether the job waits to be run, or to be released.
func (t *Task) waits() bool {
	return t.Job.State == "PENDING" || t.Job.State == "REQUEUE_HOLD" || t.Job.State == "SPECIAL_EXIT"
}

// isDead reports whether a part that has ended is of the attempt that runs, as Slurm has said since.
func (t *Task) isDead(death *judge.Death) bool {
	const clearing = 10 * time.Second // in which a script that is run once more removes what the first attempt has left
	state := t.Job.State
	if state == "PENDING" || state == "CONFIGURING" || strings.HasPrefix(state, "REQUEUE") {
		t.ran, t.old = true, markOf(death) // before it waits
	}
	return state == "RUNNING" && markOf(death) != t.old && time.Since(t.restarted) > clearing
}

// markOf distinguishes the end of a part from that in another attempt.
func markOf(d *judge.Death) string { return fmt.Sprint(d.Part, d.Noted.UnixNano()) }

// isLate reports whether the time of the job is over. One of the run before may have ended long ago: its state comes
// first.
func (t *Task) isLate(timeout time.Duration) bool {
	return t.Job.State != "" && time.Since(t.Submitted) > timeout
}

// waiting says why the job was waiting when its time was over, "" if it was not.
func (t *Task) waiting() string {
	if t.waits() && t.Pending != "" {
		return ": it was waiting (" + t.Pending + ")"
	}
	return ""
}

// learnReason takes over why an earlier run was about to cancel the job, if the job has ended so.
func (t *Task) learnReason() {
	if t.End.Stopped == "" && !t.announced && (t.Job.State == "CANCELLED" || t.End.Lost) && !judge.Done(t.Dir) {
		t.End.Stopped = t.why
	}
}

// Changed reports whether a job would be submitted with another configuration now than lies in its folder: what it
// has measured must not be judged by that.
func Changed(t *Task) bool {
	if t.Tree == nil || t.Tree.Kind != conf.Map {
		return false
	}
	now, err := plan.EffectiveText(t.Config)
	if err != nil {
		return false
	}
	for _, dir := range []string{t.Dir, t.Dir + FailedSuffix} {
		if then, err := plan.ReadEffective(dir); err == nil {
			return string(then) != now
		}
	}
	return false
}
