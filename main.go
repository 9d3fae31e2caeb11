// Perigee plays scripted traffic between many ranks, the way a disaggregated LLM inference system makes it, and
// measures it.
//
// main.go has the command tree: each command is a struct of a package in tools with kong's tags, and everything that a
// command does is there. The program exits with the kind of the error as its code (package fault). completion.go
// completes words for shells, from the same tree and from the options of scenarios; man.go writes the manual pages for
// packages.
//
// docs/architecture.md is the map of the rest: from the start of the ranks (spmd/boot) over the scenario (lua) and the
// experiment (internal/experiment) to traffic (internal/traffic) and engines (nixl).
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/value"
	"perigee/internal/kit/version"
	"perigee/lua"
	"perigee/nixl/engines"
	"perigee/scenarios"
	"perigee/tools/compare"
	"perigee/tools/disagg"
	"perigee/tools/doctor"
	"perigee/tools/ep"
	"perigee/tools/inspect"
	"perigee/tools/kvbench"
	"perigee/tools/matgen"
	"perigee/tools/report"
	"perigee/tools/rerun"
	"perigee/tools/run"
	"perigee/tools/simulate"
	"perigee/tools/sweep"
	"perigee/tools/trace"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv}
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == "nixlbench" { // a link
		args = append([]string{"kvbench", "nixlbench"}, args...)
	}
	// Not by returning: libraries loaded at run time must not run C's exit handlers.
	code := execute(args, streams)
	engines.Flush()
	os.Exit(code)
}

// commands is the command tree.
type commands struct {
	Run                  run.Cmd       `cmd:"" group:"measure" help:"Run a scenario on N ranks."`
	SequentialCtPerftest run.Shipped   `cmd:"" passthrough:"" scenario:"sequential-ct-perftest" group:"measure" name:"sequential-ct-perftest" help:"Run a list of traffic patterns, each alone and then one after the other."`
	CtPerftest           run.Shipped   `cmd:"" passthrough:"" scenario:"ct-perftest" group:"measure" name:"ct-perftest" help:"Run one traffic pattern many times."`
	Replay               run.Shipped   `cmd:"" passthrough:"" scenario:"replay" group:"measure" help:"Replay a serving trace as transfers of KV caches, each at its time."`
	Kvbench              kvbench.Cmd   `cmd:"" group:"measure" help:"Plan and run benchmarks of moving a model's KV cache."`
	Ep                   ep.Cmd        `cmd:"" group:"measure" help:"Count, place and measure the traffic of expert parallelism."`
	Disagg               disagg.Cmd    `cmd:"" group:"measure" help:"Run batches of disaggregated-serving benchmarks on Slurm, and judge them."`
	Rerun                rerun.Cmd     `cmd:"" group:"measure" help:"Repeat the run of a result, and compare the two."`
	Matgen               matgen.Cmd    `cmd:"" group:"prepare" help:"Make workload matrices of an inference system."`
	Simulate             simulate.Cmd  `cmd:"" hidden:"" help:"Count what thousands of ranks would send each other."`
	Trace                trace.Cmd     `cmd:"" group:"prepare" help:"Describe serving traces: arrivals, lengths, hit ratios, load, and whether a line carries it."`
	Report               report.Cmd    `cmd:"" group:"read" help:"Make a page, a summary or JSON of results, serving benchmarks, outputs of disagg, traces."`
	Compare              compare.Cmd   `cmd:"" group:"read" help:"Show what has changed between results, or releases of serving benchmarks, and whether it is more than chance."`
	Result               inspect.Cmd   `cmd:"" group:"read" help:"Look into results, and turn them into other formats."`
	Sweep                sweep.Cmd     `cmd:"" group:"read" help:"Compare the benchmark reports of a sweep: tables, trade-off plots, an interactive page."`
	Doctor               doctor.Cmd    `cmd:"" group:"about" help:"Look at what perigee needs of this machine, and say what to do."`
	Check                run.Check     `cmd:"" group:"prepare" help:"Look for mistakes in scenarios, without ranks."`
	Scenarios            scenariosCmd  `cmd:"" group:"about" help:"List the shipped scenarios."`
	Completion           completionCmd `cmd:"" group:"about" help:"Print the completion script of a shell."`
	Version              versionCmd    `cmd:"" group:"about" help:"Print the version."`
	Complete             completeCmd   `cmd:"" hidden:""`
	Man                  manCmd        `cmd:"" hidden:""`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// groups are the headings of the list of commands.
var groups = kong.ExplicitGroups([]kong.Group{
	{Key: "measure", Title: "Measure:"},
	{Key: "prepare", Title: "Prepare:"},
	{Key: "read", Title: "Read results:"},
	{Key: "about", Title: "About this installation:"},
})

// grammar returns the commands that this command line may name: the one whose
// name is its first word, otherwise all. Every rank is a process that parses its
// command line, and to build the grammar of all commands takes longer than all
// else that a process does before its job.
func grammar(args []string) any {
	all := &commands{}
	if len(args) == 0 {
		return all
	}
	var fields []reflect.StructField
	named := false
	for f := range reflect.TypeOf(*all).Fields() {
		_, command := f.Tag.Lookup("cmd")
		_, hidden := f.Tag.Lookup("hidden") // completion and manual pages are about all commands
		is := command && !hidden && cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)) == args[0]
		if is || !command {
			fields = append(fields, f)
		}
		named = named || is
	}
	if !named {
		return all
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// execute is main for a given command line. It returns the exit code, whose
// meanings stand in package fault.
func execute(args []string, streams cli.Streams) int {
	out := &cli.Output{W: streams.Out, Columns: streams.Env("COLUMNS")}
	streams.Out = out
	exit := -1
	k, err := cli.Parser(grammar(args), kong.Name("perigee"), kong.Writers(streams.Out, streams.Err),
		kong.Description("Plays the traffic of disaggregated LLM inference between many ranks, and measures it."),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}), groups,
		kong.Vars{"version": versionLine()}, kvbench.Quiet(),
		kong.Bind(streams))
	if err != nil {
		fmt.Fprintln(streams.Err, "perigee:", err)
		return int(fault.Internal)
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // perigee help run, as other programs have it
		args = append(slices.Clone(args[1:]), "--help")
	}
	if args[0] != "run" { // whose scenario may have a --sort without a column
		args = cli.JoinSort(args)
	}
	if args[0] == "kvbench" {
		args = kvbench.JoinBooleans(args)
	}
	ctx, err := k.Parse(args)
	if lost := out.Fault(); lost != nil {
		return conclude(lost, streams.Err)
	}
	if exit >= 0 {
		return exit // help was printed
	}
	if err != nil {
		return conclude(mistake(err, args[0]), streams.Err)
	}
	command := func() error { return ctx.Run() }
	if args[0] == "disagg" { // ranks, which other commands have, keep the dump of their goroutines
		err = cli.Guarded(command)
	} else {
		err = command()
	}
	if !cli.IsReported(err) {
		err = cmp.Or(out.Fault(), err) // what a command says of its output is no better
	}
	return conclude(err, streams.Err)
}

// adviser is a command that says more of a mistake on its command line than the parser can.
type adviser interface {
	Advise(mistake error) error
}

// mistake is the error of a command line whose first word is first.
func mistake(err error, first string) error {
	plain := cli.Plain(err)
	if plain.Error() == "unexpected argument "+first {
		plain = fmt.Errorf("%w%s", plain, meant(first))
	}
	if parsing, ok := errors.AsType[*kong.ParseError](err); ok {
		if node := parsing.Context.Selected(); node != nil && node.Target.CanAddr() {
			if c, ok := node.Target.Addr().Interface().(adviser); ok {
				plain = c.Advise(plain)
			}
		}
	}
	return fault.New(fault.Usage, "%w", plain).WithHint("%s", cmp.Or(fault.HintOf(plain), commandOf(err)+" --help"))
}

// meant is "; did you mean ...?" for a word that is no command.
func meant(word string) string {
	if _, _, shipped := scenarios.Source(word); shipped {
		return fmt.Sprintf("; did you mean %q?", "run "+word)
	}
	var names []string
	for f := range reflect.TypeFor[commands]().Fields() {
		_, command := f.Tag.Lookup("cmd")
		if _, hidden := f.Tag.Lookup("hidden"); command && !hidden {
			names = append(names, cmp.Or(f.Tag.Get("name"), strings.ToLower(f.Name)))
		}
	}
	return value.Suggestion(word, names)
}

// commandOf returns the command in whose words a mistake was found.
func commandOf(err error) string {
	name := "perigee"
	parsing, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return name
	}
	for _, p := range parsing.Context.Path {
		if p.Command != nil {
			name += " " + p.Command.Name
		}
	}
	return name
}

// conclude prints an error, if there is one, and turns it into an exit code.
func conclude(err error, w io.Writer) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*os.PathError](err); ok && e.Op == "write" && e.Path == os.Stdout.Name() {
		err = cli.LostOutput(err) // whatever the command was about
	}
	if !cli.IsReported(err) && !cli.LacksReader(err) {
		cli.PrintError(w, err)
	}
	return int(fault.KindOf(err))
}

type scenariosCmd struct{ cli.Format }

// Run lists the shipped scenarios. What each does stands in its script, so that the scripts are loaded.
func (c scenariosCmd) Run(streams cli.Streams) error {
	t := sheet.New("", "", "|Scenario", "|What it does")
	for _, name := range scenarios.Names() {
		file, source, _ := scenarios.Source(name)
		r, err := lua.Load(file, source, io.Discard)
		if err != nil {
			return err
		}
		t.AddRow(strings.ReplaceAll(name, "_", "-"), r.About)
		r.Close()
	}
	return t.Write(streams.Out, c.Format.Format)
}

type versionCmd struct{}

func (versionCmd) Run(streams cli.Streams) error {
	_, err := fmt.Fprintln(streams.Out, versionLine())
	return err
}

func versionLine() string {
	b := version.Get()
	return fmt.Sprintf("perigee %s (commit %s, %s, cgo %v)", b.Version, cmp.Or(b.Commit, "unknown"), b.Go, b.CGO)
}
