package disagg

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/table"
	"perigee/internal/version"
	"perigee/tools/disagg/accuracy"
	"perigee/tools/disagg/batch"
	"perigee/tools/disagg/config"
	"perigee/tools/disagg/plan"
	"perigee/tools/disagg/probe"
	"perigee/tools/disagg/record"
	"perigee/tools/disagg/verdict"
)

// done is what became of a task.
type done struct {
	*verdict.Verdict
	dir   string // where its files are now
	diag  string // what ended before its time
	began time.Time
	ended time.Time
	kept  bool // a run that was interrupted has judged it, and its verdict is on the disk
	again bool // an earlier run has judged the same results

	apart  bool // its files do not go to those of the job, but into another folder
	unkept bool // no folder takes its files
}

// collect judges a task that has ended, and writes down what it found.
func (r *session) collect(t *batch.Task) error {
	d := doneOf(t)
	r.cases[t] = d
	switch {
	case t.Err != nil:
		d.Verdict = noFigures(t.Err.Error())
		d.apart = !t.Written // what may be in the folder is an earlier run's
	case !r.keep(t, d):
		r.alone(t, d, func() { r.judge(t, d) })
	}
	if err := r.write(t, d); err != nil {
		return err
	}
	reason := ""
	if d.unkept {
		reason = cli.Shortened(strings.Join(d.Reasons, "; "))
	}
	return r.ledger.Recorded(t, d.State, reason)
}

// doneOf is a task that has ended now. Its times are without the monotonic clock's readings, as the verdict keeps them:
// a run that goes on finds its rows by what lies between them.
func doneOf(t *batch.Task) *done {
	d := &done{dir: t.Dir, began: t.Submitted.Round(0), ended: time.Now().Round(0)}
	if t.Submitted.IsZero() {
		d.began = d.ended
	}
	return d
}

// keep takes the verdict that an interrupted run has written of the same job. Its rows may be in the CSV file, which
// only the same times and figures show.
func (r *session) keep(t *batch.Task, d *done) bool {
	if !t.Resumed {
		return false
	}
	c := caseOf(t, func(c *Case) bool { return c.Job == t.Job.ID })
	if c == nil {
		return false
	}
	*d = done{Verdict: c.Verdict, dir: c.Dir, diag: c.Detail, began: c.Began, ended: c.Ended, kept: true}
	return true
}

// noFigures is the verdict on a task of which there are no figures. The reason may be of any length.
func noFigures(reason string) *verdict.Verdict {
	return &verdict.Verdict{Levels: []verdict.Level{}, State: verdict.Failed, Reasons: []string{cli.Shortened(reason)}}
}

const suspendedWarning = "Slurm has suspended the job for a while: its figures may hold the pause"

// alone calls f for a task. A panic, which would be a defect of perigee, fails this case alone: its log would end each
// further run, too.
func (r *session) alone(t *batch.Task, d *done, f func()) {
	defer func() {
		if p := recover(); p != nil {
			err := defect(p)
			d.Verdict = noFigures(err.Error())
			fmt.Fprintf(r.log, "%s: %v (%s)\n", t.Name, err, err.Hint)
		}
	}()
	f()
}

// judge reads the logs of a task.
func (r *session) judge(t *batch.Task, d *done) {
	want := verdict.Expected(t.Config)
	e, err := verdict.Gather(t.Dir, want, verdict.Patience{Quiet: r.Settle, Limit: 10 * r.Settle})
	if err != nil {
		reason := err.Error()
		if _, err := os.Stat(t.Dir); err != nil {
			reason = "Result directory not found: " + reason
		}
		d.Verdict = noFigures(reason)
		return
	}
	d.Verdict = verdict.Judge(e, want, r.Gates)
	death := t.Death
	if death == nil {
		death = batch.FindDeath(t.Dir, nil)
	}
	unmarked := death == nil && !batch.Done(t.Dir)
	if t.Suspended {
		d.Warnings = append(d.Warnings, suspendedWarning)
	}
	d.Warnings = append(d.Warnings, batch.Left(t.Dir)...)
	if t.Reason != "" {
		d.fail("%s", t.Reason)
		return
	}
	state := t.Job.State
	how := ended{state: state, preempted: t.Preempted, marked: batch.Done(t.Dir), death: death, stopped: t.Stopped()}
	if t.TimedOut || t.Lost && unmarked {
		how = ended{marked: true, death: death} // the cause is found here
	}
	d.judgeEnd(t.Name, how)
	switch {
	case t.TimedOut:
		d.fail("%s", t.LateWords(r.Timeout))
	case t.Lost && unmarked && state == "": // nothing was ever seen of it but its logs
		d.Warnings = append(d.Warnings, "Slurm has forgotten job "+t.Job.ID+": how it has ended is not known")
	case t.Lost && unmarked && state != "COMPLETED":
		d.fail("Slurm has forgotten job %s, and it has not written its end mark", t.Job.ID)
	}
}

// ended is how a job has ended.
type ended struct {
	state     string       // in Slurm's words
	preempted bool         // for another job, whatever the state
	marked    bool         // with its end mark
	death     *batch.Death // of a part, before the end mark
	stopped   bool         // by perigee, which has said why
}

// causes are why Slurm ends jobs by itself.
var causes = map[string]string{
	"TIMEOUT":       "its time limit (slurm.job_time) was over",
	"DEADLINE":      "its deadline was over",
	"PREEMPTED":     "another job needed its nodes",
	"NODE_FAIL":     "a node of it has failed",
	"BOOT_FAIL":     "a node of it has not booted",
	"OUT_OF_MEMORY": "it needed more memory than it may have",
}

// judgeEnd fails a case of which a part has died, or that Slurm has ended before its end mark. It passes none. Where
// Slurm ends a job, it ends the parts by SIGTERM and SIGKILL: they are not the cause then.
func (d *done) judgeEnd(name string, how ended) {
	cause := ""
	switch state := how.state; {
	case how.marked && how.death == nil || state == "COMPLETED" && how.death == nil || state == "" && !how.preempted:
	case causes[state] != "" && !how.marked:
		cause = fmt.Sprintf("Slurm has ended the job as %s: %s", state, causes[state])
	case how.preempted:
		cause = "Slurm has preempted the job: " + causes["PREEMPTED"]
	case state == "CANCELLED" && !how.stopped && !how.marked:
		cause = "Slurm has ended the job as CANCELLED, before its end mark"
		if how.death != nil && how.death.OfScript() {
			cause = "Slurm has ended the job as CANCELLED, during " + how.death.Part
		}
	case how.death != nil:
	default:
		cause = fmt.Sprintf("Slurm has ended the job as %s, without its end mark", state)
	}
	death := how.death
	if death != nil && (cause == "" || !death.BySlurm() || how.state == "OUT_OF_MEMORY" && death.Killed()) {
		d.fail("%s: %s", death.Words(), death.Line)
		d.diag = death.Report(name)
	}
	if cause != "" {
		d.fail("%s", cause)
	}
}

// fail adds a reason in front: it is the cause of the others.
func (d *done) fail(format string, args ...any) {
	d.Reasons = append([]string{fmt.Sprintf(format, args...)}, d.Reasons...)
	d.State = verdict.Failed
}

// write keeps the figures of a task: the verdict and the result always, then rows of the CSV file if the benchmark is
// good. The verdict comes first, so that a run that goes on after an interrupt adds no row a second time.
func (r *session) write(t *batch.Task, d *done) error {
	if err := r.store(t, d); err != nil {
		return err
	}
	if err := r.append(t, d); err != nil {
		return err
	}
	if d.State == verdict.Failed {
		_, err := os.Lstat(t.Dir)
		where := " (logs in " + d.dir + ")"
		switch {
		case d.apart && t.Err == nil && err == nil:
			where = " (logs in " + t.Dir + ")"
		case d.unkept && err != nil:
			where = ""
		}
		fmt.Fprintf(r.log, "%s failed: %s%s\n", t.Name, strings.Join(d.Reasons, "; "), where)
		return nil
	}
	fmt.Fprintf(r.log, "[SUCCESS] %s: %s\n", t.Name, d.State)
	return nil
}

// append adds the rows of a task to the CSV file, unless the run that was interrupted has.
func (r *session) append(t *batch.Task, d *done) error {
	if !good(d.Verdict) {
		return nil
	}
	path, rows := filepath.Join(r.dir, record.CSVName), r.rows(t, d)
	if len(rows) == 0 {
		return nil
	}
	if d.kept {
		if has, err := record.HasRows(path, rows); has || err != nil {
			return err
		}
	}
	if d.again {
		if has, err := record.HasRun(path, rows[0]); has || err != nil {
			fmt.Fprintf(r.log, "%s: %s has figures of this run already; they stay as they are\n", t.Name, record.CSVName)
			return err
		}
	}
	return record.AppendCSV(path, rows)
}

// good reports whether nothing is wrong with the benchmark itself.
func good(v *verdict.Verdict) bool {
	return !slices.ContainsFunc(v.Reasons, func(s string) bool {
		return !strings.HasPrefix(s, accuracy.Prefix) && !strings.HasPrefix(s, "EVALUATE ") // which comes after it
	})
}

// rows are the lines of the CSV file.
func (r *session) rows(t *batch.Task, d *done) []record.Row {
	var rows []record.Row
	metrics := verdict.Expected(t.Config).Metrics
	for _, l := range d.Levels {
		if !l.Complete {
			continue
		}
		for _, name := range metrics {
			value, ok := l.Metrics[name]
			if !ok {
				continue
			}
			rows = append(rows, record.Row{
				Test: config.Function(t.Category) + "[" + t.Ident.String() + "]", Concurrency: l.Concurrency,
				Metric: name, Value: value,
				SM: r.gpu.SMClock, Mem: r.gpu.MemClock, Start: d.began, End: d.ended,
				Command: fmt.Sprintf("disagg_benchmark --model=%s --%s --concurrency=%d", t.ModelName, t.Precision,
					l.Concurrency),
			})
		}
	}
	return rows
}

func (r *session) summary(t *batch.Task) Case {
	d := r.cases[t]
	id, repeat := runOf(t)
	c := Case{
		ID: id, Repeat: repeat, File: t.File, Model: t.ModelName, Input: t.Benchmark.Input,
		Output: t.Benchmark.Output, Dir: d.dir,
		Job: t.Job.ID, Slurm: t.Job.State, Preempted: t.Preempted, Suspended: t.Suspended,
		Nodes: t.Job.Nodes, Pending: t.Pending, Began: d.began, Ended: d.ended,
		QueueS: t.Queued.Seconds(), RunS: max(0, d.ended.Sub(d.began)-t.Queued).Seconds(), Detail: d.diag,
		Perigee: version.Get(), Verdict: d.Verdict,
	}
	if c.Stopped = t.Reason; t.Stopped() && len(d.Reasons) > 0 {
		c.Stopped = d.Reasons[0]
	}
	switch res := t.Resources; {
	case !t.UsesCommand():
		c.GPUs = t.Gen.World()*t.Hardware.GenServers + t.Ctx.World()*t.Hardware.CtxServers
	case res != nil:
		c.GPUs = res.Prefill.GPUs() + res.Decode.GPUs() + res.Agg.GPUs()
	}
	if text, err := file.Read(filepath.Join(d.dir, plan.Effective), mostVerdict); err == nil {
		c.Config = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	if r.Probe {
		c.Probe = probe.Read(d.dir)
	}
	return c
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
	// What is in the folder stays.
	refuse := func(t *batch.Task, err error) {
		t.Err = err
		r.cases[t] = &done{dir: t.Dir, began: r.began, ended: time.Now(), Verdict: noFigures(err.Error())}
	}
	for _, t := range r.tasks {
		t.Job.ID, t.Submitted = job, r.began
		if p := misread(t.Config); p != nil {
			refuse(t, errors.New(where(t.File, *p)))
			continue
		}
		_, err := os.Stat(t.Dir)
		if errors.Is(err, fs.ErrNotExist) { // a failed case is judged anew, in its own place
			if e := os.Rename(t.Dir+batch.FailedSuffix, t.Dir); e == nil || !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		}
		if err != nil {
			refuse(t, fmt.Errorf("Result directory not found: %w", err))
			continue
		}
		d := doneOf(t)
		// The times and the job of these figures may be known.
		if c := caseOf(t, func(c *Case) bool { return c.Dir == t.Dir }); c != nil {
			d.began, d.ended, d.again = c.Began, c.Ended, true
			t.Job.ID, t.Job.State, t.Job.Nodes, t.Pending = c.Job, c.Slurm, c.Nodes, c.Pending
			t.Preempted, t.Suspended, t.Reason = c.Preempted, c.Suspended, c.Stopped
			t.Queued = time.Duration(c.QueueS * float64(time.Second))
		}
		r.cases[t] = d
		r.alone(t, d, func() {
			r.judge(t, d)
			before := len(d.Warnings)
			for _, p := range t.Config.Warnings {
				d.Warnings = append(d.Warnings, where(t.File, p))
			}
			if batch.Changed(t) {
				d.Warnings = append(d.Warnings, "judged by another configuration than that of the job, "+plan.Effective)
			}
			for _, text := range d.Warnings[before:] {
				fmt.Fprintf(r.log, "warning: %s: %s\n", t.Name, text)
			}
		})
		if err := r.write(t, d); err != nil {
			return err
		}
	}
	return r.summarize()
}

// finish writes what belongs to the whole run.
func (r *session) finish() error {
	if err := record.WriteSession(r.dir, r.began, time.Now()); err != nil {
		return err
	}
	return r.summarize()
}

// summarize writes the reports, prints the table, and returns the error of failed
// cases.
func (r *session) summarize() error {
	var junit []record.Case
	all := []Case{}
	failed := 0
	for _, t := range r.tasks {
		if r.cases[t] == nil && t.Verdict != "" {
			all = append(all, r.recorded(t))
		} else if r.cases[t] != nil {
			all = append(all, r.summary(t))
		}
		d := r.cases[t]
		if d == nil {
			junit = append(junit, record.Case{Name: t.Name, Category: t.Category, Skipped: "not run"})
			continue
		}
		one := record.Case{Name: t.Name, Category: t.Category, Took: d.ended.Sub(d.began), Output: d.diag}
		if d.State == verdict.Failed {
			failed++
			one.Failure = strings.Join(d.Reasons, "\n")
		}
		junit = append(junit, one)
	}
	if err := record.WriteJUnit(cmp.Or(r.JUnit, filepath.Join(r.dir, junitFile)), r.began, junit); err != nil {
		return err
	}
	if r.Format.Format == "json" {
		if err := printList(r.s.Out, elements{len(all), func(i int) any { return all[i] }}); err != nil {
			return err
		}
	} else if err := r.printSummary(failed); err != nil {
		return err
	}
	if failed > 0 {
		return fault.New(fault.Threshold, "%d of %s failed", failed, cli.Count(len(r.tasks), "case"))
	}
	return nil
}

// recorded takes a case that the interrupted run has recorded as it stands in its folder.
func (r *session) recorded(t *batch.Task) Case {
	c := caseOf(t, func(c *Case) bool { return c.State == t.Verdict })
	if c == nil { // its job was never submitted, or the folder is gone
		text := "recorded before, without figures in " + t.Dir
		if t.Recorded != "" {
			text += ": " + t.Recorded
		}
		v := noFigures(text)
		v.State = t.Verdict
		r.cases[t] = &done{Verdict: v, dir: t.Dir}
		return r.summary(t)
	}
	r.cases[t] = &done{Verdict: c.Verdict, dir: c.Dir, diag: c.Detail, began: c.Began, ended: c.Ended, kept: true}
	t.Job.ID, t.Submitted, t.Ended = c.Job, c.Began, c.Ended
	t.Queued = time.Duration(c.QueueS * float64(time.Second))
	return *c
}

func (r *session) printSummary(failed int) error {
	t := taskTable(r.tasks, func(t *batch.Task) (string, string) {
		d := r.cases[t]
		switch {
		case d == nil:
			return "not run", ""
		case len(d.Reasons) > 0:
			return d.State, d.Reasons[0]
		}
		return d.State, ""
	})
	if err := t.WriteText(r.s.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.s.Out, "\n%s, %d failed; results in %s\n", cli.Count(len(r.tasks), "case"), failed, r.dir)
	return err
}

// taskTable lists tasks with their job and times.
func taskTable(tasks []*batch.Task, state func(*batch.Task) (state, remark string)) *table.Table {
	var t table.Table
	for _, name := range []string{"Case", "Job", "State"} {
		t.AddColumn(name, table.Left, "")
	}
	t.AddColumn("Queued (s)", table.Right, "%.1f")
	t.AddColumn("Run (s)", table.Right, "%.1f")
	t.AddColumn("Remark", table.Left, "")
	for _, task := range tasks {
		word, remark := state(task)
		var job, queued, ran, note any
		if task.Job.ID != "" {
			job = task.Job.ID
			end := task.Ended
			if end.IsZero() {
				end = time.Now()
			}
			queued, ran = task.Queued.Seconds(), max(0, end.Sub(task.Submitted)-task.Queued).Seconds()
		}
		if remark != "" {
			// The rest of it stands in the log and in the error stream.
			first, _, more := strings.Cut(remark, "\n")
			if note = first; more {
				note = first + " ..."
			}
		}
		t.AddRow(task.Name, job, word, queued, ran, note)
	}
	return &t
}
