// Package rerun is `perigee rerun`: it repeats the run of which a result is left, and compares the two. The result
// holds all that is needed: the script, its options, the files that it read, and the seed. tools/run takes them from
// there, and tools/compare compares.
//
// rerun.go makes one run in this process. series.go makes several, each by running the program once more, so that no
// run inherits memory or connections from the one before. Two results, such as one of each of two configurations, are
// repeated alternately in the order ABBA, so that a machine that gets slower or faster all the time does so for both.
//
// A series has a folder for itself, where a file marks it as taken on whatever host another series is started, and
// results of runs that have ended stay whatever happens later. A run that fails ends the series; what there is is
// compared all the same. Thresholds that a run violates are reported at the end, with the exit code of kind Threshold,
// since one violation among twenty runs is itself a finding.
package rerun

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
	"perigee/internal/kit/junit"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
	"perigee/spmd/boot"
	"perigee/tools/compare"
	"perigee/tools/run"
)

// Cmd is the command perigee rerun.
type Cmd struct {
	Of    string `arg:"" name:"result" help:"The result whose run is repeated; with --times also a folder of results of the same run."`
	Other string `arg:"" optional:"" name:"other" help:"A second result: both are repeated alternately (a b b a ...), and the new runs of the one are compared with those of the other."`
	Times int    `min:"1" max:"10000" placeholder:"N" help:"Make N runs (of each result) one after the other and compare these sets of runs; 5 where two results are given [one run, compared with the result]."`
	options
	compare.Judging

	says  string // for rank 0
	cases []junit.Case
}

// options are those of one run.
type options struct {
	run.Flags `set:"too=same," set:"engine=same" set:"too_help=same (as before), " set:"ranks=as many as there were" set:"timeout=as before" set:"seed=as before"`
	run.Yielding
	OnlyRun string `name:"only-run" hidden:"" placeholder:"ID" help:"Repeat the run, as the job of this id, and compare nothing."`
}

// Help adds to the flags in perigee rerun --help.
func (Cmd) Help() string {
	return "Repeats a run: script, options, files, ranks, engine, seed and thresholds are those of the result. Files that it wrote because an option named them are not written again, unless --allow-io is given. " +
		"Without --result the new results stay beside the old one: r-rerun-1.json.zst, with --times the folder r-rerun-1. " +
		"The new result is compared with the old one as by perigee compare. One run against one gives figures and no verdict; --times N makes enough runs for one (4 or more a side; --result then names a folder), " +
		"and two results are repeated alternately, so that a drift of the machine touches both. With --format json or csv the comparison alone goes to standard output, and what the run prints to standard error."
}

// Run repeats a run, or makes a series of runs.
func (c *Cmd) Run(s cli.Streams, k *kong.Context) error {
	if c.series() {
		if _, started, err := boot.Started(c.Flags.Over(os.LookupEnv)); err != nil || started {
			return cmp.Or(err, error(fault.New(fault.Usage,
				"--times and a second result are not for ranks that a launcher has started").
				WithHint("under a launcher repeat the whole command: one perigee rerun per run, each with its own --result, then perigee compare FOLDER FOLDER; "+
					"in a shell that is itself a rank, as that of srun --pty, say --launcher local")))
		}
		if err := run.StartsHere(c.Flags.Over(os.LookupEnv), c.Flags, s.Err); err != nil {
			return err
		}
		return c.runSeries(s)
	}
	if err := c.Judging.Check(); err != nil {
		return err
	}
	place, err := c.place(s, k.Args)
	if err := cmp.Or(err, cli.NotOver(c.Page, c.Of), cli.NotOver(c.Result, c.Of), c.apart()); err != nil {
		return err
	}
	return c.job(s, place).Run(context.Background(), s)
}

// place chooses the file of a result that --result does not name, and returns the command line of a rank: all ranks
// that are started here get the same name.
func (c *Cmd) place(s cli.Streams, process []string) ([]string, error) {
	if info, err := os.Stat(c.Of); c.Result != "" || c.OnlyRun != "" || err != nil || !info.Mode().IsRegular() {
		return process, nil // what is wrong with the file its reader says
	}
	_, started, err := boot.Started(c.Flags.Over(os.LookupEnv))
	if err != nil {
		return process, err
	}
	c.Result = beside(c.Of, ".json.zst")
	c.says = "the new result goes to " + c.Result
	if started {
		return process, nil
	}
	fmt.Fprintln(s.Err, "perigee:", plaintext.Escape(c.says))
	return slices.Insert(slices.Clone(process), 1, "--result="+c.Result), nil
}

// beside names a place beside a result, or a folder of results, that is free: r-rerun-1 and the ending for r.json.
func beside(of, ending string) string {
	folder, name := filepath.Split(filepath.Clean(of))
	stem, _, _ := strings.Cut(name, ".json")
	for n := 1; ; n++ {
		path := fmt.Sprintf("%s%s-rerun-%d", folder, stem, n)
		taken := false
		for _, end := range []string{"", ".json", ".json.gz", ".json.zst"} {
			_, err := os.Lstat(path + end)
			taken = taken || err == nil
		}
		if !taken {
			return path + ending
		}
	}
}

// apart refuses to write the comparison over the new result, which may not be there yet.
func (c *Cmd) apart() error {
	if c.Page == "" || c.Page == "-" || c.Result == "" || !file.SamePlace(c.Page, c.Result) {
		return nil
	}
	return fault.New(fault.Usage, "-o %s is the file of --result: the comparison would be written over it", c.Page).
		WithHint("name another file")
}

// asText reports whether the comparison is for people.
func (c *Cmd) asText() bool {
	format, err := c.As()
	return err == nil && format == "text"
}

// job is the job of one run. process is the whole command line without the program.
func (c *Cmd) job(s cli.Streams, process []string) run.Job {
	j := run.Job{
		Command: "perigee rerun", Flags: c.flags(), Process: process, ID: c.OnlyRun, Repeats: c.Of, Says: c.says,
		Conclude: func(old, fresh *result.Document) error { return c.conclude(s, old, fresh) },
		// A program that reads the comparison wants nothing else.
		Aside: !c.asText() && (c.Page == "" || c.Page == "-"),
	}
	if c.OnlyRun != "" {
		j.Conclude = nil
	} else {
		j.Suites = func() []junit.Suite { return c.suites(time.Now()) }
	}
	return j
}

// suites are the comparison as tests; none where nothing has been compared.
func (c *Cmd) suites(began time.Time) []junit.Suite {
	if c.cases == nil {
		return nil
	}
	return []junit.Suite{{Name: "perigee compare", Began: began, Cases: c.cases}}
}

// flags are those of the job, with what a scenario could have taken for itself: this command line has none.
func (c *Cmd) flags() run.Flags {
	f := c.Flags
	f.Yielding = c.Yielding
	return f
}

// beforeAndAfter are the commands that find out what a change does to a run: n runs without it, n runs with it.
func beforeAndAfter(path string, n int) string {
	again := func(folder string) string {
		return cli.CommandLine([]string{"perigee", "rerun", path, "--times", fmt.Sprint(n), "--result", folder})
	}
	return "now " + again("before") + ", after the change " + again("after") + ", and in the end perigee compare before after"
}

// conclude compares the result of the repetition with the old one.
func (c *Cmd) conclude(s cli.Streams, old, fresh *result.Document) error {
	out := &cli.Output{W: s.Out}
	s.Out = out
	if c.asText() {
		fmt.Fprintf(s.Out, "# %s, of %s, and this run:\n", plaintext.Escape(c.Of), old.Started.Format(time.DateTime+" UTC"))
	}
	err := c.Judge(s, compare.Sides{
		Old: []*result.Document{old}, New: []*result.Document{fresh},
		Advice: func(n int) string {
			if fresh.World.Launcher != "local" {
				return fmt.Sprintf("repeat the launcher's whole command %d times, each with its own --result before/N.json.zst, "+
					"after the change as often with after/N.json.zst, and in the end perigee compare before after", n)
			}
			return beforeAndAfter(c.Of, n)
		},
		Cases: func(list []junit.Case) { c.cases = list },
	})
	return cmp.Or(out.Fault(), err)
}
