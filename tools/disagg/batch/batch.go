// Package batch runs cases as jobs of Slurm, several at a time: it submits a
// batch, waits for all of its jobs with one status command per interval, and goes
// on with the next.
//
// Before a job is submitted, the ledger holds its intent; before the next one is,
// its id. So a run that was interrupted can be resumed without losing a job or
// submitting one twice. Jobs are cancelled by id, and only those that Slurm's own
// words tie to the ledger: it is a file, and could name any job.
package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"perigee/internal/conf"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/slurm"
	"perigee/tools/disagg/config"
	"perigee/tools/disagg/judge"
	"perigee/tools/disagg/launch"
)

// Task is one run of a case.
type Task struct {
	*config.Config
	Name string // id of the case, with #2 for the second repetition
	Dir  string // result folder, absolute
	Plan func(comment string) (*launch.Plan, error)

	NoFolder  error     // why there can be no Dir: the task is not submitted; nil if there can
	Err       error     // why there is no job
	Written   bool      // the files of the job are in Dir: what is there is no earlier run's
	Job       slurm.Job // as last seen
	Submitted time.Time
	Queued    time.Duration // until it started; all of its time if it never did
	Pending   string        // why it was last waiting, in Slurm's words
	Waiting   string        // the same, if it was waiting when it was cancelled for its time
	Ended     time.Time
	TimedOut  bool
	Suspended bool         // Slurm has stopped it for a while
	Preempted bool         // Slurm has ended it, or meant to, to run another job
	Lost      bool         // Slurm forgot how it ended
	Death     *judge.Death // nil unless a part ended before its time
	Reason    string       // why an earlier run has cancelled it, if that is known
	Resumed   bool
	Verdict   string // of an earlier run that recorded it: it is not run again
	Recorded  string // the reason of that verdict, if no folder has it

	over   bool
	absent int // polls in a row in which Slurm did not know it
	// tied says that Slurm ties the job to the ledger. Of a resumed run whose job Slurm did not know the ledger alone
	// says so, and another job may have the number: that one is neither asked about nor cancelled.
	tied    bool
	other   bool // another job has its id now
	stopped time.Time
	attempt attempt
	said    bool      // why the job is cancelled
	held    string    // why Slurm holds it, as was said last
	again   time.Time // before which it is not cancelled: Slurm has refused to
	comment string
	why     string // an earlier run was about to cancel it
}

// Stopped reports whether this run has cancelled the job, for its time or for a part that has died.
func (t *Task) Stopped() bool { return t.said && !t.stopped.IsZero() }

// Over reports whether the task needs no more waiting.
func (t *Task) Over() bool { return t.over }

// Manager runs tasks.
type Manager struct {
	Queue    *slurm.Queue
	Ledger   *Ledger
	Size     int           // of a batch; 0: all at once
	Poll     time.Duration // between status commands
	Watch    time.Duration // between looks at the files of the jobs
	Timeout  time.Duration // of a job, from its submission
	Patterns []*regexp.Regexp
	Log      io.Writer         // what the framework's document calls the log lines
	Ended    func(*Task) error // a task is over; called once for each
	Changed  func([]*Task)     // after each look

	resumed bool
	again   time.Time // before which no job is cancelled: Slurm has not answered
	deaf    time.Time // before which it is not asked what it has done to jobs: it has not answered
}

// slowest is how far the interval grows while Slurm does not answer.
const slowest = 10

// Run runs the tasks in batches, and returns when all are over. The error is that
// of the context, of the ledger, or of Ended; in each case the jobs that are still
// there stay, and Cancel takes them away.
func (m *Manager) Run(ctx context.Context, tasks []*Task) error {
	size := m.Size
	if size <= 0 {
		size = max(1, len(tasks))
	}
	m.announce(len(tasks), size)
	start := Event{Event: began, PID: os.Getpid()}
	if m.resumed {
		start.Event = resumed
	}
	if err := m.Ledger.Add(start); err != nil {
		return err
	}
	for first, number := 0, 0; first < len(tasks); first, number = first+size, number+1 {
		part := tasks[first:min(first+size, len(tasks))]
		m.printf("%s\nSubmitting Batch %d\nRange: [%d:%d] (%d jobs)\n%[1]s\n\n", rule, number, first, first+len(part),
			len(part))
		if err := m.submit(ctx, part); err != nil {
			return err
		}
		if err := m.wait(ctx, part); err != nil {
			return err
		}
	}
	return m.Ledger.Add(Event{Event: finished})
}

var rule = strings.Repeat("=", 70)

func (m *Manager) printf(format string, args ...any) { fmt.Fprintf(m.Log, format, args...) }

func (m *Manager) announce(tasks, size int) {
	words := fmt.Sprintf("%d jobs per batch", size)
	if m.Size <= 0 {
		words = "unlimited (submit all at once)"
	}
	m.printf("%s\nBatch Manager Initialized\nBatch size: %s\n%[1]s\n\nTotal test configs: %[3]d\n", rule, words, tasks)
	if m.Size > 0 {
		m.printf("Total batches: %d\n", (tasks+size-1)/size)
	}
	m.printf("\n")
}

// wait waits for all tasks of a batch.
func (m *Manager) wait(ctx context.Context, part []*Task) error {
	interval, next := m.Poll, time.Now().Add(min(m.Poll, time.Second))
	for {
		open := opened(part)
		if len(open) == 0 {
			return nil
		}
		if now := time.Now(); !now.Before(next) {
			if err := m.poll(ctx, open); err != nil && ctx.Err() == nil {
				interval = min(2*interval, slowest*m.Poll)
				m.printf("Slurm does not answer, asking again in %s: %v\n", interval, err)
			} else {
				interval = m.Poll
			}
			next = time.Now().Add(interval)
		}
		for _, t := range open {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.look(ctx, t)
			if t.over {
				m.past(ctx, t)
				if err := m.end(t); err != nil {
					return err
				}
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

// patience is how many answers of Slurm in a row must lack a job before it counts
// as gone: a new job, and one that has just ended, may be missing for a moment.
const patience = 3

// poll asks for the state of all open tasks with one command.
func (m *Manager) poll(ctx context.Context, open []*Task) error {
	var ids []string
	for _, t := range open {
		ids = append(ids, t.Job.ID)
	}
	jobs, err := m.Queue.Poll(ctx, ids)
	if err != nil {
		return err
	}
	var gone []*Task
	for _, t := range open {
		job, known := jobs[t.Job.ID]
		t.tied = known && t.has(job) || !known && t.tied
		if !known || !t.tied {
			t.other = known
			if t.absent++; t.absent >= patience {
				gone = append(gone, t)
			}
			continue
		}
		t.absent = 0
		t.see(job)
		m.held(t)
	}
	if len(gone) > 0 {
		m.account(ctx, gone)
	}
	return nil
}

// has reports whether a job that has the id of the task's is the task's: of a run that was resumed, in another cluster,
// or since Slurm has lost what it knew, another may have that id.
func (t *Task) has(job slurm.Job) bool {
	if bears(job, t.comment) || filepath.Dir(job.Command) == t.Dir {
		return true
	}
	// A wrapper of sbatch may have sent a copy of the script: what Slurm has said first is what is the task's.
	first := t.Job.State == "PENDING" && t.attempt.seen.IsZero()
	return t.tied && (first || t.Job.Command == job.Command)
}

// see takes what Slurm says of the job.
func (t *Task) see(job slurm.Job) {
	if t.attempt.see(t.Job, job) {
		t.Preempted, t.Suspended = false, false // the attempt before was
	}
	t.Suspended = t.Suspended || job.State == "SUSPENDED"
	t.Job = job
	if t.waits() && job.Reason != "None" {
		t.Pending = job.Reason
	}
	began := job.Started
	if job.State == "PENDING" || began.IsZero() || began.After(time.Now()) {
		began = time.Now()
	}
	t.Queued = max(0, began.Sub(t.Submitted))
	t.over = t.over || job.Over()
}

// account asks the accounting for jobs that the queue has forgotten. A job that
// it does not know either is over, and how it ended is unknown.
func (m *Manager) account(ctx context.Context, gone []*Task) {
	var ids []string
	for _, t := range gone {
		ids = append(ids, t.Job.ID)
	}
	jobs := m.Queue.Account(ctx, ids)
	for _, t := range gone {
		if job, known := jobs[t.Job.ID]; known && !t.other {
			t.see(job)
		} else {
			t.Lost = true
		}
		t.over = true
	}
}

// grace is how long a cancelled job may take to end.
const grace = 30 * time.Second

// look watches the files and the time of one task.
func (m *Manager) look(ctx context.Context, t *Task) {
	if t.over {
		return
	}
	switch {
	case !t.stopped.IsZero():
		t.over = time.Since(t.stopped) > grace
	case t.Job.State != "" && time.Since(t.Submitted) > m.Timeout: // one of the run before may have ended long ago
		m.stop(ctx, t, true)
	default:
		switch t.Death = judge.FindDeath(t.Dir, m.Patterns); {
		case t.Death == nil:
		case t.attempt.isOver(t.Death, t.Job.State):
			t.Death = nil
		default:
			m.stop(ctx, t, false)
		}
	}
}

// stop cancels the job of a task, late or with a part that has died; it is over when Slurm says so. While Slurm does
// not answer, stop is to be called again, and the job may end by itself meanwhile.
func (m *Manager) stop(ctx context.Context, t *Task, late bool) {
	if now := time.Now(); now.Before(m.again) || now.Before(t.again) {
		return
	}
	jobs, err := m.Queue.Poll(ctx, []string{t.Job.ID})
	if ctx.Err() != nil {
		return
	}
	job, known := jobs[t.Job.ID]
	late = late && !judge.Done(t.Dir)
	if err == nil && (!t.tied || known && !t.has(job)) {
		t.TimedOut = late
		m.printf("%s: job %s is not cancelled: Slurm does not say that it is one of this run\n", t.Name, t.Job.ID)
		t.stopped = time.Now()
		return
	}
	if err != nil {
		m.again = time.Now().Add(m.Poll)
	} else if !known {
		err = errors.New("Slurm does not know it now")
	}
	if err == nil {
		if t.see(job); t.over {
			return
		}
		switch {
		case t.Death != nil && (t.attempt.isOver(t.Death, t.Job.State) || m.past(ctx, t)):
			t.Death, t.again = nil, time.Now().Add(m.Poll)
			return
		case t.said:
		case t.Death != nil:
			m.printf("%s\n", t.Death.Report(t.Name))
		default:
			m.late(t)
		}
		m.stopping(t)
		t.TimedOut, t.said = late, true
		err = m.Queue.Cancel(context.WithoutCancel(ctx), t.Job.ID)
	}
	if err != nil {
		m.printf("%s: cannot cancel job %s, trying again in %s: %v\n", t.Name, t.Job.ID, m.Poll, err)
		t.again = time.Now().Add(m.Poll)
		return
	}
	t.stopped = time.Now()
}

// end hands a task on once it is over.
func (m *Manager) end(t *Task) error {
	t.over, t.Ended = true, time.Now()
	t.learnReason()
	if t.Job.ID != "" {
		if err := m.Ledger.Add(Event{Event: ended, Task: t.Name, Job: t.Job.ID}); err != nil {
			return err
		}
	}
	return m.Ended(t)
}

// Recorded notes that the figures of a task are on disk, or why there are none if no folder says it.
func (l *Ledger) Recorded(t *Task, state, reason string) error {
	return l.Add(Event{Event: recorded, Task: t.Name, Job: t.Job.ID, State: state, Reason: reason})
}

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
	mine, err := mine(ctx, m.Queue, m.Ledger, last, func(map[string]slurm.Job) {})
	if err != nil {
		return 0, fault.New(fault.Launch, "resume: %w", err)
	}
	m.resumed = true
	count := 0
	for _, t := range tasks {
		e, known := last[t.Name]
		if !known {
			continue
		}
		if e.Event == recorded {
			t.Verdict, t.Recorded = e.State, e.Reason
			if Changed(t) {
				m.printf("Warning: %s has changed since %s was run; the figures are those of %s\n",
					t.File, t.Name, filepath.Join(t.Dir, launch.Effective))
			}
			continue
		}
		id := e.Job
		if e.Event == submitting {
			if id = m.Ledger.find(mine, e); id == "" {
				id = startedAs(t, e)
			}
			if id != "" {
				if err := m.Ledger.Add(Event{Event: submitted, Task: t.Name, Job: id}); err != nil {
					return 0, err
				}
			}
		}
		if id != "" && (e.Event == submitted || e.Event == ended || e.Event == submitting || e.Event == cancelling) {
			job, is := mine[id]
			if is && !m.Ledger.owns(e, job) {
				return 0, fault.New(fault.Input, "%s", stranger(t.Name, id, m.Ledger)).
					WithHint("perigee disagg clean ends the interrupted run, and leaves this job alone")
			}
			if e.Event == cancelling && !judge.Done(t.Dir) && (!is || !job.Over() || job.State == "CANCELLED") {
				if err := m.cancelAgain(ctx, t, id, is && !job.Over()); err != nil {
					return 0, err
				}
				continue
			}
			if Changed(t) {
				return 0, fault.New(fault.Input, "resume: job %s of %s was submitted with another configuration than %s has now",
					id, t.Name, t.File).
					WithHint("go on with that one (it is in %s), or end the interrupted run with perigee disagg clean",
						filepath.Join(t.Dir, launch.Effective))
			}
			t.Job, t.Submitted, t.Resumed = slurm.Job{ID: id}, e.Time, true
			t.comment, t.tied, t.why = e.Comment, is, e.Reason
			count++
		}
	}
	return count, nil
}

// mine returns the user's jobs, if events of tasks need them. An intent may become a job only now: what a killed run
// has sent to a busy Slurm is still done. Each answer with which it waits on goes to waiting, which may remove events.
func mine(ctx context.Context, q *slurm.Queue, l *Ledger, last map[string]Event,
	waiting func(map[string]slurm.Job),
) (map[string]slurm.Job, error) {
	has := func(is func(Event) bool) bool { return slices.ContainsFunc(slices.Collect(maps.Values(last)), is) }
	if !has(func(e Event) bool { return e.Event != recorded }) {
		return nil, nil
	}
	for began := time.Now(); ; {
		asked := time.Now()
		jobs, err := q.Mine(ctx)
		if err != nil {
			l.pace.failed()
			return nil, err
		}
		sure := l.pace.answered(asked)
		open := has(func(e Event) bool {
			// Clocks may differ: the intent may be of the future.
			young := time.Since(e.Time) < late && time.Since(began) <= late
			return e.Event == submitting && (young || !sure) && l.find(jobs, e) == ""
		})
		if !open {
			return jobs, nil
		}
		waiting(jobs)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(late, time.Second)):
		}
	}
}

var jobInfo = regexp.MustCompile(`^SLURM_JOB_ID: ([0-9]{1,18})\n$`)

// startedAs returns the id of the job of an intent that Slurm does not know any more, as its script has noted it in the
// folder, which was made for this job; "" if none has begun there.
func startedAs(t *Task, e Event) string {
	if filepath.Clean(e.Dir) != t.Dir {
		return ""
	}
	data, err := file.Read(filepath.Join(t.Dir, launch.JobInfo), 4<<10)
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

// Changed reports whether a job would be submitted with another configuration now than lies in its folder: what it
// has measured must not be judged by that.
func Changed(t *Task) bool {
	if t.Tree == nil || t.Tree.Kind != conf.Map {
		return false
	}
	now, err := launch.EffectiveText(t.Config)
	if err != nil {
		return false
	}
	for _, dir := range []string{t.Dir, t.Dir + FailedSuffix} {
		if then, err := file.Read(filepath.Join(dir, launch.Effective), mostLedger); err == nil {
			return string(then) != now
		}
	}
	return false
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
			why = "its configuration is invalid now: " + tasks[i].Problems[0].Message
		}
		return fault.New(fault.Input, "resume: the interrupted run in %s has a job of %s, and %s", m.Ledger.dir, name, why).
			WithHint("go on with the configurations and options of that run, or end it with perigee disagg clean")
	}
	return nil
}

// marked reports whether a job has left its own end mark in its result folder: it has figures, whatever Slurm calls its
// end. Good jobs of TensorRT-LLM cancel themselves.
func marked(dir, id string) bool {
	_, err := os.Lstat(filepath.Join(dir, strings.Replace(judge.EndMark, "*", id, 1)))
	return err == nil
}

func stranger(task, id string, l *Ledger) string {
	return fmt.Sprintf("%s: job %s is yours, but %s has not submitted it: neither its comment nor its script says so",
		task, id, l.dir)
}
