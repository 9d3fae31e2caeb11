package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"time"

	"perigee/internal/dashboard"
	"perigee/internal/experiment"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/junit"
	"perigee/internal/result"
	"perigee/lua"
	"perigee/nixl/engines"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/launch"
)

// Job is a job as it was asked for.
type Job struct {
	Command  string // the words that name it in help: perigee run pingpong
	Scenario string // a path, or the name of a shipped one
	Flags    Flags
	// The scenario's options: the words of a command line without the job's flags, or values by name.
	Words   []string
	Options map[string]any
	// Mistake is the first error in the flags. It is reported when the job has its ranks, once for all.
	Mistake error
	// Env are variables that stand for those of the environment.
	Env map[string]string
	// Process are the words after the program's name that start a rank; nil: they follow from the rest.
	Process []string

	// ID names the job in the result; empty: something random.
	ID string
	// Repeats is the file of an earlier result, whose script and options are run again. A flag that is not given is as
	// it was then.
	Repeats string
	// Prepare, if set, is called with the scenario's options before anything else is done with them.
	Prepare func(f Flags, options map[string]any) error
	// Conclude, if set, looks at the complete result of a run at rank 0, after it was written, and at the
	// result that it repeats, if any. Its error becomes that of the job.
	Conclude func(old, fresh *result.Document) error
	// Suites, if set, returns what Conclude has to say in the file of --junit.
	Suites func() []junit.Suite
	// Says is what rank 0 says on standard error before the run.
	Says string
	// Aside sends what the scenario prints to standard error: standard output is Conclude's.
	Aside bool

	stdin *os.File // for rank 0, if it reads that
}

// Run runs the job and returns when it has ended. An error that the user has seen already is a [cli.Reported].
func (j Job) Run(ctx context.Context, streams cli.Streams) error {
	env := j.Environ()
	streams = ForRanks(streams)
	_, started, err := boot.Started(env)
	if err != nil {
		return err
	}
	if !started {
		if err := StartsHere(env, j.Flags, streams.Err); err != nil {
			return err
		}
		return j.launch(ctx, streams, env)
	}
	if j.Aside {
		streams.Out = streams.Err
	}
	return j.runRank(ctx, streams, env)
}

// StartsHere refuses to start ranks in a process of a launcher that perigee cannot serve, unless the user has said how
// many, and says to w where there may be such a launcher.
func StartsHere(env boot.Environ, flags Flags, w io.Writer) error {
	if flags.Ranks != nil {
		return nil
	}
	note, err := boot.Unserved(env, boot.Names())
	if note != "" {
		fmt.Fprintln(w, "perigee: note:", note)
	}
	return err
}

// Environ is the environment of this process, as the job changes it.
func (j Job) Environ() boot.Environ {
	return j.Flags.Over(func(key string) (string, bool) {
		if value, ok := j.Env[key]; ok {
			return value, true
		}
		return os.LookupEnv(key)
	})
}

// ForRanks are the streams that ranks are started with: rank 0 gets the file itself, and reports lost output itself.
func ForRanks(s cli.Streams) cli.Streams {
	cli.IgnoreBrokenPipes()
	s.Out = cli.Base(s.Out)
	return s
}

// envJob is the variable by which ranks know the id of their job.
const envJob = "PERIGEE_JOB_ID"

// launch starts the ranks on this machine. What can be refused without
// ranks is refused before they start. In a step of srun the job ends with that.
func (j Job) launch(ctx context.Context, streams cli.Streams, env boot.Environ) error {
	flags, n, err := j.prepare(streams)
	if errors.Is(err, ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := openLog(env, streams)
	if err != nil {
		return err
	}
	defer log.Close()
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to start ranks with: %w", err)
	}
	ctx, again, stop := UntilSignal(ctx)
	defer stop()
	ctx, release := boot.UnderSrun(ctx, os.LookupEnv) // the user has said that a task of srun is no rank
	defer release()
	r := &reporter{err: streams.Err}
	if flags.Iface != "" {
		r.note("warning: --iface has no effect: all ranks are on this machine, and exchange messages in its memory")
	}
	started := time.Now()
	id := cmp.Or(j.ID, rand.Text())
	err = launch.Run(ctx, launch.LocalJob{
		Ranks: n, Path: program, Args: j.Process, Env: append(os.Environ(), envJob+"="+id),
		Stdin: j.stdin, Stdout: streams.Out, Stderr: streams.Err,
		Failed: func(f watch.Failure) { r.print(f) }, Hurry: again,
		Log: log.Logger,
	})
	logEnd(log, "the job is over", err)
	if err == nil {
		return nil
	}
	sweep(log, started)
	within(finalGrace, nil, func() { r.print(err) })
	if flags.Result != "" {
		within(launch.StoringGrace, again, func() { experiment.ExplainPartial(flags.Result, id, err, streams.Err) })
	}
	return cli.Reported{Err: err}
}

// sweep removes what UCX has left in /dev/shm where ranks were killed.
func sweep(log *jobLog, started time.Time) {
	if removed := engines.Sweep(started); len(removed) > 0 {
		log.Info("removed shared memory that killed ranks have left", "files", removed)
	}
}

// within bounds what may never end, such as writing to a pipe that is not read. Once hurry is closed, it may take
// finalGrace.
func within(limit time.Duration, hurry <-chan struct{}, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return
	case <-time.After(limit):
		return
	case <-hurry:
	}
	select {
	case <-done:
	case <-time.After(min(limit, finalGrace)):
	}
}

// prepare reads the scenario and its options, and returns how many ranks
// the job has.
func (j *Job) prepare(streams cli.Streams) (flags Flags, ranks int, err error) {
	if j.Mistake != nil {
		return flags, 0, j.Mistake
	}
	if j.Repeats != "" {
		if err := CheckRepeatable(j.Repeats); err != nil {
			return flags, 0, err
		}
	}
	if err := j.keep(j.Scenario); err != nil {
		return flags, 0, err
	}
	o, err := j.read(1)
	if err == nil && o.old != nil {
		err = j.checkStart(o.old, runtime.NumCPU())
	}
	if err != nil {
		return flags, 0, err
	}
	r, err := o.Script.load(streams.Out)
	if err != nil {
		return flags, 0, err
	}
	defer r.Close()
	flags, own, err := j.parse(o, r.Scenario, streams)
	if err != nil {
		return flags, 0, err
	}
	flags.offer(r)
	if _, err := limitsOf(r, own.values, flags); err != nil {
		return flags, 0, err
	}
	for _, key := range r.Scenario.Keys("path") {
		if path, ok := own.values[key].(string); ok {
			if err := j.keep(path); err != nil {
				return flags, 0, err
			}
		}
	}
	if err := j.checkOutputs(flags, r.Scenario, own); err != nil {
		return flags, 0, err
	}
	if err := j.spell(flags); err != nil {
		return flags, 0, err
	}
	if flags.Ranks != nil {
		return flags, *flags.Ranks, nil
	}
	r.Permit(j.access(flags, o.Script, own))
	ranks, err = r.Ranks(own.values)
	return flags, max(ranks, 1), err
}

// spell sets the words that start a rank of the job, unless they are known.
func (j *Job) spell(flags Flags) error {
	if j.Process != nil {
		return nil
	}
	words, err := cli.Words(&struct {
		Flags
		Yielding
	}{flags, flags.Yielding})
	j.Process = slices.Concat([]string{"run", j.Scenario}, words, j.Words)
	return err
}

// keep lets this process read what a path stands for, and then rank 0, also where that is a pipe or the standard input.
func (j *Job) keep(path string) error {
	if err := file.Keep(path); err != nil {
		return fault.New(fault.Input, "%s: %w", path, err)
	}
	if fd, ok := file.Descriptor(path); ok && fd == 0 {
		j.stdin = os.Stdin
	}
	return nil
}

// parse returns the flags and the scenario's options: those of the order, which repeats a run, or those of this
// process's command line.
func (j *Job) parse(o order, sc lua.Scenario, streams cli.Streams) (flags Flags, own options, err error) {
	flags = j.Flags
	if j.Options != nil {
		if j.Words, err = optionWords(sc, j.Options); err != nil {
			return flags, own, err
		}
	}
	if o.Flags != nil {
		flags = *o.Flags
		own.values, err = sc.Restore(o.Options, flags.AllowIO)
	} else {
		var words []string
		if words, err = flags.Yielding.take(j.Command, sc, j.Words); err == nil {
			own, err = parseOptions(j.Command, sc, words, streams)
		}
	}
	if err == nil {
		err = cmp.Or(flags.Check(), j.serves(sc, flags.Yielding.Backend))
	}
	if err == nil && j.Prepare != nil {
		err = j.Prepare(flags, own.values)
	}
	return flags, own, err
}

// ScenarioOptions reads the scenario's options in this process, which needs no ranks for that. The errors are those of
// the command line (Usage) and of the script (Script).
func (j Job) ScenarioOptions(streams cli.Streams) (map[string]any, error) {
	if j.Mistake != nil {
		return nil, j.Mistake
	}
	r, err := loadScenario(j.Scenario, streams.Out, j.libs()...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	_, own, err := j.parse(order{}, r.Scenario, streams)
	return own.values, err
}

// checkOutputs finds out, before anything is measured, whether the files that
// the user wants can be written, and that they are no inputs. These are there already, but for folders of modules.
func (j Job) checkOutputs(flags Flags, sc lua.Scenario, own options) error {
	inputs := append(sc.Inputs(own.values), j.Scenario)
	for _, m := range sc.Library.Modules {
		inputs = append(inputs, m.File)
	}
	if err := checkFolders(flags.Yielding.Lib); err != nil {
		return err
	}
	if flags.Result != "" {
		if err := cli.NotOver(flags.Result, inputs...); err != nil {
			return err
		}
		if err := result.CheckName(flags.Result); err != nil {
			return err
		}
		if err := result.CheckWritable("--result", flags.Result); err != nil {
			return err
		}
	}
	shown, err := dashboard.Files(flags.Yielding.Metrics)
	if err != nil {
		return err
	}
	for _, path := range shown {
		if err := cmp.Or(cli.NotOver(path, inputs...), result.CheckWritable("--metrics", path)); err != nil {
			return err
		}
	}
	if path := flags.Yielding.JUnit; path != "" {
		if err := cmp.Or(cli.NotOver(path, inputs...), result.CheckWritable("--junit", path)); err != nil {
			return err
		}
	}
	written := own.named
	if flags.AllowIO { // then a default is written, too
		written = own.values
	}
	for flag, path := range sc.Outputs(written) {
		if err := cli.NotOver(path, inputs...); err != nil {
			return err
		}
		if flags.Result != "" && file.SamePlace(path, flags.Result) {
			return fault.New(fault.Usage, "%s %s is the file of --result, too", flag, path).
				WithHint("name another file")
		}
		if err := result.CheckWritable(flag, path); err != nil {
			return err
		}
	}
	return nil
}

// oneWord is how long after the first signal others belong to it: timeout(1), and a terminal that closes, signal the
// process and its group.
const oneWord = 500 * time.Millisecond

// UntilSignal ends ctx, with a fault.Interrupt, when the user or the system wants the job to end. again is
// closed if they say so twice; the third time the system ends this process.
//
// After stop the process is about to exit with the code of its job, and a signal that
// comes then does not change that. One more ends it, should it hang.
func UntilSignal(ctx context.Context) (_ context.Context, again <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, cli.Endings()...)
	twice, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer signal.Stop(signals)
		for first := (time.Time{}); ; {
			select {
			case <-over:
				<-signals
				return
			case s := <-signals:
				select {
				case <-over:
					return
				default:
				}
				if first.IsZero() {
					first = time.Now()
					cancel(fault.New(fault.Interrupt, "ended by signal: %s", s))
				} else if time.Since(first) >= oneWord {
					close(twice)
					return
				}
			}
		}
	}()
	return ctx, twice, sync.OnceFunc(func() {
		close(over)
		cancel(nil)
	})
}
