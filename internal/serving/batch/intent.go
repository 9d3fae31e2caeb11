package batch

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/kit/slurm"
)

// commentPrefix begins the comments by which jobs are found again.
const commentPrefix = "perigee-"

// newComment invents what the ledger and Slurm know a job by.
func newComment() string { return commentPrefix + rand.Text() }

// bears reports whether a job has a comment of the ledger.
func bears(job slurm.Job, comment string) bool {
	return job.Comment == comment && strings.HasPrefix(comment, commentPrefix)
}

// owns reports whether a job of this user is the one of an event. The id alone proves nothing: a cluster that was set
// up anew gives it again. So Slurm must know the job by the event's comment, or (some sites, and options of sbatch,
// change it) by the script in its folder.
func owns(e Event, job slurm.Job) bool {
	return bears(job, e.Comment) || e.Dir != "" && filepath.Dir(job.Command) == filepath.Clean(e.Dir)
}

// stranger says that a job is not the one of a task.
func (l *Ledger) stranger(task, id string) string {
	return fmt.Sprintf("%s: job %s is yours, but %s has not submitted it: neither its comment nor its script says so",
		task, id, l.dir)
}

// find returns the id of the job of an intent among those of the user, "" if there is none. Where no job has its
// comment, which some sites and options of sbatch change, it is one that runs its script. A folder may have had earlier
// jobs: the ledger knows those, or they have begun before.
func (l *Ledger) find(mine map[string]slurm.Job, e Event) string {
	for id, job := range mine {
		if bears(job, e.Comment) {
			return id
		}
	}
	const slack = 5 * time.Second // of clocks
	for id, job := range mine {
		known := slices.ContainsFunc(l.events, func(e Event) bool { return e.Job == id })
		pending := !job.Over() && (job.Started.IsZero() || job.State == "PENDING")
		if !known && owns(e, job) && (pending || job.Started.After(e.Time.Add(-slack))) {
			return id
		}
	}
	return ""
}

// mine returns the user's jobs, if events of tasks need them. An intent may become a job only now: what a killed run
// has sent to a busy Slurm is still done. waiting is called before each wait for that.
func (l *Ledger) mine(ctx context.Context, q *slurm.Queue, last map[string]Event, waiting func(),
) (jobs map[string]slurm.Job, err error) {
	needed := false
	for _, e := range last {
		needed = needed || e.Event != recorded
	}
	for began := time.Now(); needed; {
		asked := time.Now()
		if jobs, err = q.Mine(ctx); err != nil {
			if ctx.Err() == nil { // an interrupt says nothing of Slurm
				l.pace.failed()
			}
			return nil, err
		}
		sure := l.pace.answered(asked)
		needed = false
		for _, e := range last {
			needed = needed || e.Event == submitting && l.find(jobs, e) == "" && (!sure || isYoung(e, began))
		}
		if !needed {
			break
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(late, time.Second)):
		}
	}
	return jobs, nil
}

// isYoung reports whether Slurm may still be about to take the job of an intent, which it was asked for since began.
// Clocks may differ: the intent may be of the future.
func isYoung(e Event, began time.Time) bool {
	return !e.answered && time.Since(e.Time) < late && time.Since(began) <= late
}

// late bounds the time that Slurm takes to know a job whose sbatch has been sent. Tests set it.
var late = 15 * time.Second

const (
	prompt = time.Second     // an answer within it is one of a Slurm that keeps up
	hung   = 5 * time.Second // an sbatch that fails after it may have failed because Slurm does not keep up
)

// pace notes how promptly Slurm has answered since the last job was submitted, or since this process began. It decides
// when an answer without a job means that an intent has none: a Slurm that was away for a while first answers what was
// asked last, and then does what an sbatch, which may have been killed since, has asked of it.
type pace struct {
	slow   bool      // an answer was late, or missing
	first  time.Time // answer
	prompt time.Time // the first one since which all answers were prompt
}

// failed notes that a question had no answer.
func (p *pace) failed() { p.slow, p.prompt = true, time.Time{} }

// answered notes an answer, and reports whether what it lacks is not there: a prompt one came before it, if Slurm was
// slow long enough before. One that is never prompt is believed after a while.
func (p *pace) answered(asked time.Time) (sure bool) {
	now := time.Now()
	if p.first.IsZero() {
		p.first = now
	}
	if now.Sub(asked) > prompt {
		p.failed()
		return now.Sub(p.first) > 4*late
	}
	if p.prompt.IsZero() {
		p.prompt = now
		return false
	}
	return !p.slow || now.Sub(p.prompt) >= late
}
