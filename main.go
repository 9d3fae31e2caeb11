// Perigee plays scripted traffic between many ranks, the way a disaggregated
// LLM inference system makes it, and measures it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/job"
	"perigee/internal/table"
	"perigee/internal/version"
	"perigee/lua"
	"perigee/scenarios"
	"perigee/tools/matgen"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	// Not by returning: libraries loaded at run time must not run C's exit handlers.
	os.Exit(run(os.Args[1:], streams))
}

// commands is the command tree.
type commands struct {
	Run                  runCmd        `cmd:"" help:"Run a scenario on N ranks."`
	SequentialCtPerftest sequentialCmd `cmd:"" name:"sequential-ct-perftest" help:"Run a list of traffic patterns, each alone and then one after the other."`
	CtPerftest           ctCmd         `cmd:"" name:"ct-perftest" help:"Run one traffic pattern many times."`
	Matgen               matgen.Cmd    `cmd:"" help:"Make workload matrices of an inference system."`
	Scenarios            scenariosCmd  `cmd:"" help:"List the shipped scenarios."`
	Completion           completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Complete             completeCmd   `cmd:"" hidden:""`
	Version              versionCmd    `cmd:"" help:"Print the version."`
}

// run is main for a given command line. It returns the exit code, whose
// meanings stand in package fault.
func run(args []string, streams cli.Streams) int {
	var c commands
	exit := -1
	k, err := kong.New(&c, kong.Name("perigee"), kong.Writers(streams.Out, streams.Err),
		kong.Description("Plays the traffic of disaggregated LLM inference between many ranks, and measures it."),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Bind(streams, arguments(args)))
	if err != nil {
		fmt.Fprintln(streams.Err, "perigee:", err)
		return int(fault.Internal)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := k.Parse(args)
	if exit >= 0 {
		return exit // help was printed
	}
	if err != nil {
		return complain(fault.New(fault.Usage, "%w", err).WithHint("perigee --help"), streams.Err)
	}
	if err := ctx.Run(); err != nil {
		return complain(err, streams.Err)
	}
	return 0
}

// arguments is the command line without the program's name.
type arguments []string

// silent is an error that somebody else has reported.
type silent struct{ error }

func (s silent) Unwrap() error { return s.error }

// complain prints an error and turns it into an exit code.
func complain(err error, w io.Writer) int {
	if !errors.As(err, new(silent)) {
		fmt.Fprintln(w, "perigee:", err)
		if hint := fault.HintOf(err); hint != "" {
			fmt.Fprintln(w, "  hint:", hint)
		}
	}
	return int(fault.KindOf(err))
}

type runCmd struct {
	job.Flags
	Scenario []string `arg:"" passthrough:"" placeholder:"SCENARIO" help:"A .lua file or the name of a shipped scenario, and its options (perigee run SCENARIO --help)."`
}

func (c *runCmd) Run(streams cli.Streams, all arguments) error {
	before := all[1 : len(all)-len(c.Scenario)]
	return runJob(job.Spec{
		Command:  []string{"perigee", "run", c.Scenario[0]},
		Scenario: c.Scenario[0],
		Args:     append(append([]string(nil), before...), c.Scenario[1:]...),
		Process:  all,
	}, streams)
}

// A shipped scenario under its well-known name takes all words after it.
type sequentialCmd struct {
	Args []string `arg:"" optional:"" passthrough:"all" placeholder:"CONFIG" help:"The configuration and options."`
}

func (sequentialCmd) Run(streams cli.Streams, all arguments) error {
	return runNamed(streams, all)
}

type ctCmd struct {
	Args []string `arg:"" optional:"" passthrough:"all" placeholder:"CONFIG" help:"The configuration and options."`
}

func (ctCmd) Run(streams cli.Streams, all arguments) error { return runNamed(streams, all) }

func runNamed(streams cli.Streams, all arguments) error {
	return runJob(job.Spec{
		Command: []string{"perigee", all[0]}, Scenario: all[0], Args: all[1:], Process: all,
	}, streams)
}

func runJob(s job.Spec, streams cli.Streams) error {
	err, quiet := job.Run(context.Background(), s, streams, os.LookupEnv)
	if err != nil && quiet {
		return silent{err}
	}
	return err
}

type scenariosCmd struct{}

func (scenariosCmd) Run(streams cli.Streams) error {
	var t table.Table
	t.AddColumn("Scenario", table.Left, "%s")
	t.AddColumn("What it does", table.Left, "%s")
	for _, name := range scenarios.Names() {
		file, source, _ := scenarios.Source(name)
		r, err := lua.Load(file, source, io.Discard)
		if err != nil {
			return err
		}
		t.AddRow(strings.ReplaceAll(name, "_", "-"), r.About)
		r.Close()
	}
	return t.WriteText(streams.Out)
}

type versionCmd struct{}

func (versionCmd) Run(streams cli.Streams) error {
	b := version.Get()
	_, err := fmt.Fprintf(streams.Out, "perigee %s (commit %s, %s, cgo %v)\n", b.Version, b.Commit, b.Go, b.CGO)
	return err
}
