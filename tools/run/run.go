// Package run runs a scenario: as the launcher, which starts the ranks and
// watches them, or as one of the ranks.
package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"perigee/internal/atomicfile"
	"perigee/internal/cli"
	"perigee/internal/experiment"
	"perigee/internal/fault"
	"perigee/internal/logs"
	"perigee/internal/result"
	"perigee/lua"
	"perigee/nixl/engines"
	"perigee/scenarios"
	"perigee/spmd/boot"
	"perigee/spmd/boot/watch"
	"perigee/spmd/launch"
)

// Flags are the options of every job, whatever the scenario.
type Flags struct {
	Ranks     *int          `short:"n" name:"ranks" placeholder:"N" group:"Job" help:"Start N ranks on this machine (default: as many as the scenario asks for)."`
	Engine    string        `enum:"auto,nixl,shm" default:"auto" group:"Job" help:"What moves the bytes: auto, nixl or shm."`
	NixlLib   string        `name:"nixl-lib" placeholder:"FILE" group:"Job" help:"libnixl_capi.so to load (default: searched for; see docs/engines.md)."`
	Result    string        `placeholder:"FILE" group:"Job" help:"Write the result to FILE: .json, .json.gz or .json.zst."`
	Timeout   time.Duration `placeholder:"T" group:"Job" help:"Give up when a transfer or a meeting of ranks takes longer than T, such as 90s (default: wait)."`
	Seed      uint64        `default:"0" placeholder:"N" group:"Job" help:"Seed of random matrices and of verified bytes."`
	Launcher  string        `enum:"auto,local,slurm,pmix,pmi2,pmi1,torchrun" default:"auto" group:"Job" help:"What has started the ranks, if the guess is wrong (also PERIGEE_LAUNCHER): auto, local, slurm, pmix, pmi2, pmi1 or torchrun."`
	Iface     string        `placeholder:"NAME" group:"Job" help:"Interface, address or network (10.0.0.0/8) by which ranks reach each other (also PERIGEE_IFACE)."`
	LogLevel  *string       `name:"log-level" enum:"off,debug,info,warn,error" placeholder:"LEVEL" group:"Job" help:"Log what the ranks do: debug, info, warn, error or off (also PERIGEE_LOG_LEVEL; see docs/logs.md)."`
	LogDir    string        `name:"log-dir" placeholder:"DIR" group:"Job" help:"Log into a file per rank in DIR instead of to standard error (also PERIGEE_LOG_DIR)."`
	Threshold []string      `sep:"none" placeholder:"LIMIT" group:"Job" help:"Fail if a figure is beyond a limit such as 'latency_ms.p99 < 40' (may be repeated; see docs/thresholds.md)."`
	AllowIO   bool          `name:"allow-io" group:"Job" help:"Let the scenario write any file, not only those named on the command line."`
}

// grammar is the whole command line of a job. Its second part is made from the
// scenario's own options.
type grammar struct {
	Job      Flags `embed:""`
	Scenario any   `embed:""`
}

// Spec is a job as it was asked for.
type Spec struct {
	Command  []string // the words that name it in help: perigee run pingpong
	Scenario string   // a path, or the name of a shipped one
	Args     []string // all options, in any order
	Process  []string // the whole command line without the program, to start ranks with
	// Repeat makes the job a repetition of an earlier one, whose result says all that Scenario and Args
	// would.
	Repeat *Repeat
	// Conclude, if set, looks at the complete result of a run at rank 0, after it was written, and at the
	// result that it repeats, if any. Its error becomes that of the job.
	Conclude func(old, fresh *result.Document) error
	// Aside sends what the scenario prints to standard error: standard output is Conclude's.
	Aside bool
}

// Run runs the job and returns when it has ended. The error is what the user
// should read. quiet says that the caller need not report it.
func Run(ctx context.Context, s Spec, streams cli.Streams, env boot.Environ) (err error, quiet bool) {
	env = withFlags(env, s.Args)
	streams.Out = cli.Base(streams.Out) // rank 0 gets the file itself, and reports lost output itself
	heedBrokenPipes()
	_, started, err := boot.Started(env)
	if err != nil {
		return err, false
	}
	if started {
		if s.Aside {
			streams.Out = streams.Err
		}
		return runRank(ctx, s, streams, env)
	}
	return runLauncher(ctx, s, streams, env)
}

// startFlags are those that are needed before the command line can be parsed, and the
// variables that stand for them.
var startFlags = map[string]string{
	"--launcher": boot.EnvLauncher, "--iface": boot.EnvIface, "--log-level": logs.EnvLevel, "--log-dir": logs.EnvDir,
}

// withFlags adds to the environment what the flags say of the start. They are
// needed before the command line can be parsed: its grammar comes from rank 0.
func withFlags(env boot.Environ, args []string) boot.Environ {
	given := map[string]string{}
	for flag, variable := range startFlags {
		if v, ok := valueOf(flag, args); ok {
			given[variable] = v
		}
	}
	return func(key string) (string, bool) {
		if v, ok := given[key]; ok {
			return v, true
		}
		return env(key)
	}
}

// valueOf finds a flag's value on a command line that cannot be parsed yet.
func valueOf(flag string, args []string) (value string, ok bool) {
	for i, a := range args {
		if a == "--" {
			break
		}
		name, v, found := strings.Cut(a, "=")
		if cli.Hyphens(name) != flag {
			continue
		}
		if found {
			value, ok = v, true
		} else if i+1 < len(args) {
			value, ok = args[i+1], true
		}
	}
	return value, ok
}

// script is the text of a scenario.
type script struct {
	Name   string // as it stands in messages
	Source string
}

func readScript(name string) (script, error) {
	if file, source, ok := scenarios.Source(name); ok {
		return script{file, source}, nil
	}
	if !strings.HasSuffix(name, ".lua") {
		return script{}, fault.New(fault.Usage, "there is no scenario %q", name).
			WithHint("shipped are %s; a file of your own ends in .lua",
				strings.ReplaceAll(strings.Join(scenarios.Names(), ", "), "_", "-"))
	}
	data, err := atomicfile.Read(name, lua.MaxSource)
	if err != nil {
		return script{}, fault.New(fault.Input, "scenario: %w", err)
	}
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) { // it would become another text on the way to other ranks, and in the result
			return script{}, fault.New(fault.Input, "scenario %s:%d: this line is not UTF-8 text: %q", name, line,
				bytes.TrimSpace(text)).
				WithHint(`in a string of Lua any byte can be written with its number, as in "\255"`)
		}
	}
	return script{name, string(data)}, nil
}

// access is what the scenario may do to files.
func (s Spec) access(flags Flags, text script) lua.Access {
	a := lua.Access{AllowIO: flags.AllowIO, Repeated: s.Repeat != nil}
	if _, _, shipped := scenarios.Source(s.Scenario); !shipped && s.Repeat == nil {
		a.Folder = filepath.Dir(text.Name)
	}
	return a
}

// record describes the script and its options in a result.
func (s script) record(sc lua.Scenario, options map[string]any) result.Scenario {
	return result.Scenario{
		Name: s.Name, SHA256: s.digest(), Source: s.Source, Options: options, Reads: sc.Keys("path"),
		Writes: sc.Keys("output"),
	}
}

func (s script) digest() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s.Source))) }

// Grammar returns a struct from which kong makes the command line of a job with
// this scenario, and the values that its options choose from.
func Grammar(name string) (g any, choices map[string][]string, err error) {
	text, err := readScript(name)
	if err != nil {
		return nil, nil, err
	}
	r, err := lua.Load(text.Name, text.Source, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	choices = map[string][]string{}
	for _, o := range r.Options {
		if len(o.Choices) > 0 {
			choices["--"+o.Name] = o.Choices
		}
	}
	return &grammar{Scenario: r.Grammar()}, choices, nil
}

// errHelp says that the user asked for help and got it.
var errHelp = errors.New("help was printed")

// parse reads the job's flags and the scenario's options.
func parse(s Spec, o order, sc lua.Scenario, streams cli.Streams) (flags Flags, options map[string]any, err error) {
	if o.Flags != nil {
		options, err = sc.Restore(o.Options)
		return *o.Flags, options, cmp.Or(err, o.Flags.check())
	}
	g := grammar{Scenario: sc.Grammar()}
	helped := false
	k, err := kong.New(&g, kong.Name(strings.Join(s.Command, " ")), kong.Description(sc.About),
		kong.Writers(streams.Out, streams.Err), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}), cli.BothSpellings())
	if err != nil {
		return flags, nil, fault.New(fault.Script, "%s: options: %w", sc.Name, err)
	}
	_, err = k.Parse(s.Args)
	if helped {
		return flags, nil, errHelp
	}
	if err != nil {
		return flags, nil, fault.New(fault.Usage, "%w", cli.Plain(err)).
			WithHint("%s --help", strings.Join(s.Command, " "))
	}
	if options, err = sc.Values(g.Scenario); err != nil {
		return flags, nil, fault.New(fault.KindOf(err), "%w", err).
			WithHint("%s", cmp.Or(fault.HintOf(err), strings.Join(s.Command, " ")+" --help"))
	}
	return g.Job, options, g.Job.check()
}

// leastTimeout is the shortest --timeout: below it ranks that wait for nothing but a turn of the CPU would fail.
const leastTimeout = time.Millisecond

// check refuses values that make no sense.
func (f Flags) check() error {
	if n := f.Ranks; n != nil && *n < 1 {
		return fault.New(fault.Usage, "--ranks is %d, want at least 1", *n).
			WithHint("without it the scenario decides")
	}
	if f.Timeout < 0 || f.Timeout > 0 && f.Timeout < leastTimeout {
		return fault.New(fault.Usage, "--timeout is %v, want at least %v", f.Timeout, leastTimeout).
			WithHint("without it ranks wait for each other as long as it takes")
	}
	return nil
}

// envJob is the variable by which ranks know the id of their job.
const envJob = "PERIGEE_JOB_ID"

// runLauncher starts the ranks on this machine. What can be refused without
// ranks is refused before they start.
func runLauncher(ctx context.Context, s Spec, streams cli.Streams, env boot.Environ) (err error, quiet bool) {
	flags, n, err := prepare(s, streams)
	if errors.Is(err, errHelp) {
		return nil, false
	}
	if err != nil {
		return err, false
	}
	log, err := openLog(env, streams)
	if err != nil {
		return err, false
	}
	defer log.Close()
	program, err := os.Executable()
	if err != nil {
		return fault.New(fault.Launch, "find the program to start ranks with: %w", err), false
	}
	ctx, hurry, stop := untilSignal(ctx)
	defer stop()
	v := &voice{err: streams.Err}
	started := time.Now()
	id := rand.Text()
	err = launch.Run(ctx, launch.Job{
		Ranks: n, Path: program, Args: s.Process, Env: append(os.Environ(), envJob+"="+id),
		Stdout: streams.Out, Stderr: streams.Err,
		Failed: func(f watch.Failure) { v.say(f) }, Hurry: hurry,
		Log: log.Logger,
	})
	logEnd(log, "the job is over", err)
	if err == nil {
		return nil, false
	}
	sweep(log, started)
	within(lastWords, func() {
		v.say(err)
		if flags.Result != "" {
			experiment.ExplainPartial(flags.Result, id, err, streams.Err)
		}
	})
	return err, true
}

// sweep removes what UCX has left in /dev/shm where ranks were killed.
func sweep(log *logs.Log, started time.Time) {
	removed, err := engines.Sweep(started)
	if err != nil || len(removed) > 0 {
		log.Info("removed shared memory that killed ranks have left", "files", removed, "reason", err)
	}
}

// within bounds what may never end, such as writing to a pipe that is not read.
func within(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// prepare reads the scenario and the command line, and returns how many ranks
// the job has.
func prepare(s Spec, streams cli.Streams) (flags Flags, ranks int, err error) {
	o, err := s.read()
	if err != nil {
		return flags, 0, err
	}
	r, err := lua.Load(o.Script.Name, o.Script.Source, streams.Out)
	if err != nil {
		return flags, 0, err
	}
	defer r.Close()
	flags, options, err := parse(s, o, r.Scenario, streams)
	if err != nil {
		return flags, 0, err
	}
	if _, err := limitsOf(r.Scenario, flags); err != nil {
		return flags, 0, err
	}
	if err := checkOutputs(flags, r.Scenario, options); err != nil {
		return flags, 0, err
	}
	if flags.Ranks != nil {
		return flags, *flags.Ranks, nil
	}
	r.Permit(s.access(flags, o.Script))
	ranks, err = r.Ranks(options)
	return flags, max(ranks, 1), err
}

// checkOutputs finds out, before anything is measured, whether the files that
// the user wants can be written.
func checkOutputs(flags Flags, sc lua.Scenario, options map[string]any) error {
	if flags.Result != "" {
		if err := result.CheckName(flags.Result); err != nil {
			return err
		}
		if err := result.CheckWritable("--result", flags.Result); err != nil {
			return err
		}
	}
	for flag, path := range sc.Outputs(options) {
		if err := result.CheckWritable(flag, path); err != nil {
			return err
		}
	}
	return nil
}

// untilSignal ends ctx when the user or the system wants the job to end. again is
// closed if they say so twice; the third time the system ends this process.
func untilSignal(ctx context.Context) (_ context.Context, again <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	twice, over := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(fault.New(fault.Interrupt, "ended by signal: %s", s))
		case <-over:
			return
		}
		select {
		case <-signals:
			close(twice)
			signal.Stop(signals)
		case <-over:
		}
	}()
	return ctx, twice, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		cancel(nil)
	})
}
