package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/threshold"
	"perigee/internal/version"
	"perigee/lua"
	"perigee/nixl/device"
	"perigee/spmd"
	"perigee/spmd/boot"
)

const (
	// joinTimeout is how long a rank waits for the others to start.
	joinTimeout = 2 * time.Minute
	// lastWords is how long a rank of a failed job may take to write what it
	// has; then it ends whatever it is doing. The launcher waits a little longer.
	lastWords = 2500 * time.Millisecond
)

// runRank is the life of one rank. The failure of a rank is reported by the
// launcher, or, where there is none, by rank 0.
func runRank(ctx context.Context, s Spec, streams cli.Streams, env boot.Environ) (err error, quiet bool) {
	ctx, again, stop := untilSignal(ctx)
	defer stop()
	go func() {
		<-again
		os.Exit(int(fault.Interrupt))
	}()
	log, logless := openLog(env, streams)
	defer func() {
		logEnd(log, "the rank ends", err)
		log.Close()
	}()
	joining, cancel := joinLimit(ctx, s.Args)
	defer cancel()
	v := &voice{err: streams.Err}
	p, err := boot.Join(joining, env, boot.Watcher{Failed: func(f boot.Failure) { v.say(f) }, Waiting: v.mention, Log: log.Logger})
	if err != nil {
		return reported(err), false
	}
	v.rank, v.launched = p.Rank, p.Launcher == "local"
	joined := make(chan struct{})
	go tellWaiting(p.Waiting, joined, v.mention)
	w, err := spmd.Join(joining, p, spmd.Options{Failed: v.speak, Log: log.Logger})
	close(joined)
	if err != nil {
		return reported(err), true
	}
	v.world.Store(w)
	k := &rank{spec: s, streams: streams, world: w, voice: v}
	k.streams.Out = &outlet{to: streams.Out, lost: func(err error) { w.Fail(err) }}
	go k.watch(ctx)
	if err = logless; err == nil { // only now: the others must hear of it
		err = k.play()
	}
	if k.helped {
		err = nil
	}
	if err == nil {
		if err = w.Close(); err == nil {
			return nil, false
		}
		v.speak(err)
	} else {
		err = w.Fail(err)
		v.speak(err)
		k.saveFailed(err)
		w.Close()
	}
	return reported(err), true
}

// patience is how long rank 0 waits for the others before it says so.
const patience = 5 * time.Second

// tellWaiting says from time to time for whom this rank waits, until all have
// joined. A rank that ends before perigee runs in it is not noticed otherwise.
func tellWaiting(waiting func() string, joined <-chan struct{}, mention func(string)) {
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
			mention(text)
		}
	}
}

// joinLimit bounds the wait for the other ranks by --timeout, if the user has set
// one. The rest of the command line cannot be understood before rank 0 has sent
// the scenario.
func joinLimit(ctx context.Context, args []string) (context.Context, context.CancelFunc) {
	limit, flag := joinTimeout, ""
	if v, ok := valueOf("--timeout", args); ok {
		if t, err := time.ParseDuration(v); err == nil && t > 0 {
			limit, flag = t, " (--timeout)"
		}
	}
	return context.WithTimeoutCause(ctx, limit, fault.New(fault.Launch, "not all ranks came within %v%s", limit, flag))
}

// reported gives a failure its kind and hint again.
func reported(err error) error {
	if f, ok := errors.AsType[boot.Failure](err); ok {
		return f.Fault()
	}
	return err
}

// rank is what one rank knows of its job.
type rank struct {
	spec     Spec
	streams  cli.Streams
	voice    *voice
	world    *spmd.World
	flags    Flags
	doc      *result.Document    // at rank 0
	old      *result.Document    // at rank 0, the result that the run repeats
	limits   *limits             // at rank 0
	violated []threshold.Outcome // at rank 0, once the run is over
	saved    checkpoints
	helped   bool
}

// watch turns a signal into a failure of the job, and makes sure that the rank
// of a failed job ends, even in the middle of an endless loop.
func (k *rank) watch(ctx context.Context) {
	select {
	case <-ctx.Done():
		if cause := context.Cause(ctx); fault.KindOf(cause) == fault.Interrupt {
			k.world.Fail(cause)
		}
	case <-k.world.Context().Done():
	}
	<-k.world.Context().Done()
	if f, ok := errors.AsType[boot.Failure](k.world.Err()); ok {
		time.Sleep(lastWords)
		within(lastWords/5, func() {
			k.voice.speak(f)
			k.world.Log().Error("the rank is ended in the middle of its work", "failure", f)
		})
		os.Exit(int(f.Kind))
	}
}

// play loads the scenario and runs it.
func (k *rank) play() error {
	w := k.world
	var o order
	if w.Rank() == 0 {
		var err error
		if o, err = k.spec.read(); err != nil {
			return err
		}
		k.old = o.old
	}
	o, err := spmd.BroadcastValue(w.All(), 0, o)
	if err != nil {
		return err
	}
	r, err := lua.Load(o.Script.Name, o.Script.Source, io.Discard)
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
	flags, options, err := parse(k.spec, o, r.Scenario, streams)
	if errors.Is(err, errHelp) {
		k.helped = true
		return nil
	}
	if err != nil {
		return err
	}
	if n := flags.Ranks; n != nil && *n != w.Size() {
		return fault.New(fault.Usage, "--ranks is %d, but the %s launcher has started %s", *n, w.Launcher(), cli.Count(w.Size(), "rank")).
			WithHint("leave --ranks to the launcher, or start them here with --launcher local")
	}
	thresholds, err := limitsOf(r.Scenario, flags)
	if err != nil {
		return err
	}
	k.flags = flags
	w.SetTimeout(flags.Timeout)
	if w.Rank() == 0 {
		if err := checkOutputs(flags, r.Scenario, options); err != nil {
			return err
		}
		k.openResult(o.Script, r.Scenario, options)
		k.limits = newLimits(thresholds, k.doc)
		k.header(o.Script)
	}
	// The header comes first, whatever the other ranks print.
	if err := w.All().Barrier(); err != nil {
		return err
	}
	r.Begin(k.luaEnv())
	runtime.LockOSThread() // native transfers and spinning barriers stay on one thread
	if err := r.Run(options); err != nil {
		return err
	}
	// Nobody leaves while others may still move bytes out of or into its memory,
	// and the result is complete when all are done.
	if err := w.All().End(); err != nil {
		return err
	}
	err = k.finish()
	if len(thresholds) == 0 && k.spec.Conclude == nil {
		return err
	}
	w.Phase("verdict")
	if err == nil && w.Rank() == 0 {
		err = k.conclude()
	}
	return k.agree(err)
}

func (k *rank) luaEnv() lua.Env {
	env := lua.Env{
		World: k.world, Doc: k.doc, Checkpoint: k.checkpoint, Out: k.streams.Out,
		Seed: k.flags.Seed, AllowIO: k.flags.AllowIO, Repeat: k.old,
		OpenEngine: k.openEngine,
		GPU: func() (int, bool) {
			gpus, err := device.GPUs()
			if err != nil || len(gpus) == 0 {
				return 0, false
			}
			return k.world.LocalRank() % len(gpus), true
		},
	}
	if k.limits != nil {
		env.Sampled = k.limits.sampled
	}
	if f, ok := k.streams.Err.(*os.File); ok && k.world.Rank() == 0 && term.IsTerminal(int(f.Fd())) {
		env.Progress = f
	}
	if o, ok := k.streams.Out.(*outlet); ok {
		env.Width = o.width()
	}
	return env
}

// openResult begins the result.
func (k *rank) openResult(text script, sc lua.Scenario, options map[string]any) {
	k.doc = result.New(append([]string{"perigee"}, k.spec.Process...), result.Scenario{
		Name: text.Name, SHA256: text.digest(), Source: text.Source, Options: options, Reads: sc.Keys("path"), Writes: sc.Keys("output"),
	}, k.flags.Seed, k.world)
	k.doc.Job = &result.Job{Engine: k.flags.Engine, TimeoutNS: int64(k.flags.Timeout), AllowIO: k.flags.AllowIO}
	k.doc.DeclareMetrics(sc.Metrics)
}

// header opens the output of every job.
func (k *rank) header(text script) {
	w := k.world
	var names []string
	for _, h := range w.Hosts() {
		names = append(names, fmt.Sprintf("%s (%d)", h.Name, len(h.Ranks)))
	}
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	fmt.Fprintf(k.streams.Out, "# perigee %s, scenario %s, %s on %s: %s, launcher %s\n",
		version.Get().Version, strings.TrimSuffix(text.Name, ".lua"), cli.Count(w.Size(), "rank"), cli.Count(len(w.Hosts()), "host"), strings.Join(names, ", "), w.Launcher())
	for _, n := range slices.Concat(w.Notes(), crowded(w.Hosts())) {
		fmt.Fprintln(k.streams.Out, "# note:", n)
	}
	if u := w.Uncertainty(w.All().Ranks()); u > 0 {
		fmt.Fprintf(k.streams.Out, "# clocks of the hosts agree to within %.1f us\n", float64(u)/1e3)
	}
}

// crowded remarks on hosts whose ranks wait for each other's CPUs: such waits are in
// every time that is measured.
func crowded(hosts []spmd.Host) []string {
	var worst spmd.Host
	n := 0
	for _, h := range hosts {
		if len(h.Ranks) > h.CPUs {
			n++
			if worst.CPUs*len(h.Ranks) >= h.CPUs*len(worst.Ranks) {
				worst = h
			}
		}
	}
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%s has %s for %s: their waits for a CPU are in the figures", worst.Name, cli.Count(worst.CPUs, "CPU"), cli.Count(len(worst.Ranks), "rank"))
	if n > 1 {
		text += fmt.Sprintf("; so in %s more", cli.Count(n-1, "host"))
	}
	return []string{text}
}

// finish completes the result of a run that went well, judges it, and writes it, at rank 0.
func (k *rank) finish() error {
	if k.doc == nil {
		return nil
	}
	k.doc.World.Clocks = k.world.Clocks()
	k.doc.Finish(nil)
	k.violated = k.limits.judge()
	if len(k.limits.list) > 0 {
		if err := k.limits.print(k.streams.Out); err != nil {
			return err
		}
	}
	if k.flags.Result == "" {
		return nil
	}
	path := k.flags.Result
	k.flags.Result = "" // what fails from now on leaves it alone; a second try to write would fail as well
	if err := k.doc.Write(path); err != nil {
		return err
	}
	fmt.Fprintln(k.streams.Out, "# result:", path)
	return nil
}

// conclude is what rank 0 thinks of the result.
func (k *rank) conclude() error {
	var err error
	if k.spec.Conclude != nil {
		err = k.spec.Conclude(k.old, k.doc)
	}
	return cmp.Or(complaint(k.violated, len(k.limits.list)), err)
}

// saveFailed writes what is there of a run that failed, at rank 0.
func (k *rank) saveFailed(failure error) {
	if k.doc == nil || k.flags.Result == "" || !k.worthKeeping(failure) {
		return
	}
	k.doc.Finish(failure)
	saved(k.streams.Err, k.flags.Result, k.doc)
}

// worthKeeping reports whether the result says more than the error message.
// A run that was refused before it measured anything leaves no file, and does
// not replace the result of an earlier one.
func (k *rank) worthKeeping(failure error) bool {
	switch fault.KindOf(failure) {
	case fault.RankLost, fault.Timeout, fault.Interrupt:
		return true
	}
	return k.doc.Measured()
}

// checkpoints limit the time that goes into saving unfinished results to a
// tenth of the whole.
type checkpoints struct {
	last time.Time
	took time.Duration
}

// checkpoint saves the result as it is now, if the last time is long enough ago and the
// next one can replace it. What it cannot write now the end of the run will report.
func (k *rank) checkpoint() {
	if k.flags.Result == "" || !k.doc.Measured() || time.Since(k.saved.last) < 10*k.saved.took || !replaceable(k.flags.Result) {
		return
	}
	start := time.Now()
	k.doc.Write(k.flags.Result)
	k.saved = checkpoints{last: time.Now(), took: time.Since(start)}
}
