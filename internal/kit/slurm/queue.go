package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The longest that one command may take.
const (
	submitLimit = 60 * time.Second
	queryLimit  = 30 * time.Second
)

// Queue submits jobs to Slurm, asks for their state and cancels them, with the
// commands sbatch, squeue, sacct and scancel.
type Queue struct {
	// Env is the environment of the commands; nil is that of this process.
	Env []string
	// Keep is a file that stays open in sbatch, and with it the lock that is on it: a command that goes on after this
	// process was killed may submit a job. nil for none.
	Keep *os.File
}

// Job holds the state of a job, as Slurm says.
type Job struct {
	ID      string
	State   string // PENDING, RUNNING, COMPLETED, CANCELLED ...
	Reason  string // why it is pending; "None" where there is none
	Nodes   string // host list; empty before it starts
	Started time.Time
	Ended   time.Time
	Comment string
	Command string // the script with its arguments; empty where Slurm does not say it
}

// Over reports whether the job has ended.
func (j Job) Over() bool {
	switch j.State {
	case "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "REQUEUED", "REQUEUE_HOLD",
		"REQUEUE_FED",
		"RESIZING", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "RESV_DEL_HOLD", "":
		return false
	}
	return true
}

// output runs a command and returns its standard output. The error holds what it
// wrote to standard error.
func (q *Queue) output(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environ(q.Env)
	if q.Keep != nil && name == "sbatch" {
		cmd.ExtraFiles = []*os.File{q.Keep}
	}
	cmd.WaitDelay = time.Second
	// Ctrl-C on the terminal is not for the commands: an sbatch that it ends looks like one that was refused.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What a wrapper has started ends with it, or it might submit a job later.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well, and something that it has left behind holds its output
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("%s has not answered within %s", name, limit)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		if text := strings.TrimSpace(stderr.String()); text != "" {
			return "", fmt.Errorf("%s: %s", name, text)
		}
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return stdout.String(), nil
}

// steering are variables with which users let the commands leave out jobs, or write times, as they like to see them.
var steering = []string{"SQUEUE_", "SACCT_", "SCANCEL_", "SLURM_TIME_FORMAT="}

// environ is an environment, nil for that of this process, without what would change what the commands say or do.
func environ(env []string) []string {
	if env == nil {
		env = os.Environ()
	}
	return slices.DeleteFunc(slices.Clone(env), func(pair string) bool {
		return slices.ContainsFunc(steering, func(prefix string) bool { return strings.HasPrefix(pair, prefix) })
	})
}

var submitted = regexp.MustCompile(`Submitted batch job (\d+)(?: on cluster (\S+))?`)

// Submit runs sbatch and returns the id of the job. An error does not prove that
// there is no job: sbatch may have been ended after it was accepted. The comment
// of a job finds it again, see [Queue.Mine].
func (q *Queue) Submit(ctx context.Context, args []string) (string, error) {
	out, err := q.output(ctx, submitLimit, "sbatch", args...)
	if err != nil {
		return "", err
	}
	m := submitted.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("sbatch: wanted \"Submitted batch job <id>\", got %q", strings.TrimSpace(out))
	}
	if m[2] != "" {
		return "", fmt.Errorf("sbatch: job %s is on the cluster %s, whose jobs are not watched from here; leave out --clusters, and cancel it with scancel --clusters=%[2]s %[1]s",
			m[1], m[2])
	}
	return m[1], nil
}

// separator is between the fields of squeue. Comments and commands may hold any letter or sign of a keyboard.
const separator = "\x1f"

// fields of squeue: id, state, node list, start, end, comment, reason, command.
var fields = strings.Join([]string{"%i", "%T", "%N", "%S", "%e", "%k", "%r", "%o"}, separator)

// Poll asks for the state of all these jobs of the user with one command. A job that Slurm does not know any more, or
// not yet, is missing in the answer. The error has what squeue has complained of.
func (q *Queue) Poll(ctx context.Context, ids []string) (map[string]Job, error) {
	out, err := q.output(ctx, queryLimit, "squeue", "--noheader", "--states=all", "--me",
		"--jobs="+strings.Join(ids, ","), "--format="+fields)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return map[string]Job{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseQueue(out), nil
}

// parseQueue reads the answer of squeue. Lines of another form are left out. The tasks of an array (7_1, 7_[2-9]) and
// the parts of a heterogeneous job (7+0) are one job, which is over when all of them are.
func parseQueue(out string) map[string]Job {
	jobs := map[string]Job{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), separator)
		if len(f) != 8 {
			continue
		}
		id := f[0]
		if i := strings.IndexAny(id, "_+"); i >= 0 {
			id = id[:i]
		}
		if _, err := strconv.ParseUint(id, 10, 63); err != nil {
			continue
		}
		if other, there := jobs[id]; there && !other.Over() {
			continue
		}
		jobs[id] = Job{ID: id, State: f[1], Nodes: f[2], Started: when(f[3]), Ended: when(f[4]), Comment: f[5],
			Reason: f[6], Command: strings.TrimPrefix(f[7], "(null)")}
	}
	return jobs
}

// when reads a time of Slurm, which is local; N/A is the zero time.
func when(text string) time.Time {
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Account asks the accounting for jobs that squeue does not know any more. Where
// there is no accounting, the answer is empty.
func (q *Queue) Account(ctx context.Context, ids []string) map[string]Job {
	out, err := q.output(ctx, queryLimit, "sacct", "--noheader", "--parsable2", "--allocations",
		"--jobs="+strings.Join(ids, ","),
		"--format=JobID,State,NodeList,Start,End,ExitCode")
	jobs := map[string]Job{}
	if err != nil {
		return jobs
	}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\n"), "|")
		if len(f) == 6 && slices.Contains(ids, f[0]) {
			state, _, _ := strings.Cut(f[1], " ") // CANCELLED by 1000
			jobs[f[0]] = Job{ID: f[0], State: state, Nodes: f[2], Started: when(f[3]), Ended: when(f[4])}
		}
	}
	return jobs
}

// Mine returns all jobs of the user, by id.
func (q *Queue) Mine(ctx context.Context) (map[string]Job, error) {
	out, err := q.output(ctx, queryLimit, "squeue", "--noheader", "--states=all", "--me", "--format="+fields)
	if err != nil {
		return nil, err
	}
	return parseQueue(out), nil
}

// Past lists what Slurm has done to a job since it last began.
type Past struct {
	Preempted bool // it ends the job for another one; the steps have been told, and may have a time of grace
	Suspended bool // it has stopped the job for a while
}

// Past asks what Slurm has done to a job. Of a job that Slurm has forgotten it knows nothing, which is no error.
func (q *Queue) Past(ctx context.Context, id string) (Past, error) {
	out, err := q.output(ctx, queryLimit, "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		if strings.Contains(err.Error(), "Invalid job id") {
			err = nil
		}
		return Past{}, err
	}
	return parsePast(out), nil
}

// parsePast reads the record of a job. What was done before it began was done to an earlier attempt.
func parsePast(out string) Past {
	record := ParseRecord(out)
	began := when(record["StartTime"])
	since := func(field string) bool {
		at := when(record[field])
		return !at.IsZero() && !at.Before(began)
	}
	return Past{Preempted: since("PreemptTime"), Suspended: since("SuspendTime")}
}

// Cancel cancels one job of the user by its id. A job that has ended already is no
// error, nor is one of another user, which stays even if this one is an operator.
func (q *Queue) Cancel(ctx context.Context, id string) error {
	if _, err := strconv.ParseUint(id, 10, 63); err != nil {
		return fmt.Errorf("scancel: %q is not the id of a job", id)
	}
	_, err := q.output(ctx, queryLimit, "scancel", "--user="+strconv.Itoa(os.Geteuid()), id)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}
