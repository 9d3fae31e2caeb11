package batch

import (
	"context"
	"strings"
	"time"

	"perigee/tools/disagg/judge"
)

// past asks what Slurm has done to a job in a moment that no poll has seen, and reports whether it is preempting it.
// While Slurm does not answer, not every job is asked about: that may take long, and fails no case.
func (m *Manager) past(ctx context.Context, t *Task) bool {
	if t.Lost || !t.tied || time.Now().Before(m.deaf) {
		return false
	}
	past, err := m.Queue.Past(ctx, t.Job.ID)
	if err != nil {
		m.deaf = time.Now().Add(m.Poll)
		return false
	}
	t.Suspended = t.Suspended || past.Suspended
	t.Preempted = past.Preempted
	return past.Preempted
}

// waits reports whether the job waits to be run, or to be released.
func (t *Task) waits() bool {
	return t.Job.State == "PENDING" || t.Job.State == "REQUEUE_HOLD" || t.Job.State == "SPECIAL_EXIT"
}

// held says of a job that Slurm holds, as it does after a prolog that has failed, that it waits to be released:
// nothing else would be heard of it until its time is over.
func (m *Manager) held(t *Task) {
	reason := strings.ToLower(t.Job.Reason)
	if !strings.Contains(reason, "held") && !strings.HasPrefix(reason, "jobhold") {
		return
	}
	if !t.waits() || t.held == t.Job.Reason {
		return
	}
	t.held = t.Job.Reason
	m.printf("%s: Slurm holds job %s (%s), and does not start it by itself: scontrol release %[2]s, once its node is mended "+
		"or who holds it agrees; or Ctrl-C, or scancel %[2]s\n", t.Name, t.Job.ID, t.held)
}

// late says that a job is cancelled for its time, and why it was waiting, if it was.
func (m *Manager) late(t *Task) {
	why := ""
	if t.waits() && t.Pending != "" {
		t.Waiting = t.Pending
		why = ": it was waiting (" + t.Waiting + ")"
	}
	m.printf("%s: job %s has not ended within %s and is cancelled%s\n", t.Name, t.Job.ID, m.Timeout, why)
}

// LateWords says that the job was cancelled for its time.
func (t *Task) LateWords(timeout time.Duration) string {
	words := "the job has not ended within " + timeout.String()
	if t.Waiting != "" {
		words += ": it was waiting (" + t.Waiting + ")"
	}
	return words
}

// stopping notes once why the job is cancelled, for a run that goes on with it: which of the parts that have died then
// the cancellation has ended is not to be seen. An error of the ledger comes again with the end of the job.
func (m *Manager) stopping(t *Task) {
	if t.said {
		return
	}
	why := t.LateWords(m.Timeout)
	if t.Death != nil {
		why = t.Death.Words() + ": " + t.Death.Line
	}
	_ = m.Ledger.Add(Event{Event: stopping, Task: t.Name, Job: t.Job.ID, Reason: why})
}

// learnReason takes over why an earlier run was about to cancel the job, if the job has ended so.
func (t *Task) learnReason() {
	if t.Reason == "" && !t.said && (t.Job.State == "CANCELLED" || t.Lost) && !judge.Done(t.Dir) {
		t.Reason = t.why
	}
}

// End says how the job of a task has ended. timeout is how long it was given.
func (t *Task) End(timeout time.Duration) judge.End {
	e := judge.End{
		Job: t.Job.ID, State: t.Job.State, Preempted: t.Preempted, Suspended: t.Suspended, Lost: t.Lost,
		Cancelled: t.Stopped(), Death: t.Death, Stopped: t.Reason,
	}
	if t.TimedOut {
		e.Late = t.LateWords(timeout)
	}
	return e
}
