package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"perigee/internal/slurm"
)

// Cancel cancels the jobs of an output folder that may still be in Slurm, by their
// ids, and notes it. It returns how many there were, and says of each job that the
// ledger names and that stays why it does. A slow Slurm may still take a job that was being submitted: the others are
// cancelled before Cancel waits for that, which it announces by say.
func Cancel(ctx context.Context, q *slurm.Queue, l *Ledger, say func(text string)) (
	count int, left []string, err error,
) {
	c := cancellation{ctx: ctx, queue: q, ledger: l, open: l.Open()}
	said := false
	jobs, err := l.mine(ctx, q, c.open, func(jobs map[string]slurm.Job) {
		c.cancel(jobs, false)
		if !said {
			say("waiting for Slurm, which may still take a job that was being submitted")
			said = true
		}
	})
	if err != nil {
		return c.count, c.left, errors.Join(append(c.failures, err)...)
	}
	c.cancel(jobs, true)
	if err := errors.Join(c.failures...); err != nil {
		return c.count, c.left, err
	}
	return c.count, c.left, l.Add(Event{Event: finished})
}

// cancellation is what Cancel has done.
type cancellation struct {
	ctx      context.Context
	queue    *slurm.Queue
	ledger   *Ledger
	open     map[string]Event // of the tasks whose job it has not decided about
	count    int
	left     []string
	failures []error
}

// cancel decides about open tasks by the user's jobs: about those that have a job, and if these are all jobs that there
// will be, about all.
func (c *cancellation) cancel(jobs map[string]slurm.Job, all bool) {
	l := c.ledger
	for _, name := range slices.Sorted(maps.Keys(c.open)) {
		e := c.open[name]
		id := e.Job
		if e.Event == submitting {
			id = l.find(jobs, e)
		}
		job, is := jobs[id]
		if !is && !all {
			continue
		}
		delete(c.open, name)
		event := cancelled
		switch {
		case id == "":
		case is && job.Over():
			if (job.State != "CANCELLED" || marked(e.Dir, id)) && owns(e, job) {
				event = ended // it may have figures, which Resume collects
			}
		case !is && marked(e.Dir, id):
			event = ended
		case !is:
			c.left = append(c.left, fmt.Sprintf("%s: Slurm has no job %s of yours (any more)", name, id))
		case !owns(e, job):
			c.left = append(c.left, l.stranger(name, id))
		default:
			// The intent comes first: who is killed in between does not take the job for one that has failed.
			err := l.Add(Event{Event: cancelling, Task: name, Job: id})
			if err == nil {
				err = c.queue.Cancel(c.ctx, id)
			}
			if err != nil {
				c.failures = append(c.failures, fmt.Errorf("job %s of %s: %w", id, name, err))
				continue
			}
			c.count++
			if marked(e.Dir, id) {
				event = ended
			}
		}
		if err := l.Add(Event{Event: event, Task: name, Job: id}); err != nil {
			c.failures = append(c.failures, err)
		}
	}
}
