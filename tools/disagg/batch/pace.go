package batch

import "time"

// late is how long Slurm may take to know a job whose sbatch has been sent. Tests set it.
var late = 15 * time.Second

const (
	prompt = time.Second     // an answer within it is one of a Slurm that keeps up
	hung   = 5 * time.Second // an sbatch that fails after it may have failed because Slurm does not keep up
)

// pace is how promptly Slurm has answered since the last job was submitted, or since this process began. It says when
// Slurm is to be believed that there is no job of an intent: a Slurm that was away for a while first answers what was
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
