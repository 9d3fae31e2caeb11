package rerun

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/junit"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/tools/compare"
	"perigee/tools/run"
)

// series reports whether the command makes several runs, one after the other, instead of one.
func (c *Cmd) series() bool { return c.Times != 0 || c.Other != "" }

// side is a result that is repeated, with its new results.
type side struct {
	name   string // in messages and in the folder of results; empty if there is only one
	path   string
	of     *result.Document // that is repeated
	lasted time.Duration    // of its run
	docs   []*result.Document
}

// violation is a threshold that runs of a side violate.
type violation struct {
	threshold, side string
	runs            int
	values          []float64 // of the runs that have samples
}

// repetition is a number of runs under way.
type repetition struct {
	cmd    *Cmd
	s      cli.Streams
	sides  []*side
	order  []int // of each run, its side
	folder string
	spent  time.Duration
	broken []violation
	// run makes one run as the job of an id, whose result it writes to a file. Tests replace it.
	run func(ctx context.Context, path, output, id string) error
}

// runSeries makes the runs and compares. Two results are repeated alternately, in the order ABBA, so that a machine
// that gets slower or faster all the time does so for both.
func (c *Cmd) runSeries(s cli.Streams) error {
	if err := c.checkSeries(); err != nil {
		return err
	}
	cli.IgnoreBrokenPipes()
	old, r, err := c.prepare(s)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
	defer stop()
	if err := claim(r.folder); err != nil {
		return err
	}
	defer r.close()
	r.run = r.child
	r.announce()
	return r.finish(old, r.play(ctx))
}

// writeJUnit writes each run with its thresholds, and the comparison, as tests.
func (r *repetition) writeJUnit(failure error) error {
	if r.cmd.JUnit == "" {
		return nil
	}
	suites := r.cmd.suites(time.Now())
	for _, s := range r.sides {
		for i, d := range s.docs {
			name := strings.TrimSpace(fmt.Sprintf("run %d %s", i+1, s.name))
			suites = append(suites, run.JUnitSuite(name, d.Started, d.Thresholds, nil))
		}
	}
	if failure != nil {
		suites = append(suites, run.JUnitSuite("the series", time.Now(), nil, failure))
	}
	return junit.Write(r.cmd.JUnit, suites...)
}

func (c *Cmd) checkSeries() error {
	if err := c.Judging.Check(); err != nil {
		return err
	}
	if err := cli.NotOver(c.Page, c.Of, c.Other); err != nil {
		return err
	}
	if c.Result != "" && c.Page != "" && c.Page != "-" && file.Below(c.Page, c.Result) {
		return fault.New(fault.Usage, "-o %s is in the folder of --result, beside the results of the runs", c.Page).
			WithHint("name a file elsewhere")
	}
	if c.Times == 0 {
		c.Times = compare.RunsNeeded(c.Alpha) + 1
	}
	if c.Result == "" {
		return nil
	}
	if result.CheckName(c.Result) == nil {
		return fault.New(fault.Usage, "--result %s: several runs have several results, which go into a folder",
			c.Result).
			WithHint("name a folder with --result")
	}
	if _, err := os.Lstat(filepath.Join(c.Result, claimName)); err == nil {
		return claimed(c.Result)
	}
	return checkEmpty(c.Result, 0)
}

// checkEmpty refuses a folder in which there are other files than so many of this series.
func checkEmpty(folder string, own int) error {
	if files, err := os.ReadDir(folder); err == nil && len(files) > own {
		return fault.New(fault.Usage, "--result %s: the folder is not empty", folder).
			WithHint("name a new folder: results of earlier runs would be taken for those of this series")
	}
	return nil
}

// claimName is the file by which a series has a folder for itself, on whatever host another is started.
const claimName = ".perigee-rerun"

func claimed(folder string) error {
	return fault.New(fault.Usage, "--result %s: another series of runs writes its results there, or was killed there", folder).
		WithHint("name another folder")
}

// claim takes a folder for the results of this series alone.
func claim(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fault.New(fault.Output, "folder of the results: %w", err)
	}
	mark := filepath.Join(folder, claimName)
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if errors.Is(err, os.ErrExist) {
		return claimed(folder)
	}
	if err != nil {
		return fault.New(fault.Output, "folder of the results: %w", err)
	}
	f.Close()
	if err := checkEmpty(folder, 1); err != nil { // another has ended meanwhile
		os.Remove(mark)
		return err
	}
	return nil
}

// prepare reads what is to be repeated. old are the results that one side is compared with, where only one is repeated.
func (c *Cmd) prepare(s cli.Streams) (old []*result.Document, r *repetition, err error) {
	r = &repetition{cmd: c, s: s, folder: cmp.Or(c.Result, beside(c.Of, ""))}
	if c.Other == "" {
		path, err := compare.FirstOf(c.Of)
		if err == nil {
			err = run.CheckRepeatable(path)
		}
		if err == nil {
			old, err = compare.ReadAll([]string{c.Of}, compare.Files{})
		}
		if err != nil {
			return nil, nil, err
		}
		r.sides = []*side{{path: path, of: old[0], lasted: lasted(old[0])}}
		r.order = make([]int, c.Times)
	} else {
		for i, path := range []string{c.Of, c.Other} {
			if err := run.CheckRepeatable(path); err != nil {
				return nil, nil, err
			}
			d, err := result.Scan(path, func(*result.Document, *result.Measurement) error { return nil })
			if err != nil {
				return nil, nil, err
			}
			r.sides = append(r.sides, &side{name: string('a' + rune(i)), path: path, of: d, lasted: lasted(d)})
		}
		a, b := r.sides[0], r.sides[1]
		paths, docs := [2]string{a.path, b.path}, [2]*result.Document{a.of, b.of}
		if err := run.CheckSides(paths, docs, c.Flags.Engine); err != nil {
			return nil, nil, err
		}
		r.order = alternating(c.Times)
	}
	return old, r, nil
}

func lasted(d *result.Document) time.Duration {
	if d.Finished == nil {
		return 0
	}
	return max(0, d.Finished.Sub(d.Started))
}

// alternating is the order ABBA ABBA ... in which each side runs so many times.
func alternating(times int) (order []int) {
	for i := range 2 * times {
		order = append(order, (i+1)/2%2)
	}
	return order
}

func (r *repetition) close() {
	for _, path := range []string{claimName, "a", "b", ""} { // folders without a result do not stay
		os.Remove(filepath.Join(r.folder, path))
	}
}

func (r *repetition) printf(format string, args ...any) {
	fmt.Fprintf(r.s.Err, "perigee: "+format+"\n", args...)
}

// announce says what will be done, and for how long.
func (r *repetition) announce() {
	var total time.Duration
	for _, k := range r.order {
		total += r.sides[k].lasted
	}
	what := plaintext.Escape(r.sides[0].path)
	if len(r.sides) == 2 {
		what = fmt.Sprintf("%s (a) and %s (b), in the order a b b a", what, plaintext.Escape(r.sides[1].path))
	}
	about := ""
	if total > 0 {
		about = fmt.Sprintf(", about %s in all", rounded(total))
	}
	r.printf("%s of %s%s; the new results go to %s", cli.Count(len(r.order), "run"), what, about,
		plaintext.Escape(r.folder))
	for _, s := range r.sides {
		for _, note := range run.Surroundings(s.path, s.of, r.cmd.Flags, 1) {
			r.printf("note: %s", plaintext.Escape(note))
		}
	}
}

// rounded is a duration as people say it.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Second)
	}
}

// play makes the runs, one after the other.
func (r *repetition) play(ctx context.Context) error {
	for i, k := range r.order {
		side := r.sides[k]
		folder := filepath.Join(r.folder, side.name)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return fault.New(fault.Output, "folder of the results: %w", err)
		}
		output := filepath.Join(folder, fmt.Sprintf("%03d.json.zst", len(side.docs)+1))
		started := time.Now()
		name := strings.TrimSpace(fmt.Sprintf("run %d of %d %s", i+1, len(r.order), side.name))
		id := rand.Text()
		if err := r.run(ctx, side.path, output, id); err != nil {
			if ctx.Err() != nil {
				return fault.New(fault.Interrupt, "interrupted in %s", name)
			}
			return fault.New(fault.KindOf(err), "%s: %w", name, err).WithHint("%s", fault.HintOf(err))
		}
		d, err := result.Read(output)
		if err != nil {
			return err
		}
		if d.Job == nil || d.Job.ID != id { // then the run has put its own beside it
			return fault.New(fault.Output, "%s: another job has written its result to %s meanwhile", name, output).
				WithHint("repeat the series, in a folder to which nothing else writes")
		}
		violated := r.note(d, side.name)
		if d.Status != result.Complete {
			return unfinished(name, d, violated)
		}
		side.docs = append(side.docs, d)
		took := time.Since(started)
		r.spent += took
		left := ""
		if n := len(r.order) - i - 1; n > 0 {
			left = fmt.Sprintf(", about %s left", rounded(r.spent/time.Duration(i+1)*time.Duration(n)))
		}
		r.printf("%s: %s%s", name, rounded(took), left)
	}
	return nil
}

// unfinished is the error of a run that has left a partial result, though it has not failed otherwise.
func unfinished(name string, d *result.Document, violated []string) error {
	switch f := d.Failure; {
	case len(violated) > 0 && (f == nil || f.Kind == fault.Threshold):
		return fault.New(fault.Threshold, "%s violates %s, which has ended it", name, strings.Join(violated, ", "))
	case f != nil:
		return fault.New(cmp.Or(f.Kind, fault.Internal), "%s has ended early: %s", name, f).WithHint("%s", f.Hint)
	}
	return fault.New(fault.Internal, "%s has ended before its result was complete, which does not say why", name)
}

// note keeps in mind which thresholds a run violates, and returns them.
func (r *repetition) note(d *result.Document, side string) (violated []string) {
	for _, t := range d.Thresholds {
		if t.Passed == nil || *t.Passed {
			continue
		}
		violated = append(violated, t.Threshold)
		i := slices.IndexFunc(r.broken, func(v violation) bool { return v.threshold == t.Threshold && v.side == side })
		if i < 0 {
			i = len(r.broken)
			r.broken = append(r.broken, violation{threshold: t.Threshold, side: side})
		}
		v := &r.broken[i]
		if v.runs++; t.Value != nil {
			v.values = append(v.values, *t.Value)
		}
	}
	return violated
}

func (v violation) String() string {
	text := fmt.Sprintf("%s in %s", v.threshold, cli.Count(v.runs, "run"))
	if v.side != "" {
		text += " of " + v.side
	}
	if len(v.values) > 0 {
		text += fmt.Sprintf(" (%.6g", slices.Min(v.values))
		if len(v.values) > 1 {
			text += fmt.Sprintf(" to %.6g", slices.Max(v.values))
		}
		text += ")"
	}
	return text
}

// violations is the error of runs that have ended and violate thresholds.
func (r *repetition) violations() error {
	if len(r.broken) == 0 {
		return nil
	}
	var list []string
	for _, v := range r.broken {
		list = append(list, v.String())
	}
	return fault.New(fault.Threshold, "violated thresholds: %s", strings.Join(plaintext.First(list, 5, "and %d more"), "; "))
}

// finish compares what there is, also if the series was cut short.
func (r *repetition) finish(old []*result.Document, failure error) (err error) {
	defer func() {
		if lost := r.writeJUnit(failure); err == nil {
			err = lost
		}
	}()
	out := &cli.Output{W: r.s.Out}
	r.s.Out = out
	fresh := r.sides[len(r.sides)-1].docs
	what := fmt.Sprintf("# OLD: %s; NEW: %s now", plaintext.Escape(r.cmd.Of), cli.Count(len(fresh), "run"))
	if len(r.sides) == 2 {
		old = r.sides[0].docs
		what = fmt.Sprintf("# OLD: %s of %s now; NEW: %s of %s now", cli.Count(len(old), "run"),
			plaintext.Escape(r.sides[0].path),
			cli.Count(len(fresh), "run"), plaintext.Escape(r.sides[1].path))
	}
	if len(old) == 0 || len(fresh) == 0 || failure != nil && !r.cmd.asText() {
		return failure
	}
	if r.cmd.asText() {
		fmt.Fprintln(r.s.Out, what)
	}
	advice := func(n int) string { return r.advice(n) }
	err = r.cmd.Judge(r.s, compare.Sides{Old: old, New: fresh, Advice: advice,
		Cases: func(list []junit.Case) { r.cmd.cases = list }})
	return cmp.Or(failure, out.Fault(), r.violations(), err)
}

// advice is the command that makes enough runs, n on each side.
func (r *repetition) advice(n int) string {
	if len(r.sides) == 2 {
		return cli.CommandLine([]string{"perigee", "rerun", r.sides[0].path, r.sides[1].path, "--times", fmt.Sprint(n)})
	}
	return beforeAndAfter(r.sides[0].path, n)
}

// child runs the program once more, for one run without a comparison.
func (r *repetition) child(ctx context.Context, path, output, id string) error {
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to make runs with: %w", err)
	}
	args, err := r.cmd.childArgs(path, output, id)
	if err != nil {
		return err
	}
	var stderr cli.Ends // a script may cause any number of lines
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &stderr
	// Its own process group: Ctrl-C reaches it once, from here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	runtime.LockOSThread() // Pdeathsig follows the thread that starts the process
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case ok && exit.ExitCode() == int(fault.Threshold): // its result says which, and whether it was complete
		return nil
	case ok && exit.ExitCode() > 0:
		r.s.Err.Write(stderr.Bytes())
		return fault.New(fault.Kind(exit.ExitCode()), "the run failed with exit code %d", exit.ExitCode())
	}
	r.s.Err.Write(stderr.Bytes())
	return fault.New(fault.Launch, "the run failed: %w", err)
}

// childArgs is the command line of one run.
func (c *Cmd) childArgs(path, output, id string) ([]string, error) {
	o := options{Flags: c.Flags, Yielding: c.Yielding, OnlyRun: id}
	o.Result, o.Launcher, o.JUnit = output, new("local"), ""
	words, err := cli.Words(&o)
	return slices.Concat([]string{"rerun"}, words, []string{"--", path}), err
}
