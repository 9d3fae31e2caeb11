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
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"perigee/internal/experiment"
	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/memory"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/version"
	"perigee/internal/result"
	"perigee/internal/traffic/cpuwait"
	"perigee/lua"
	"perigee/nixl/engines"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/launch"
)

const (
	// joinTimeout is how long a rank waits for the others to start.
	joinTimeout = 2 * time.Minute
	// giveWay is how long a rank stays that leaves an error to another: launchers that see a rank fail may end the
	// others.
	giveWay = 500 * time.Millisecond
	// finalGrace is how long a rank of a failed job may take to write what it
	// has; then it ends whatever it is doing. The launcher waits a little longer.
	finalGrace = 2500 * time.Millisecond
)

// runRank is the life of one rank. The failure of a rank is reported by the
// launcher, or, where there is none, by rank 0.
func (j Job) runRank(ctx context.Context, streams cli.Streams, env boot.Environ) (err error) {
	// perigee's launcher gives rank 0 its own process group. From there what writes to the terminal would be stopped
	// after stty tostop.
	signal.Ignore(syscall.SIGTTOU)
	ctx, again, stop := UntilSignal(ctx)
	defer stop()
	go func() {
		<-again
		leave(int(fault.Interrupt))
	}()
	log, logless := openLog(env, streams)
	defer func() {
		logEnd(log, "the rank ends", err)
		log.Close()
	}()
	r := &reporter{err: streams.Err}
	if boot.OfNodeCommand(env) {
		under, release := boot.UnderSrun(ctx, env)
		defer release()
		ctx = under
	}
	started := time.Now()
	fresh := lua.New(io.Discard) // now: once all have come, all ranks of a host work at once
	joining, cancel := joinLimit(ctx, time.Duration(j.Flags.Timeout))
	defer cancel()
	p, err := boot.Join(joining, env, boot.Watcher{Failed: func(f watch.Failure) { r.print(f) }, Waiting: r.note,
		Log: log.Logger})
	if err != nil {
		if boot.LeftToAnother(err) {
			time.Sleep(giveWay)
		} else {
			r.print(err) // unless that is done
		}
		return cli.Reported{Err: faultOf(err)}
	}
	r.rank, r.launched = p.Rank, p.Launcher == "local"
	joined := make(chan struct{})
	go noteWaiting(p.Waiting, joined, r.note)
	w, err := spmd.Join(joining, p, spmd.Options{Failed: r.report, Log: log.Logger})
	close(joined)
	if err != nil {
		return cli.Reported{Err: faultOf(err)}
	}
	r.world.Store(w)
	k := &rank{job: j, streams: streams, world: w, reporter: r, began: started, fresh: fresh}
	to := &cli.Output{W: cli.Base(streams.Out), Columns: streams.Env("COLUMNS")}
	k.streams.Out = &output{to: to, lost: func(err error) { w.Fail(err) }}
	go k.watch(ctx)
	left := func() (int64, error) { return memory.Available("/") }
	if available, err := left(); err == nil {
		go k.watchMemory(available, left)
	}
	// What is wrong at this rank is an error only now: the others must get it, too.
	if err = cmp.Or(logless, j.Mistake); err == nil {
		err = k.play()
		if k.exp != nil && k.exp.Doc != nil {
			err = k.junit(k.exp.Doc.Thresholds, err)
		}
	}
	if k.helped {
		err = nil
	}
	if err == nil {
		if err = w.Close(); err == nil {
			return nil
		}
		r.report(err)
		if k.exp != nil {
			k.exp.Save(err, k.streams.Err)
		}
	} else {
		err = w.Fail(err)
		r.report(err)
		if k.exp != nil {
			k.writes.Lock() // for good: nothing is added to what is written here
			k.exp.Save(err, k.streams.Err)
		}
		if !r.launched { // perigee's own launcher does it after all ranks have ended
			sweep(log, started)
		}
		w.Close()
	}
	return cli.Reported{Err: faultOf(err)}
}

// patience is how long rank 0 waits for the others before it says so.
const patience = 5 * time.Second

// noteWaiting reports from time to time what this rank waits for, until all have
// joined. A rank that ends before perigee runs in it is not noticed otherwise.
func noteWaiting(waiting func() string, joined <-chan struct{}, note func(string)) {
	if waiting == nil {
		return
	}
	for pause := patience; ; pause *= 2 {
		select {
		case <-joined:
			return
		case <-time.After(pause):
		}
		if text := waiting(); text != "" {
			note(text)
		}
	}
}

// joinLimit bounds the wait for the other ranks by --timeout, if the user has set
// one.
func joinLimit(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	limit, flag := joinTimeout, ""
	if timeout > 0 {
		limit, flag = timeout, " (--timeout)"
	}
	return context.WithTimeoutCause(ctx, limit, fault.New(fault.Launch, "not all ranks came within %v%s", limit, flag))
}

// faultOf gives a failure its kind and hint again.
func faultOf(err error) error {
	if f, ok := errors.AsType[watch.Failure](err); ok {
		return f.Fault()
	}
	return err
}

// rank holds one rank's knowledge of its job.
type rank struct {
	job      Job
	streams  cli.Streams
	reporter *reporter
	world    *spmd.World
	flags    Flags
	old      *result.Document // at rank 0, the result that the run repeats
	notes    []string         // at rank 0, what the run cannot repeat of it, or has from it
	exp      *experiment.Experiment
	fresh    *lua.Runtime // without a script
	helped   bool
	began    time.Time
	// explain adds the failure to the result as it was saved last, if this rank cannot do so at its end; nil before
	// there is one.
	explain atomic.Pointer[func(error)]
	// unjudged are the thresholds as they were at the beginning, for watch.
	unjudged atomic.Pointer[[]result.Threshold]
	// begun is exp, for watch.
	begun  atomic.Pointer[experiment.Experiment]
	writes sync.Mutex // held by what writes the result at the end of a failed job
}

// watch turns a signal, or the death of srun, into a failure of the job, and makes sure that the rank of a failed job
// ends, even in the middle of an endless loop.
func (k *rank) watch(ctx context.Context) {
	select {
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if kind := fault.KindOf(cause); kind == fault.Interrupt || kind == fault.RankLost {
			k.world.Fail(cause)
		}
	case <-k.world.Context().Done():
	}
	<-k.world.Context().Done()
	if f, ok := errors.AsType[watch.Failure](k.world.Err()); ok {
		time.Sleep(finalGrace)
		k.awaitResult()
		within(finalGrace/2, nil, func() {
			k.reporter.report(f)
			k.world.Log().Error("the rank is ended in the middle of its work", "failure", f)
		})
		if limits := k.unjudged.Load(); limits != nil {
			within(finalGrace/2, nil, func() { k.junit(*limits, f) })
		}
		mine := !k.reporter.launched || f.Alone // not where the launcher lives and does it
		if explain := k.explain.Load(); explain != nil && mine && k.writes.TryLock() {
			within(launch.StoringGrace, nil, func() { (*explain)(f) }) // it reads and writes all that was saved
		}
		leave(int(f.Kind))
	}
}

// leave ends the process.
func leave(code int) {
	engines.Flush()
	os.Exit(code)
}

// awaitResult waits while this rank of a failed job writes the result, or adds to it what it has gathered last: that
// takes seconds for some 100,000 runs.
func (k *rank) awaitResult() {
	const between = 500 * time.Millisecond // adding to the result and writing it
	exp := k.begun.Load()
	if exp == nil || !exp.Storing() {
		return
	}
	k.world.Store()
	k.reporter.note("still writing the result; a second Ctrl-C ends the job without it")
	last := time.Now()
	for began := last; time.Since(began) < launch.StoringGrace && time.Since(last) < between; {
		time.Sleep(between / 10)
		if exp.Storing() {
			last = time.Now()
		}
	}
}

// play loads the scenario and runs it.
func (k *rank) play() error {
	w := k.world
	w.SetTimeout(time.Duration(k.job.Flags.Timeout)) // what rank 0 reads may be on a disk that hangs
	var o order
	if w.Rank() == 0 {
		var err error
		if o, err = k.job.read(len(w.Hosts())); err != nil {
			return err
		}
		k.old, k.notes = o.old, o.notes
		if err = o.Script.complete(); err != nil {
			return err
		}
	}
	o, err := spmd.BroadcastValue(w.All(), 0, o)
	if err != nil {
		return err
	}
	if err := o.inherit(w.Rank()); err != nil {
		return err
	}
	r, err := k.fresh.LoadWith(&o.Script.Library, o.Script.Name, o.Script.Source)
	if err != nil {
		return err
	}
	err = k.perform(r, o)
	return errors.Join(err, r.Close())
}

// perform runs a loaded scenario.
func (k *rank) perform(r *lua.Runtime, o order) error {
	w := k.world
	streams := k.streams
	if w.Rank() > 0 {
		streams.Out, streams.Err = io.Discard, io.Discard // one help text is enough
	}
	flags, own, err := k.job.parse(o, r.Scenario, streams)
	if errors.Is(err, ErrHelp) {
		k.helped = true
		return nil
	}
	if err != nil {
		return err
	}
	if n := flags.Ranks; n != nil && *n != w.Size() {
		return k.job.otherSize(*n, w.Size(), w.Launcher())
	}
	flags.offer(r)
	thresholds, err := limitsOf(r, own.values, flags)
	if err == nil {
		err = k.job.spell(flags)
	}
	if err != nil {
		return err
	}
	k.flags = flags
	w.SetTimeout(time.Duration(flags.Timeout))
	if w.Rank() == 0 {
		if err := k.job.checkOutputs(flags, r.Scenario, own); err != nil {
			return err
		}
	}
	if err := k.begin(r, o, own, thresholds); err != nil {
		return err
	}
	// The header comes first, whatever the other ranks print.
	if err := w.All().Barrier(); err != nil {
		return err
	}
	r.Permit(k.job.access(flags, o.Script, own))
	r.Begin(k.luaEnv())
	runtime.LockOSThread() // native transfers and spinning barriers stay on one thread
	k.exp.Waits = cpuwait.Own()
	launch.Punctual()
	if err := r.Run(own.values); err != nil {
		return err
	}
	// No rank leaves while others may still move bytes out of or into its memory,
	// and the result is complete when all are done.
	if err := w.All().End(); err != nil {
		return err
	}
	observed := k.exp.Observe()
	err = errors.Join(k.exp.Finish(), observed)
	if len(thresholds) == 0 && k.job.Conclude == nil {
		return err
	}
	w.Phase("verdict")
	if err == nil && w.Rank() == 0 {
		err = k.conclude()
	}
	return k.agree(err)
}

// begin makes the experiment, and at rank 0 its header.
func (k *rank) begin(r *lua.Runtime, o order, own options, thresholds []metric.Threshold) error {
	flags := k.flags
	alike := []experiment.Choice{
		{What: "scenarios", Value: filepath.Base(cmp.Or(k.job.Repeats, k.job.Scenario))},
		{What: "values of --seed", Value: strconv.FormatUint(flags.seed(), 10)},
		{What: "values of --backend and --backend-param", Value: flags.Yielding.String()},
		{What: "values of --line and --ceiling",
			Value: fmt.Sprintf("%q, %t", flags.Yielding.Line, flags.Yielding.Ceiling)},
		{What: "values of --gpu-map and --nic-map", Value: strings.TrimSpace(flags.Yielding.GPUMap + " " + flags.Yielding.NICMap)},
		{What: "values of --threshold", Value: cmp.Or(strings.Join(flags.Threshold, "; "), "none")},
	}
	for flag, value := range r.Scenario.Alike(own.values) {
		alike = append(alike, experiment.Choice{What: "values of " + flag, Value: value})
	}
	backend, err := flags.Yielding.backend()
	if err != nil {
		return err
	}
	line, err := flags.Yielding.line()
	if err != nil {
		return err
	}
	id := k.id()
	k.exp = experiment.Begin(experiment.Config{
		World: k.world, Command: append([]string{"perigee"}, k.job.Process...), Title: flags.Yielding.Title,
		Scenario: o.Script.record(r.Scenario, own.values), Alike: alike,
		Job: result.Invocation{ID: id, Engine: flags.Engine, TimeoutNS: int64(flags.Timeout), AllowIO: flags.AllowIO,
			Backend: backend.Name, BackendParams: backend.Params, Line: flags.Yielding.Line,
			Ceiling: flags.Yielding.Ceiling, GPUMap: flags.Yielding.GPUMap, NICMap: flags.Yielding.NICMap},
		NixlLib: flags.NixlLib, Seed: flags.seed(), Metrics: r.Metrics, Thresholds: thresholds, LineRate: line,
		File: flags.Result, Dashboards: flags.Yielding.Metrics, Out: k.streams.Out,
	})
	k.begun.Store(k.exp)
	if k.world.Rank() == 0 {
		k.unjudged.Store(new(slices.Clone(k.exp.Doc.Thresholds)))
		k.junit(k.exp.Doc.Thresholds, errGoing)
		if flags.Result != "" {
			explain := func(failure error) { experiment.ExplainPartial(flags.Result, id, failure, k.streams.Err) }
			k.explain.Store(&explain)
		}
		k.exp.Doc.Notes = slices.Concat(k.exp.Doc.Notes, k.notes, o.leftOut(r.Scenario, flags))
		k.header(o.Script)
		if k.job.Says != "" {
			k.reporter.note(k.job.Says)
		}
	}
	if err := k.exp.DescribeHosts(); err != nil {
		return err
	}
	return k.exp.FindLine()
}

// id returns the name that the launcher has given the job, if that is perigee itself.
func (k *rank) id() string {
	if k.world.Launcher() != "local" {
		return rand.Text() // the variable may be that of a job around this one
	}
	return os.Getenv(envJob)
}

func (k *rank) luaEnv() lua.Env {
	env := lua.Env{Experiment: k.exp, Repeat: k.old}
	env.Exit = func() { leave(0) } // all launchers take that for a rank that is done
	if f, ok := k.streams.Err.(*os.File); ok && k.world.Rank() == 0 && term.IsTerminal(int(f.Fd())) {
		env.Progress = f
	} else if k.world.Rank() == 0 {
		env.ProgressLines = k.streams.Err
	}
	env.Width = plaintext.Width(k.streams.Out)
	return env
}

// header opens the output of every job.
func (k *rank) header(text script) {
	w := k.world
	var names []string
	for _, h := range w.Hosts() {
		names = append(names, fmt.Sprintf("%s (%d)", h.Name, len(h.Ranks)))
	}
	names = plaintext.First(names, 8, "%d more")
	if title := k.exp.Doc.Title; title != "" {
		fmt.Fprintln(k.streams.Out, "#", plaintext.Escape(title))
	}
	fmt.Fprintf(k.streams.Out, "# perigee %s, scenario %s, %s on %s: %s, launcher %s\n",
		version.Get().Version, plaintext.Escape(strings.TrimSuffix(text.Name, ".lua")), cli.Count(w.Size(), "rank"),
		cli.Count(len(w.Hosts()), "host"), strings.Join(names, ", "), w.Launcher())
	for _, n := range k.exp.Doc.Notes {
		fmt.Fprintln(k.streams.Out, "# note:", plaintext.Escape(n))
	}
	if u := w.Uncertainty(w.All().Ranks()); u > 0 {
		fmt.Fprintf(k.streams.Out, "# clocks of the hosts agree to within %.1f us\n", float64(u)/1e3)
	}
}

// conclude is the verdict of rank 0 on the result.
func (k *rank) conclude() error {
	var err error
	if k.job.Conclude != nil {
		err = k.job.Conclude(k.old, k.exp.Doc)
	}
	return cmp.Or(k.exp.Violated(), err)
}

// verdict is the outcome of a run that went well, as rank 0 judges it.
type verdict struct {
	Kind      fault.Kind // 0 if all is well
	Msg, Hint string
}

func verdictOf(err error) verdict {
	if err == nil {
		return verdict{}
	}
	return verdict{fault.KindOf(err), err.Error(), fault.HintOf(err)}
}

// agree makes the verdict of rank 0 that of all ranks, which exit with its code.
func (k *rank) agree(mine error) error {
	v, err := spmd.BroadcastValue(k.world.All(), 0, verdictOf(mine))
	if err != nil {
		return errors.Join(mine, err)
	}
	if v.Kind == 0 {
		return nil
	}
	if k.world.Rank() > 0 {
		<-k.world.Context().Done() // rank 0 reports it
		return k.world.Err()
	}
	return mine
}
