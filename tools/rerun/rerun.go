// Package rerun repeats the run of which a result is left, and compares the two. The
// result holds all that is needed: the script, its options, the files that it read.
package rerun

import (
	"cmp"
	"fmt"
	"time"

	"perigee/internal/cli"
	"perigee/internal/result"
	"perigee/tools/compare"
	"perigee/tools/run"
)

// Cmd is the command perigee rerun.
type Cmd struct {
	Result    string        `arg:"" name:"result" help:"The result whose run is repeated; with --times also a folder of results of the same run."`
	Other     string        `arg:"" optional:"" name:"other" help:"A second result: both are repeated alternately (a b b a ...), and the new runs of the one are compared with those of the other."`
	Times     int           `placeholder:"N" help:"Make N runs (of each result) one after the other and compare these sets of runs; 5 where two results are given [one run, compared with the result]."`
	OnlyRun   bool          `name:"only-run" hidden:"" help:"Repeat the run and compare nothing."`
	Ranks     *int          `short:"n" name:"ranks" placeholder:"N" help:"Start N ranks (default: as many as there were)."`
	Engine    string        `enum:"same,auto,nixl,shm" default:"same" help:"What moves the bytes: same (as before), auto, nixl or shm."`
	NixlLib   string        `name:"nixl-lib" placeholder:"FILE" help:"libnixl_capi.so to load (default: searched for)."`
	Output    string        `name:"result" placeholder:"FILE" help:"Write the new result to FILE: .json, .json.gz or .json.zst; several results into the folder FILE."`
	Timeout   time.Duration `placeholder:"T" help:"Give up when a transfer or a meeting of ranks takes longer than T (default: as before)."`
	Threshold []string      `sep:"none" placeholder:"LIMIT" help:"A further limit, beside those of the old run (may be repeated)."`
	Launcher  string        `enum:"auto,local,slurm,pmix,pmi2,pmi1,torchrun" default:"auto" help:"What has started the ranks, if the guess is wrong: auto, local, slurm, pmix, pmi2, pmi1 or torchrun."`
	Iface     string        `placeholder:"NAME" help:"Interface, address or network by which ranks reach each other."`
	LogLevel  *string       `name:"log-level" enum:"off,debug,info,warn,error" placeholder:"LEVEL" help:"Log what the ranks do: debug, info, warn, error or off."`
	LogDir    string        `name:"log-dir" placeholder:"DIR" help:"Log into a file per rank in DIR instead of to standard error."`
	AllowIO   bool          `name:"allow-io" help:"Let the scenario write any file, as the old run could. What it writes it writes again."`
	compare.Judging
}

// Help is what perigee rerun --help says beyond the flags.
func (Cmd) Help() string {
	return "Repeats a run: script, options, files, ranks, engine, seed and thresholds are those of the result. Files that it wrote because an option named them are not written again. " +
		"The new result is compared with the old one as by perigee compare. One run against one gives figures and no verdict; --times N makes enough runs for one (4 or more a side), " +
		"and two results are repeated alternately, so that a drift of the machine touches both. With --format json or csv the comparison alone goes to standard output, and what the run prints to standard error."
}

// Spec is the job that the command stands for. process is the whole command line without the
// program.
func (c *Cmd) Spec(s cli.Streams, process []string) (run.Spec, error) {
	if err := c.Judging.Check(); err != nil {
		return run.Spec{}, err
	}
	flags := run.Flags{
		Ranks: c.Ranks, Engine: c.Engine, NixlLib: c.NixlLib, Result: c.Output, Timeout: c.Timeout,
		Threshold: c.Threshold,
		Launcher:  c.Launcher, Iface: c.Iface, LogLevel: c.LogLevel, LogDir: c.LogDir, AllowIO: c.AllowIO,
	}
	if c.Engine == "same" {
		flags.Engine = ""
	}
	spec := run.Spec{
		Command: []string{"perigee", "rerun"}, Args: process[1:], Process: process,
		Repeat:   &run.Repeat{Result: c.Result, Flags: flags},
		Conclude: func(old, fresh *result.Document) error { return c.conclude(s, old, fresh) },
		Aside:    c.Format != "text", // a program that reads the comparison wants nothing else
	}
	if c.OnlyRun {
		spec.Conclude = nil
	}
	return spec, nil
}

// beforeAndAfter are the commands that find out what a change does to a run: n runs without it, n runs with it.
func beforeAndAfter(path string, n int) string {
	again := func(folder string) string {
		return cli.CommandLine([]string{"perigee", "rerun", path, "--times", fmt.Sprint(n), "--result", folder})
	}
	return again("before") + " now, " + again("after") + " after the change, then perigee compare before after"
}

// conclude compares the result of the repetition with the old one. What the user has
// asked to be different is no reason not to compare; it is said all the same.
func (c *Cmd) conclude(s cli.Streams, old, fresh *result.Document) error {
	out := &cli.Outlet{W: s.Out}
	s.Out = out
	if c.Format == "text" {
		fmt.Fprintf(s.Out, "# %s, of %s, and this run:\n", c.Result, old.Started.Format(time.DateTime+" UTC"))
	}
	err := c.Judge(s, compare.Sides{
		Old: []*result.Document{old}, New: []*result.Document{fresh}, Force: c.Ranks != nil || c.Engine != "same",
		Advice: func(n int) string { return beforeAndAfter(c.Result, n) },
	})
	return cmp.Or(out.Fault(), err)
}
