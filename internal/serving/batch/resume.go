package batch

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
)

// Resume gives tasks what an earlier run knows of them: their job, or that they
// are recorded. Intents without an id are looked up among the user's jobs. It returns
// how many jobs go on.
func (m *Manager) Resume(ctx context.Context, tasks []*Task) (int, error) {
	last, over := m.Ledger.Last()
	if !over {
		if err := m.missing(last, tasks); err != nil {
			return 0, err
		}
	}
	jobs, err := m.Ledger.mine(ctx, m.Queue, last, nil)
	if err != nil {
		return 0, fault.New(fault.Launch, "resume: %w", err)
	}
	m.resumed = true
	count := 0
	for _, t := range tasks {
		goesOn, err := m.resumeTask(ctx, t, last[t.Name], jobs)
		if err != nil {
			return 0, err
		}
		if goesOn {
			count++
		}
	}
	return count, nil
}

// resumeTask gives a task what its last event says, and reports whether it has a job that goes on. jobs are those of
// the user.
func (m *Manager) resumeTask(ctx context.Context, t *Task, e Event, jobs map[string]slurm.Job) (bool, error) {
	switch e.Event {
	case recorded:
		t.Verdict, t.Recorded = e.State, e.Reason
		if Changed(t) {
			m.printf("Warning: %s has changed since %s was run; the figures are those of %s\n", t.File, t.Name,
				filepath.Join(t.Dir, plan.Effective))
		}
		return false, nil
	case submitting:
		e.Job = cmp.Or(m.Ledger.find(jobs, e), startedAs(t, e))
		if e.Job == "" {
			return false, nil
		}
		if err := m.Ledger.Add(Event{Event: submitted, Task: t.Name, Job: e.Job}); err != nil {
			return false, err
		}
	case submitted, ended, cancelling:
	default: // it has no job that counts
		return false, nil
	}
	job, is := jobs[e.Job]
	if is && !owns(e, job) {
		return false, fault.New(fault.Input, "%s", m.Ledger.stranger(t.Name, e.Job)).
			WithHint("perigee disagg clean ends the interrupted run, and leaves this job alone")
	}
	if e.Event == cancelling && !judge.Done(t.Dir) && (!is || !job.Over() || job.State == "CANCELLED") {
		return false, m.cancelAgain(ctx, t, e.Job, is && !job.Over())
	}
	if Changed(t) {
		return false, fault.New(fault.Input,
			"resume: job %s of %s was submitted with another configuration than %s has now", e.Job, t.Name, t.File).
			WithHint("go on with that one (it is in %s), or end the interrupted run with perigee disagg clean",
				filepath.Join(t.Dir, plan.Effective))
	}
	t.Job, t.Submitted, t.Resumed = slurm.Job{ID: e.Job, Command: job.Command}, e.Time, true
	t.comment, t.ours, t.seen, t.why = e.Comment, is, is, e.Reason
	return true, nil
}

// missing refuses to go on without a task that has a job, or with one whose configuration has become invalid: nothing
// would wait for the job, and its figures would be lost.
func (m *Manager) missing(last map[string]Event, tasks []*Task) error {
	for _, name := range slices.Sorted(maps.Keys(last)) {
		switch last[name].Event {
		case submitting, submitted, ended, cancelling:
		default:
			continue
		}
		why := "this command does not select it"
		if i := slices.IndexFunc(tasks, func(t *Task) bool { return t.Name == name }); i >= 0 {
			if tasks[i].Valid() {
				continue
			}
			why = "its configuration is invalid now: " + tasks[i].Problem().Message
		}
		return fault.New(fault.Input, "resume: the interrupted run in %s has a job of %s, and %s", m.Ledger.dir, name, why).
			WithHint("go on with the configurations and options of that run, or end it with perigee disagg clean")
	}
	return nil
}

var jobInfo = lazyre.New(`^SLURM_JOB_ID: ([0-9]{1,18})\n$`)

// startedAs returns the id of the job of an intent that Slurm does not know any more, as its script has noted it in the
// folder, which was made for this job; "" if none has begun there.
func startedAs(t *Task, e Event) string {
	if filepath.Clean(e.Dir) != t.Dir {
		return ""
	}
	data, err := file.Read(filepath.Join(t.Dir, plan.JobInfo), 4<<10)
	if err != nil {
		return ""
	}
	if id := jobInfo.FindSubmatch(data); id != nil {
		return string(id[1])
	}
	return ""
}

// cancelAgain finishes what an interrupted Cancel has begun with the job of a task, which is run anew.
func (m *Manager) cancelAgain(ctx context.Context, t *Task, id string, runs bool) error {
	if runs {
		if err := m.Queue.Cancel(ctx, id); err != nil {
			return fault.New(fault.Launch, "resume: job %s of %s: %w", id, t.Name, err)
		}
	}
	return m.Ledger.Add(Event{Event: cancelled, Task: t.Name, Job: id})
}

// marked reports whether a job has left its own end mark in its result folder: it has figures, whatever Slurm calls its
// end. Good jobs of TensorRT-LLM cancel themselves.
func marked(dir, id string) bool {
	_, err := os.Lstat(filepath.Join(dir, strings.Replace(judge.EndMark, "*", id, 1)))
	return err == nil
}
