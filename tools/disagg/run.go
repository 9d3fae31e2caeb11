package disagg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/slurm"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
	"perigee/internal/serving/plan"
	"perigee/tools/disagg/report"
)

// Folder names the place of results.
type Folder struct {
	Output string `short:"o" placeholder:"DIR" help:"Folder of results and logs [OUTPUT_PATH, or disagg_output here]."`
	Trust  bool   `name:"trust-output" hidden:"" help:"Without effect."`
}

func (f Folder) path(s cli.Streams) (string, error) {
	dir, err := filepath.Abs(cmp.Or(f.Output, s.Env("OUTPUT_PATH"), "disagg_output"))
	if err != nil {
		return "", fault.New(fault.Output, "%w", err)
	}
	return dir, nil
}

// RunCmd is `perigee disagg run`.
type RunCmd struct {
	Files []string `arg:"" optional:"" name:"file" help:"Configurations or folders of them instead of the tree at --root."`
	Selection
	Reading
	Folder
	BatchSize string        `name:"batch-size" aliases:"disagg-batch-size" placeholder:"N" help:"Jobs per batch; 0: all at once [DISAGG_BATCH_SIZE, or 5]."`
	Repeat    int           `min:"1" max:"1000" default:"1" placeholder:"N" help:"Run every case so often, interleaved, so that the noise is known [1]."`
	Nodes     int           `min:"1" placeholder:"N" help:"Nodes of every job instead of the computed number, with one task per server and node [GPU type LOCAL: 1]."`
	DryRun    bool          `help:"Say what would be submitted, a line for each case, and submit nothing; with -o DIR the scripts are in DIR/dry_run."`
	Resume    bool          `help:"Go on with the interrupted run in the output folder: its jobs are neither lost nor submitted twice."`
	Probe     bool          `help:"Measure the fabric between a job's nodes with perigee before the benchmark."`
	Timeout   time.Duration `default:"36000s" placeholder:"TIME" help:"How long a job may take, from its submission [36000s]."`
	Poll      time.Duration `default:"30s" placeholder:"TIME" help:"Time between status commands, one for all jobs; longer while Slurm does not answer [30s]."`
	Watch     time.Duration `default:"2s" placeholder:"TIME" help:"Time between looks at the jobs' logs for early failures [2s]."`
	Settle    time.Duration `default:"1s" placeholder:"TIME" help:"Wait until a log has not grown for so long, unless the job's end mark is there [1s]."`
	Error     []string      `name:"error-pattern" sep:"none" placeholder:"REGEX" help:"A further pattern in the logs of workers after which a job is cancelled. Can be repeated."`
	JUnit     string        `name:"junit" placeholder:"FILE" help:"JUnit report [junit.xml in the output folder]."`
	judge.Gates
	Format

	Capture bool `short:"s" hidden:"" help:"Without effect: an option of pytest."`
	Verbose int  `short:"v" type:"counter" hidden:"" help:"Without effect: an option of pytest."`
}

// session is one run of the command.
type session struct {
	*RunCmd
	s        cli.Streams
	dir      string
	began    time.Time
	gpu      config.GPU
	assumed  bool // no user has named the GPU
	log      *runLog
	tasks    []*batch.Task
	outcomes map[*batch.Task]*outcome
	live     *live
	ledger   *batch.Ledger
	debugs   bool // judges results that are there, without Slurm
}

// Run submits the cases and judges them.
func (c *RunCmd) Run(s cli.Streams) error {
	size, patterns, err := c.check(s)
	if err != nil {
		return err
	}
	debug, how := s.Env("DEBUG_MODE") == "1" && !c.DryRun, c.Reading
	if debug {
		how.Validation = string(config.Logs)
	}
	f, err := c.find(s, c.Files, how, c.Folder)
	if err != nil {
		return err
	}
	f.remark(plaintext.Writer(s.Err))
	selected := config.Selected(f.cases)
	if f.nothingFailed() {
		fmt.Fprintln(s.Err, "nothing to run: none of these cases failed when it last ran")
		if c.Format.Format == "json" {
			return printJSON(s.Out, []judge.Case{})
		}
		return nil
	}
	if len(selected) == 0 {
		return fault.New(fault.Input, "no test is selected (%s): there is nothing to run", c.described(s, f)).
			WithHint("perigee disagg list shows the tests, and why each is deselected")
	}
	if more := len(f.cases) - len(selected); more > 0 && f.list == nil {
		fmt.Fprintf(s.Err, "%d of %s deselected (%s): perigee disagg list shows why\n", more,
			cli.Count(len(f.cases), "case"), plaintext.Escape(c.described(s, f)))
	}
	dir, err := c.Folder.path(s)
	if err != nil {
		return err
	}
	run := &session{RunCmd: c, s: s, dir: dir, began: time.Now(), outcomes: map[*batch.Task]*outcome{}}
	run.debugs = debug
	run.gpu, run.assumed = c.gpu(s)
	if err := run.makeTasks(selected); err != nil {
		return err
	}
	if c.DryRun {
		return run.dry()
	}
	if !debug {
		sayInvalid(plaintext.Writer(s.Err), selected)
	}
	if err := run.prepare(); err != nil {
		return err
	}
	defer run.log.Close()
	if debug {
		return run.debug(cmp.Or(s.Env("DEBUG_JOB_ID"), "908390"))
	}
	return run.submit(size, patterns)
}

// sayInvalid says what is wrong with the cases that will not be submitted, before any other is.
func sayInvalid(w io.Writer, selected []*config.Config) {
	said := map[string]bool{} // what several cases of one file have in common
	for _, c := range selected {
		for _, p := range c.Problems {
			if text := where(c.File, p); !said[text] {
				said[text] = true
				fmt.Fprintln(w, "not submitted:", text)
			}
		}
	}
}

// check validates the options before anything is read.
func (c *RunCmd) check(s cli.Streams) (size int, patterns []*regexp.Regexp, err error) {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"timeout", c.Timeout}, {"poll", c.Poll}, {"watch", c.Watch}} {
		if d.value <= 0 {
			return 0, nil, fault.New(fault.Usage, "--%s: wanted more than 0, got %s", d.flag, d.value)
		}
	}
	if c.Failed && c.Resume {
		return 0, nil, fault.New(fault.Usage, "--last-failed begins a new run, and --resume goes on with one: wanted one of them")
	}
	patterns = append(patterns, judge.EarlyPatterns...)
	for _, text := range c.Error {
		p, err := regexp.Compile(text)
		if err != nil {
			return 0, nil, fault.New(fault.Usage, "--error-pattern: %w", err)
		}
		patterns = append(patterns, p)
	}
	size, err = c.size(s)
	return size, patterns, err
}

// size is the number of jobs of a batch: the option, the variable, or 5.
func (c *RunCmd) size(s cli.Streams) (int, error) {
	name, text := "--batch-size", c.BatchSize
	if text == "" {
		name, text = "DISAGG_BATCH_SIZE", s.Env("DISAGG_BATCH_SIZE")
	}
	const usual = 5
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil && c.BatchSize == "" {
		fmt.Fprintf(s.Err, "warning: %s is %q, wanted a number; the batch size is %d\n", name, cli.Shortened(text), usual)
		return usual, nil
	}
	if err != nil || n < 0 {
		return 0, fault.New(fault.Usage, "%s: wanted a number from 0, which is all at once, got %q", name, cli.Shortened(text))
	}
	return n, nil
}

// makeTasks makes a task of every case and repetition, and refuses those that would mix. Repetitions are
// interleaved, so that a machine that grows slower does not favour one case.
func (r *session) makeTasks(selected []*config.Config) error {
	for repeat := 1; repeat <= r.Repeat; repeat++ {
		for _, c := range selected {
			if repeat == 1 && !r.debugs {
				c.Problems = append(c.Problems, c.Unset()...)
			}
			name, folder := c.Ident.String(), strings.ReplaceAll(c.Ident.String(), ":", "-")
			if repeat > 1 {
				name, folder = fmt.Sprintf("%s#%d", name, repeat), fmt.Sprintf("%s.%d", folder, repeat)
			}
			dir := filepath.Join(r.dir, judge.LogsFolder, folder)
			if own := c.Environment.LogDir; own != "" && filepath.IsAbs(own) {
				dir = filepath.Join(own, batch.FolderName(r.dir), folder)
			}
			t := &batch.Task{Config: c, Name: name, Repeat: repeat, Dir: dir}
			t.Plan = func(comment string) (*plan.Plan, error) { return r.plan(t, comment) }
			r.tasks = append(r.tasks, t)
		}
	}
	return r.checkFolders()
}

// checkFolders refuses tasks that would take each other's files, or names, for their own.
func (r *session) checkFolders() error {
	named, taken := map[string]*batch.Task{}, map[string]*batch.Task{}
	for _, t := range r.tasks {
		if other := named[t.Name]; other != nil {
			return fault.New(fault.Input, "%s and %s are both the case %s", other.File, t.File, t.Name).
				WithHint("rename one of the files, or run them into different output folders")
		}
		named[t.Name] = t
		const longest = 230 // what is set aside, and what has failed, has longer names
		if name := filepath.Base(t.Dir); len(name) > longest {
			return fault.New(fault.Input, "%s: the case %s would have a result folder whose name has %d bytes; wanted %d at most", t.File, t.Name,
				len(name), longest).WithHint("rename the file")
		}
		for _, dir := range []string{t.Dir, t.Dir + batch.FailedSuffix} {
			if other := taken[dir]; other != nil {
				return fault.New(fault.Input, "%s (%s) and %s (%s) would use the same result folder %s", other.Name,
					other.File, t.Name, t.File, dir).
					WithHint("rename one of the files, or run them into different output folders")
			}
			taken[dir] = t
		}
	}
	return nil
}

// plan makes the job of a task.
func (r *session) plan(t *batch.Task, comment string) (*plan.Plan, error) {
	o := plan.Options{Dir: t.Dir, GPU: r.gpu, Nodes: r.Nodes, Comment: comment}
	if r.gpu.Name == "LOCAL" && r.Nodes == 0 && !t.UsesCommand() {
		o.Nodes = 1
	}
	if r.Probe {
		program, err := os.Executable()
		if err != nil {
			return nil, fault.New(fault.Internal, "the path of perigee: %w", err)
		}
		o.Perigee = program // a probe is part of the job
	}
	return plan.New(t.Config, o)
}

// planned is a job in the JSON of --dry-run.
type planned struct {
	ID       string            `json:"id"`
	Template string            `json:"template"`
	Command  []string          `json:"command"`
	Nodes    int               `json:"nodes"`          // as submitted
	Computed int               `json:"computed_nodes"` // that the config asks for
	Script   string            `json:"script"`         // its text
	Files    map[string]string `json:"files"`          // by name, in the result folder
	Error    string            `json:"error,omitempty"`
}

// dryFolder is the folder of an output folder with the scripts of --dry-run.
const dryFolder = "dry_run"

// dry says what would be submitted, job by job: the scripts of all, which --output takes, may be more than fits into
// memory.
func (r *session) dry() (err error) {
	failed, unwritten := 0, error(nil)
	one := func(i int) planned {
		t := r.tasks[i]
		plan, err := r.dryPlan(t)
		if err != nil {
			failed++
			return planned{ID: t.Name, Error: err.Error()}
		}
		if r.Folder.Output != "" {
			dir := filepath.Join(r.dir, dryFolder, filepath.Base(t.Dir))
			unwritten = cmp.Or(unwritten, writeScripts(dir, plan))
		}
		return planned{t.Name, plan.Template, plan.Command(), plan.Nodes, plan.Computed, plan.Text, plan.Files, ""}
	}
	if r.Format.Format == "json" {
		err = cli.WriteList(r.s.Out, "", len(r.tasks), func(i int) any { return one(i) })
	} else {
		for i := 0; i < len(r.tasks) && err == nil; i++ {
			if _, err = io.WriteString(r.s.Out, one(i).text()); err != nil {
				err = cli.LostOutput(err)
			}
		}
	}
	if err = cmp.Or(err, unwritten); err != nil {
		return err
	}
	if r.Folder.Output != "" {
		fmt.Fprintln(plaintext.Writer(r.s.Err), "scripts are in", filepath.Join(r.dir, dryFolder))
	}
	if failed > 0 {
		return fault.New(fault.Input, "%d of %s would not be submitted", failed, cli.Count(len(r.tasks), "job"))
	}
	return nil
}

func (r *session) dryPlan(t *batch.Task) (*plan.Plan, error) {
	if !t.Valid() {
		return nil, errors.New(where(t.File, t.Problem()))
	}
	return r.plan(t, "perigee-<random>")
}

// writeScripts writes the script of a job and the files that it reads into a folder. Only the user reads them: they may
// hold secrets.
func writeScripts(dir string, p *plan.Plan) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Output, "%w", err)
	}
	files := maps.Clone(p.Files)
	files[filepath.Base(p.Script)] = p.Text
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			return fault.New(fault.Output, "%w", err)
		}
	}
	return nil
}

// text is a job for people, in a line.
func (p planned) text() string {
	if p.Error != "" {
		return plaintext.Text(fmt.Sprintf("%s: not submitted: %s\n", plaintext.Escape(p.ID), p.Error))
	}
	computed := ""
	if p.Computed != p.Nodes {
		computed = fmt.Sprintf(" (the config asks for %d)", p.Computed)
	}
	tasks, limit := "", "no --time="
	for _, a := range p.Command {
		if text, ok := strings.CutPrefix(a, "--ntasks="); ok {
			if n, err := strconv.Atoi(text); err == nil {
				tasks = ", " + cli.Count(n, "task")
			}
		}
		if strings.HasPrefix(a, "--time=") {
			limit = a
		}
	}
	return plaintext.Text(fmt.Sprintf("%s: %s%s%s, %s, template %s\n", plaintext.Escape(p.ID), cli.Count(p.Nodes, "node"), computed, tasks,
		plaintext.Escape(limit), p.Template))
}

// prepare makes the output folder and finds out, before anything is submitted,
// whether it can be written to.
func (r *session) prepare() error {
	if err := os.MkdirAll(filepath.Join(r.dir, judge.LogsFolder), 0o777); err != nil {
		return fault.New(fault.Output, "the output folder: %w",
			err).WithHint("--output or OUTPUT_PATH names another one")
	}
	if err := r.writable(); err != nil {
		return err
	}
	if err := r.checkResults(); err != nil {
		return err
	}
	if err := report.CheckCSV(filepath.Join(r.dir, report.CSVName)); err != nil {
		return err
	}
	var err error
	r.log, err = openRunLog(r.dir, r.began, r.s.Err)
	return err
}

// checkResults refuses to replace the results of a case that only has the same folder, as x_ERROR is that of the case
// x_ERROR, and of x where it fails.
func (r *session) checkResults() error {
	for _, t := range r.tasks {
		id := t.Ident.String()
		if c := caseOf(t, func(c *judge.Case) bool { return c.ID != id }); c != nil {
			return fault.New(fault.Input, "%s holds the results of the case %s, and %s would replace them", c.Dir, c.ID, t.Name).
				WithHint("rename the file of the case, or set OUTPUT_PATH to another folder")
		}
	}
	return nil
}

// submit runs the tasks and judges them as they end.
func (r *session) submit(size int, patterns []*regexp.Regexp) error {
	ledger, err := batch.OpenLedger(r.dir)
	if err != nil {
		return err
	}
	defer ledger.Close()
	cli.IgnoreBrokenPipes() // the jobs go on without a reader, and what they measure has to be collected
	r.ledger = ledger
	r.live = newLive(r.s.Err)
	r.log.before = r.live.clear
	m := &batch.Manager{
		Queue: &slurm.Queue{Keep: ledger.Held()}, Ledger: ledger, Size: size, Poll: r.Poll, Watch: min(r.Watch, r.Poll),
		Timeout: r.Timeout, Patterns: patterns,
		Log: r.log, Ended: r.collect, Changed: func([]*batch.Task) { r.live.show(r.tasks) },
	}
	if err := r.resume(m, ledger); err != nil {
		return err
	}
	// A lost terminal (SIGHUP) ends this process as it stands: the jobs go on, and --resume takes them up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = m.Run(ctx, r.tasks)
	r.live.clear()
	if ctx.Err() != nil {
		stop() // a second signal ends this process at once
		return errors.Join(r.interrupted(m, ledger), r.summarize())
	}
	if err != nil {
		return fault.New(fault.KindOf(err), "%w",
			err).WithHint("perigee disagg run --resume goes on, perigee disagg clean cancels the jobs")
	}
	return r.finish()
}

// resume takes up the jobs of an interrupted run, or refuses to run beside them.
func (r *session) resume(m *batch.Manager, ledger *batch.Ledger) error {
	if !r.Resume {
		_, done := ledger.Last()
		if done {
			return nil
		}
		if err := r.refuseOpen(ledger); err != nil {
			return err
		}
		return ledger.Forget()
	}
	n, err := m.Resume(context.Background(), r.tasks)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "Resuming: %s of the interrupted run\n", cli.Count(n, "job"))
	return nil
}

// refuseOpen refuses to run beside the jobs of an interrupted run.
func (r *session) refuseOpen(ledger *batch.Ledger) error {
	if open := ledger.Open(); len(open) > 0 {
		return fault.New(fault.Usage, "%s: an interrupted run has left %s that may still be running", r.dir, cli.Count(len(open), "job")).
			WithHint("--resume goes on with it, perigee disagg clean cancels its jobs; if you know that none runs, as in a copy of the folder, move its jobs.jsonl away")
	}
	return nil
}

// interrupted cancels the jobs of this run; on a terminal it asks first.
func (r *session) interrupted(m *batch.Manager, ledger *batch.Ledger) error {
	open := ledger.Open()
	if len(open) > 0 && !r.live.confirm(r.s.In, fmt.Sprintf("Cancel the %s of this run? [Y/n] ",
		cli.Count(len(open), "job"))) {
		return fault.New(fault.Interrupt, "interrupted; %s left running", cli.Count(len(open), "job")).
			WithHint("perigee disagg run --resume goes on with them, perigee disagg clean cancels them")
	}
	const most = 2 * time.Minute // a Slurm that is always slow is believed after one
	ctx, stop := context.WithTimeout(context.Background(), most)
	defer stop()
	n, err := cancelJobs(ctx, r.log, m.Queue, ledger)
	if err != nil {
		return fault.New(fault.Interrupt, "interrupted; not all jobs could be cancelled: %w",
			err).WithHint("perigee disagg clean tries again")
	}
	return fault.New(fault.Interrupt, "interrupted; %s cancelled", cli.Count(n, "job")).
		WithHint("perigee disagg run --resume runs what is left")
}

// CleanCmd is `perigee disagg clean`.
type CleanCmd struct{ Folder }

// Run cancels the jobs that an interrupted run has left behind.
func (c *CleanCmd) Run(s cli.Streams) error {
	dir, err := c.Folder.path(s)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return fault.New(fault.Input, "there is no output folder: %w", err).WithHint("--output or OUTPUT_PATH names it")
	}
	ledger, err := batch.OpenLedger(dir)
	if err != nil {
		return err
	}
	defer ledger.Close()
	n, err := cancelJobs(context.Background(), s.Err, &slurm.Queue{}, ledger)
	if err != nil {
		return fault.New(fault.Launch, "%w", err)
	}
	_, err = fmt.Fprintf(s.Out, "%s cancelled\n", cli.Count(n, "job"))
	return err
}

// cancelJobs cancels the jobs of a ledger, says on w which are left alone and why, and returns how many there were.
func cancelJobs(ctx context.Context, w io.Writer, q *slurm.Queue, ledger *batch.Ledger) (int, error) {
	n, left, err := batch.Cancel(ctx, q, ledger, func(text string) { fmt.Fprintln(w, text) })
	for _, text := range left {
		fmt.Fprintln(w, "left alone:", plaintext.Escape(text))
	}
	return n, err
}
