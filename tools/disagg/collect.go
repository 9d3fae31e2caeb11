package disagg

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/version"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
	"perigee/internal/serving/probe"
	"perigee/tools/disagg/report"
)

// outcome holds the result of a task.
type outcome struct {
	judge.Case
	kept  bool // a run that was interrupted has judged it, and its verdict is on the disk
	again bool // an earlier run has judged the same results

	apart  bool // its files do not go to those of the job, but into another folder
	unkept bool // no folder takes its files
}

// collect judges a task that has ended, and writes down what it found.
func (r *session) collect(t *batch.Task) error {
	o := r.outcomeOf(t)
	r.outcomes[t] = o
	switch {
	case t.Err != nil:
		o.Verdict = judge.NoFigures(t.Err.Error())
		o.apart = !t.Written // what may be in the folder is an earlier run's
	case !keep(t, o):
		r.alone(t, o, func() { r.judge(t, o) })
	}
	if err := r.write(t, o); err != nil {
		return err
	}
	reason := ""
	if o.unkept {
		reason = cli.Shortened(strings.Join(o.Reasons, "; "))
	}
	return r.ledger.Recorded(t, o.State, reason)
}

// outcomeOf begins the outcome of a task that has ended now. Its times are without the monotonic clock's readings, as
// the verdict keeps them: a run that goes on finds its rows by what lies between them.
func (r *session) outcomeOf(t *batch.Task) *outcome {
	o := &outcome{}
	o.ID, o.Repeat = t.Ident.String(), t.Repeat
	o.File, o.Model, o.Input, o.Output = t.File, t.ModelName, t.Benchmark.Input, t.Benchmark.Output
	o.Dir, o.Perigee = t.Dir, version.Get()
	o.Job, o.Slurm, o.Nodes, o.Pending = t.Job.ID, t.Job.State, t.Job.Nodes, t.Pending
	o.Preempted, o.Suspended = t.End.Preempted, t.End.Suspended
	o.Began, o.Ended = t.Submitted.Round(0), time.Now().Round(0)
	if t.Submitted.IsZero() {
		o.Began = o.Ended
	}
	o.QueueS, o.RunS = t.Queued.Seconds(), max(0, o.Ended.Sub(o.Began)-t.Queued).Seconds()
	switch res := t.Resources; {
	case !t.UsesCommand():
		o.GPUs = t.Gen.World()*t.Hardware.GenServers + t.Ctx.World()*t.Hardware.CtxServers
	case res != nil:
		o.GPUs = res.Prefill.GPUs() + res.Decode.GPUs() + res.Agg.GPUs()
	}
	return o
}

// keep takes the verdict that an interrupted run has written of the same job. Its rows may be in the CSV file, which
// only the same times show.
func keep(t *batch.Task, o *outcome) bool {
	if !t.Resumed {
		return false
	}
	c := caseOf(t, func(c *judge.Case) bool { return c.Job == t.Job.ID })
	if c == nil {
		return false
	}
	*o = outcome{Case: *c, kept: true}
	return true
}

// alone calls f for a task. A panic, which would be a defect of perigee, fails this case alone: its log would end each
// further run, too.
func (r *session) alone(t *batch.Task, o *outcome, f func()) {
	defer func() {
		if p := recover(); p != nil {
			err := cli.Defect(p)
			o.Verdict = judge.NoFigures(err.Error())
			fmt.Fprintf(r.log, "%s: %v (%s)\n", t.Name, err, err.Hint)
		}
	}()
	f()
}

// judge reads the logs of a task.
func (r *session) judge(t *batch.Task, o *outcome) {
	want := judge.Expected(t.Config)
	e, err := judge.Gather(t.Dir, want, judge.Patience{Quiet: r.Settle, Limit: 10 * r.Settle})
	if err != nil {
		reason := err.Error()
		if _, err := os.Stat(t.Dir); err != nil {
			reason = "Result directory not found: " + reason
		}
		o.Verdict = judge.NoFigures(reason)
		return
	}
	o.Verdict = judge.Judge(e, want, r.Gates, &t.End)
	if err := o.HoldTransfers(t.Dir, want.Line, r.Gates); err != nil {
		o.Warnings = append(o.Warnings, err.Error())
	}
	if r.Probe {
		if p := probe.Read(t.Dir); p.Corrupt != "" {
			o.State, o.Reasons = judge.Failed, append([]string{p.String()}, o.Reasons...)
		}
	}
	if o.Death != nil {
		o.Detail = o.Death.Report(t.Name)
	}
	if o.Stopped = t.End.Stopped; t.End.Cancelled && len(o.Reasons) > 0 {
		o.Stopped = o.Reasons[0]
	}
}

// write keeps the figures of a task: the verdict and the result always, then rows of the CSV file if the benchmark is
// good. The verdict comes first, so that a run that goes on after an interrupt adds no row a second time.
func (r *session) write(t *batch.Task, o *outcome) error {
	if err := r.store(t, o); err != nil {
		return err
	}
	if err := r.append(t, o); err != nil {
		return err
	}
	if o.State != judge.Failed {
		fmt.Fprintf(r.log, "[SUCCESS] %s: %s\n", t.Name, o.State)
		return nil
	}
	_, err := os.Lstat(t.Dir)
	where := " (logs in " + o.Dir + ")"
	switch {
	case o.apart && t.Err == nil && err == nil:
		where = " (logs in " + t.Dir + ")"
	case o.unkept && err != nil:
		where = ""
	}
	fmt.Fprintf(r.log, "%s failed: %s%s\n", t.Name, strings.Join(o.Reasons, "; "), where)
	return nil
}

// append adds the rows of a task to the CSV file, unless an earlier run has.
func (r *session) append(t *batch.Task, o *outcome) error {
	rows := r.rows(t, o)
	if len(rows) == 0 || !o.Sound() {
		return nil
	}
	path := filepath.Join(r.dir, report.CSVName)
	if o.kept || o.again {
		missing, err := report.Missing(path, rows)
		if err != nil {
			return err
		}
		if o.again && len(missing) < len(rows) {
			fmt.Fprintf(r.log, "%s: %s has figures of this run already; they stay as they are\n", t.Name, report.CSVName)
			return nil
		}
		if rows = missing; len(rows) == 0 {
			return nil
		}
	}
	return report.AppendCSV(path, rows)
}

// rows are the lines of the CSV file.
func (r *session) rows(t *batch.Task, o *outcome) (rows []report.Row) {
	metrics, gpu := judge.Expected(t.Config).Metrics, r.gpu
	if r.assumed && t.UsesCommand() {
		gpu = config.GPU{} // of which no clock is known
	}
	for _, l := range o.Levels {
		if !l.Complete {
			continue
		}
		row := report.Row{
			Test: config.Function(t.Category) + "[" + o.ID + "]", Concurrency: l.Concurrency,
			SM: gpu.SMClock, Mem: gpu.MemClock, Start: o.Began, End: o.Ended,
			Command: fmt.Sprintf("disagg_benchmark --model=%s --%s --concurrency=%d", t.ModelName, t.Precision,
				l.Concurrency),
		}
		for _, name := range metrics {
			if value, ok := l.Metrics[name]; ok {
				row.Metric, row.Value = name, value
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// debug judges the results that are there, without Slurm.
func (r *session) debug(job string) error {
	ledger, err := batch.OpenLedger(r.dir) // nothing else may use the folder meanwhile
	if err != nil {
		return err
	}
	defer ledger.Close()
	if err := r.refuseOpen(ledger); err != nil {
		return err
	}
	fmt.Fprintf(r.log, "DEBUG_MODE: no job is submitted; the results of job %s are read\n", job)
	for _, t := range r.tasks {
		t.Job.ID, t.Submitted = job, r.began
		if t.Err = findResults(t); t.Err != nil { // what is in the folder stays
			o := r.outcomeOf(t)
			o.Verdict = judge.NoFigures(t.Err.Error())
			r.outcomes[t] = o
			continue
		}
		if err := r.debugOne(t); err != nil {
			return err
		}
	}
	return r.summarize()
}

// findResults puts the results of a task in their place. A case that has failed is judged anew.
func findResults(t *batch.Task) error {
	if p := misread(t.Config); p != nil {
		return errors.New(where(t.File, *p))
	}
	_, err := os.Stat(t.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if e := os.Rename(t.Dir+batch.FailedSuffix, t.Dir); e == nil || !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("Result directory not found: %w", err)
	}
	return nil
}

// debugOne judges the results of a task.
func (r *session) debugOne(t *batch.Task) error {
	// The times and the job of these figures may be known.
	c := caseOf(t, func(c *judge.Case) bool { return c.Dir == t.Dir })
	if c != nil {
		t.Job.ID, t.Job.State, t.Job.Nodes, t.Pending = c.Job, c.Slurm, c.Nodes, c.Pending
		t.End = judge.End{State: c.Slurm, Preempted: c.Preempted, Suspended: c.Suspended, Stopped: c.Stopped}
		t.Queued = time.Duration(c.QueueS * float64(time.Second))
	}
	o := r.outcomeOf(t)
	if c != nil {
		o.Began, o.Ended, o.again, o.RunS = c.Began, c.Ended, true, c.RunS
	}
	r.outcomes[t] = o
	r.alone(t, o, func() {
		r.judge(t, o)
		before := len(o.Warnings)
		for _, p := range t.Config.Warnings {
			o.Warnings = append(o.Warnings, where(t.File, p))
		}
		if batch.Changed(t) {
			o.Warnings = append(o.Warnings, "judged by another configuration than that of the job, "+plan.Effective)
		}
		for _, text := range o.Warnings[before:] {
			fmt.Fprintf(r.log, "warning: %s: %s\n", t.Name, text)
		}
	})
	return r.write(t, o)
}

// measured adds what lies in the folder of a task beside its logs.
func (r *session) measured(o *outcome) {
	o.Config = ""
	if text, err := plan.ReadEffective(o.Dir); err == nil {
		o.Config = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	if r.Probe {
		o.Probe = probe.Read(o.Dir)
	}
}
