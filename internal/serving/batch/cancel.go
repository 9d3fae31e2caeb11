package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"perigee/internal/kit/slurm"
)

// Cancel cancels the jobs of an output folder that may still be in Slurm, by their
// ids, and notes it. It returns how many there were, and says of each job that the
// ledger names and that stays why it does. A slow Slurm may still take a job that was being submitted: the others are
// cancelled before Cancel waits for that, which it announces by say.
func Cancel(ctx context.Context, q *slurm.Queue, l *Ledger, say func(text string)) (
	count int, left []string, err error,
) {
	intents, known := map[string]Event{}, map[string]Event{}
	for name, e := range l.Open() {
		if e.Event == submitting {
			intents[name] = e
		} else {
			known[name] = e
		}
	}
	wait := sync.OnceFunc(func() { say("waiting for Slurm, which may still take a job that was being submitted") })
	var failures []error
	for _, events := range []map[string]Event{known, intents} {
		jobs, err := l.mine(ctx, q, events, wait)
		if err != nil {
			return count, left, errors.Join(append(failures, err)...)
		}
		for _, name := range slices.Sorted(maps.Keys(events)) {
			e := events[name]
			if e.Event == submitting {
				e.Job = l.find(jobs, e)
			}
			done, stays, err := l.cancelOne(ctx, q, name, e, jobs)
			if done {
				count++
			}
			if stays != "" {
				left = append(left, stays)
			}
			failures = append(failures, err)
		}
	}
	if err := errors.Join(failures...); err != nil {
		return count, left, err
	}
	return count, left, l.Add(Event{Event: finished})
}

// cancelOne cancels the job of a task, whose last event has its id, and notes what became of it. stays says why a job
// that the ledger names is left alone.
func (l *Ledger) cancelOne(ctx context.Context, q *slurm.Queue, name string, e Event, jobs map[string]slurm.Job,
) (done bool, stays string, err error) {
	id := e.Job
	job, is := jobs[id]
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
		stays = fmt.Sprintf("%s: Slurm has no job %s of yours (any more)", name, id)
	case !owns(e, job):
		stays = l.stranger(name, id)
	default:
		// The intent comes first: who is killed in between does not take the job for one that has failed.
		err := l.Add(Event{Event: cancelling, Task: name, Job: id})
		if err == nil {
			err = q.Cancel(ctx, id)
		}
		if err != nil {
			return false, "", fmt.Errorf("job %s of %s: %w", id, name, err)
		}
		done = true
		if marked(e.Dir, id) {
			event = ended
		}
	}
	return done, stays, l.Add(Event{Event: event, Task: name, Job: id})
}
