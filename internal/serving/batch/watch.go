package batch

import (
	"context"
	"strings"
	"time"

	"perigee/internal/serving/judge"
)

// wait waits for all tasks of a batch.
func (m *Manager) wait(ctx context.Context, part []*Task) error {
	interval, next := m.Poll, time.Now().Add(min(m.Poll, time.Second))
	for {
		open := opened(part)
		if len(open) == 0 {
			return nil
		}
		isNew, isDue := m.look(open), !time.Now().Before(next)
		if answers := interval == m.Poll; isDue || isNew && answers {
			err := m.poll(ctx, open, isDue)
			switch {
			case err == nil:
				interval = m.Poll
				m.stopSuspects(ctx, open)
			case ctx.Err() == nil:
				interval = min(2*interval, slowest*m.Poll)
				m.printf("Slurm does not answer, asking again in %s: %v\n", interval, err)
			}
			if isDue || err != nil {
				next = time.Now().Add(interval)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, t := range open {
			if !t.over {
				continue
			}
			m.past(ctx, t)
			if err := m.end(t); err != nil {
				return err
			}
		}
		if m.Changed != nil {
			m.Changed(part)
		}
		if len(opened(part)) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(m.Watch, time.Until(next))):
		}
	}
}

// opened lists the tasks that have a job and are not over.
func opened(part []*Task) (open []*Task) {
	for _, t := range part {
		if !t.over && t.Job.ID != "" {
			open = append(open, t)
		}
	}
	return open
}

// grace bounds the time that a cancelled job takes to end.
const grace = 30 * time.Second

// look watches the files and the time of tasks, and reports whether one is newly suspect.
func (m *Manager) look(open []*Task) (isNew bool) {
	for _, t := range open {
		before := t.suspect
		switch {
		case !t.cancelled.IsZero():
			t.over = time.Since(t.cancelled) > grace
		case t.isLate(m.Timeout):
			t.suspect = true
		default:
			death := judge.FindDeath(t.Dir, m.Patterns)
			if death != nil && markOf(death) == t.old {
				death = nil
			}
			t.End.Death, t.suspect = death, death != nil
		}
		isNew = isNew || t.suspect && !before
	}
	return isNew
}

// patience counts the answers of Slurm in a row that must lack a job before it counts
// as gone: a new job, and one that has just ended, may be missing for a moment.
const patience = 3

// poll asks for the state of all open tasks with one command. Only polls that are due count for patience.
func (m *Manager) poll(ctx context.Context, open []*Task, isDue bool) error {
	jobs, err := m.Queue.Poll(ctx, idsOf(open))
	if err != nil {
		return err
	}
	var gone []*Task
	for _, t := range open {
		job, known := jobs[t.Job.ID]
		t.foreign = known && !t.owns(job)
		t.known = known && !t.foreign
		switch {
		case t.known:
			t.absent = 0
			t.see(job)
			m.held(t)
		case isDue:
			if t.absent++; t.absent >= patience {
				gone = append(gone, t)
			}
		}
	}
	if len(gone) > 0 {
		m.account(ctx, gone)
	}
	return nil
}

func idsOf(tasks []*Task) (ids []string) {
	for _, t := range tasks {
		ids = append(ids, t.Job.ID)
	}
	return ids
}

// account asks the accounting for jobs that the queue has forgotten. A job that
// it does not know either is over, and how it ended is unknown.
func (m *Manager) account(ctx context.Context, gone []*Task) {
	jobs := m.Queue.Account(ctx, idsOf(gone))
	for _, t := range gone {
		if job, known := jobs[t.Job.ID]; known && !t.foreign {
			t.see(job)
		} else {
			t.End.Lost = true
		}
		t.over = true
	}
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

// stopSuspects cancels the jobs that are suspect, if Slurm has just said that they are there: some may have ended
// meanwhile, or wait to be run once more.
func (m *Manager) stopSuspects(ctx context.Context, open []*Task) {
	for _, t := range open {
		switch {
		case ctx.Err() != nil:
			return
		case !t.suspect || t.over || !t.cancelled.IsZero():
		case t.foreign:
			m.printf("%s: job %s is not cancelled: Slurm does not say that it is one of this run\n", t.Name, t.Job.ID)
			m.late(t)
			t.cancelled = time.Now() // by whatever has the id now: nothing more is done about it
		case !t.known:
		case t.End.Death != nil && (!t.isDead(t.End.Death) || m.past(ctx, t)):
			t.End.Death = nil
		default:
			m.stop(ctx, t)
		}
	}
}

// stop cancels the job of a task. It is over when Slurm says so. Where Slurm does not take that, it is tried again
// after the next poll, and the job may end by itself meanwhile. The ledger has the reason first, for a run that goes on
// with this one: which of the parts that have died then the cancellation has ended is not to be seen.
func (m *Manager) stop(ctx context.Context, t *Task) {
	why := m.late(t)
	if !t.announced {
		t.announced = true
		if d := t.End.Death; d != nil {
			why = d.Words() + ": " + d.Line
			m.printf("%s\n", d.Report(t.Name))
		} else {
			m.printf("%s: job %s has not ended within %s and is cancelled%s\n", t.Name, t.Job.ID, m.Timeout, t.waiting())
		}
		// An error of the ledger comes again with the end of the job.
		_ = m.Ledger.Add(Event{Event: stopping, Task: t.Name, Job: t.Job.ID, Reason: why})
	}
	if err := m.Queue.Cancel(context.WithoutCancel(ctx), t.Job.ID); err != nil {
		m.printf("%s: cannot cancel job %s, trying again in %s: %v\n", t.Name, t.Job.ID, m.Poll, err)
		return
	}
	t.cancelled, t.End.Cancelled = time.Now(), true
}

// late notes that the time of a job is over, unless the job has come to its end, and says it. The job may come to its
// end while Slurm refuses to cancel it.
func (m *Manager) late(t *Task) string {
	t.End.Late = ""
	words := "the job has not ended within " + m.Timeout.String() + t.waiting()
	if t.isLate(m.Timeout) && !judge.Done(t.Dir) {
		t.End.Late = words
	}
	return words
}

// past asks what Slurm has done to a job in a moment that no poll has seen, and reports whether it is preempting it. It
// does not ask where another job has the id.
// While Slurm does not answer, not every job is asked about: that may take long, and fails no case.
func (m *Manager) past(ctx context.Context, t *Task) bool {
	if t.End.Lost || t.foreign || time.Now().Before(m.deaf) {
		return false
	}
	past, err := m.Queue.Past(ctx, t.Job.ID)
	if err != nil {
		m.deaf = time.Now().Add(m.Poll)
		return false
	}
	t.End.Suspended = t.End.Suspended || past.Suspended
	t.End.Preempted = past.Preempted
	return past.Preempted
}
