// Package batch runs cases as jobs of Slurm, several at a time: it submits a
// batch, waits for all of its jobs with one status command per interval, and goes
// on with the next.
//
// Slurm is the truth about jobs. The ledger of an output folder holds what Slurm does
// not know: before a job is submitted its intent, before the next one is its id, and
// then what became of it. So a run that was interrupted can be resumed: it reads the
// ledger and asks Slurm, and no job is lost or submitted twice. Jobs are cancelled by
// id, and only those that Slurm's own words tie to the ledger: ids are given again
// when a cluster is set up anew.
package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/lazyre"
	"perigee/internal/kit/slurm"
)

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
	deaf    time.Time // before which Slurm is not asked what it has done to jobs: it has not answered
}

// slowest bounds the interval while Slurm does not answer, in intervals.
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
	for _, t := range tasks {
		start.Tasks = append(start.Tasks, t.Name)
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

// submit submits the tasks of a batch one after the other. What fails is the
// task's own matter.
func (m *Manager) submit(ctx context.Context, part []*Task) error {
	var valid []*Task
	invalid := 0
	for _, t := range part {
		switch {
		case t.Verdict != "":
			t.over = true
			m.printf("  %s was recorded before: %s\n", t.Name, t.Verdict)
		case !t.Valid():
			p := t.Problem()
			t.Err = fmt.Errorf("Validation failed: %s:%d: %s: %s", t.File, p.Line, p.Path, p.Message)
			invalid++
		default:
			valid = append(valid, t)
		}
	}
	good := 0
	for i, t := range valid {
		if err := m.submitOne(ctx, t); err != nil {
			return err
		}
		if t.Err != nil {
			m.printf("  [%3d/%d] %s: %v\n", i+1, len(valid), t.Name, t.Err)
			continue
		}
		good++
		m.printf("  [%3d/%d] Job %s <- %s\n", i+1, len(valid), t.Job.ID, t.Name)
	}
	m.printf("\n%d/%d submitted successfully\n", good, len(valid))
	if invalid > 0 {
		m.printf("Skipped %d invalid config(s)\n", invalid)
	}
	for _, t := range part {
		if t.Err != nil {
			if err := m.end(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// submitOne submits a task, unless it has a job already.
func (m *Manager) submitOne(ctx context.Context, t *Task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.Job.ID != "" {
		return nil // of the run that is resumed
	}
	t.comment = newComment()
	plan, err := t.Plan(t.comment)
	if err != nil {
		t.Err = err
		return nil
	}
	if err := plan.Write(); NoRoom(err) {
		return err // no failure of the case: it is run when there is room
	} else if err != nil { // such as an environment.log_dir that cannot be made
		t.Err = fmt.Errorf("it can have no folder: %w", err)
		return nil
	}
	t.Written = true
	if err := m.Ledger.Add(Event{Event: submitting, Task: t.Name, Comment: t.comment, Dir: t.Dir}); err != nil {
		return err
	}
	t.Submitted, m.Ledger.pace = time.Now(), pace{}
	// An interrupt must not end sbatch between the job and its id.
	id, err := m.Queue.Submit(context.WithoutCancel(ctx), plan.Command()[1:])
	if err != nil {
		cause := err
		if id, err = m.findAfter(ctx, t, cause); err != nil {
			return err // the ledger says that there may be a job
		}
		if id == "" {
			t.Err = fmt.Errorf("Job submission failed: %w", cause)
			return m.Ledger.Add(Event{Event: rejected, Task: t.Name})
		}
	}
	t.Job, t.ours = slurm.Job{ID: id, State: "PENDING"}, true
	return m.Ledger.Add(Event{Event: submitted, Task: t.Name, Job: id})
}

// findAfter looks for the job of a task whose sbatch has failed, which does not prove that there is none: it may have
// been accepted. It asks until Slurm answers, and where Slurm was slow for a while longer, since what sbatch has asked
// may still be under way then. It returns "" if there is no job.
func (m *Manager) findAfter(ctx context.Context, t *Task, cause error) (id string, err error) {
	if notStarted(cause) {
		return "", nil
	}
	intent := Event{Event: submitting, Time: t.Submitted, Comment: t.comment, Dir: t.Dir, answered: true}
	pace := &m.Ledger.pace
	if time.Since(t.Submitted) > hung || strings.Contains(cause.Error(), "timed out") {
		pace.failed()
	} else {
		pace.prompt = time.Now() // it was an answer
	}
	for interval := m.Poll; ; interval = min(2*interval, slowest*m.Poll) {
		mine, err := m.Ledger.mine(ctx, m.Queue, map[string]Event{t.Name: intent}, nil)
		switch {
		case err == nil:
			return m.Ledger.find(mine, intent), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case notStarted(err) || time.Since(t.Submitted) > m.Timeout:
			return "", fault.New(fault.Launch, "whether Slurm has taken the job of %s is not known: %w; and then %w",
				t.Name, cause, err).
				WithHint("perigee disagg run --resume finds out, and goes on")
		}
		m.printf("%s: %v; Slurm does not say whether it has taken the job, asking again in %s: %v\n", t.Name, cause,
			interval, err)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(interval):
		}
	}
}

// notStarted reports whether a command of Slurm could not be started at all, or has ended over its own configuration,
// before it could ask Slurm for anything.
func notStarted(err error) bool {
	_, unknown := errors.AsType[*exec.Error](err)
	_, denied := errors.AsType[*fs.PathError](err)
	return unknown || denied || err != nil && noConfiguration.MatchString(err.Error())
}

// noConfiguration matches the words of Slurm's commands that find no configuration, or cannot read it.
var noConfiguration = lazyre.New(
	`fatal: (Unable to process configuration file|Could not establish a configuration source)|` +
		`[Uu]nable to (status|open|read|process) (the )?(file|configuration file) .*slurm\.conf`,
)

// NoRoom reports whether a file could not be written for want of room on its disk, which is no matter of one task.
func NoRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// end hands a task on once it is over.
func (m *Manager) end(t *Task) error {
	t.over, t.Ended = true, time.Now()
	t.End.Job, t.End.State = t.Job.ID, t.Job.State
	t.learnReason()
	if t.Job.ID != "" {
		if err := m.Ledger.Add(Event{Event: ended, Task: t.Name, Job: t.Job.ID}); err != nil {
			return err
		}
	}
	return m.Ended(t)
}
