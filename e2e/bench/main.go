// Bench compares perigee with what it could be compared with on this machine: make bench, or for some sections only
// SECTIONS="files barrier". Every figure is a ratio of two things that ran in turns, or, where there is nothing to
// compare with, stands next to its target.
//
// Package transfer holds the engines against loops in C, barrier the meeting of ranks against MPI, job whole commands
// against fio, MPI and bare library calls, replay what a schedule posts against its times, and truth what perigee
// reports against experiments whose outcome is known.
// main.go lists the sections. Turns alternate so that a disturbance of the machine meets both sides; the ratio of a
// comparison is the median of the turns' ratios, and its quartiles are printed beside it.
//
// A section that misses its target says so in its line, and one that fails does not keep the others from running. It
// is no test, and no part of the product: on a busy machine it misses targets.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee/e2e/bench/barrier"
	"perigee/e2e/bench/job"
	"perigee/e2e/bench/replay"
	"perigee/e2e/bench/transfer"
	"perigee/e2e/bench/truth"
	"perigee/internal/traffic/matrix"
	"perigee/tools/kvbench"
)

func main() {
	transfer.Child() // does not return in the processes that this benchmark starts
	job.Child()      // nor this
	measure := run
	switch {
	case barrier.IsRank():
		measure = barrier.Rank
	case replay.IsRank():
		measure = replay.Rank
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// section is a part of the benchmark that can be run alone.
type section struct {
	name string
	run  func(w io.Writer, c *job.Command) error
}

var sections = []section{
	{"shm", func(w io.Writer, _ *job.Command) error { return transfer.SHM(w) }},
	{"nixl", func(w io.Writer, _ *job.Command) error { return transfer.NIXL(w) }},
	{"gpu", func(w io.Writer, _ *job.Command) error { return transfer.GPU(w) }},
	{"scenario", func(w io.Writer, c *job.Command) error { return c.Latency(w) }},
	{"blocks", func(w io.Writer, c *job.Command) error { return c.Blocks(w) }},
	{"files", func(w io.Writer, c *job.Command) error { return c.Files(w) }},
	{"experts", func(w io.Writer, c *job.Command) error { return c.Experts(w) }},
	{"connect", func(w io.Writer, c *job.Command) error { return c.Connect(w) }},
	{"barrier", func(w io.Writer, _ *job.Command) error { return barrier.Run(w) }},
	{"proofs", func(w io.Writer, _ *job.Command) error { return barrier.Proofs(w) }},
	{"replay", func(w io.Writer, _ *job.Command) error { return replay.Run(w) }},
	{"prepare", func(w io.Writer, c *job.Command) error { return c.Prepare(w) }},
	{"runs", func(w io.Writer, c *job.Command) error { return c.WholeRuns(w) }},
	{"start", func(w io.Writer, c *job.Command) error { return c.Start(w) }},
	{"memory", func(w io.Writer, c *job.Command) error { return c.Weight(w) }},
	{"long", func(w io.Writer, c *job.Command) error { return c.Long(w, 12*60) }},
	{"truth", func(w io.Writer, c *job.Command) error { return truth.Run(w, c.Program()) }},
	{"compare", func(w io.Writer, c *job.Command) error { return c.Compare(w) }},
	{"parse", parse},
	{"plan", plan},
	{"tools", func(w io.Writer, c *job.Command) error { return c.Tools(w) }},
}

// chosen are the sections with these names, all if there are none.
func chosen(names []string) ([]section, error) {
	if len(names) == 0 {
		return sections, nil
	}
	var some []section
	for _, name := range names {
		at := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
		if at < 0 {
			var known []string
			for _, s := range sections {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("no section %q: there are %s", name, strings.Join(known, ", "))
		}
		some = append(some, sections[at])
	}
	return some, nil
}

// run runs the sections that the command line names, or all, and reports those that failed at its end.
func run() error {
	todo, err := chosen(os.Args[1:])
	if err != nil {
		return err
	}
	c, err := job.New()
	if err != nil {
		return err
	}
	defer c.Close()
	out := os.Stdout
	fmt.Fprintf(out, "# %s; %d cores; Linux %s; %s\n# Whatever is compared takes turns; a ratio is the median of the turns' ratios.\n\n",
		program(), runtime.NumCPU(), kernel(), load())
	began := time.Now()
	var failed error
	for _, s := range todo {
		start := time.Now()
		if err := s.run(out, c); err != nil {
			err = fmt.Errorf("section %s: %w", s.name, err)
			fmt.Fprintln(out, err) // the others can do without it
			failed = errors.Join(failed, err)
		}
		fmt.Fprintf(out, "# section %s took %.0f s\n\n", s.name, time.Since(start).Seconds())
	}
	fmt.Fprintf(out, "# %.0f s; %s\n", time.Since(began).Seconds(), load())
	return failed
}

// parse measures how fast the text of a dense matrix is read. Target: 100 MB/s.
func parse(w io.Writer, _ *job.Command) error {
	const n = 1024
	m, err := matrix.AllToAll(n, 123_456_789, true)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		return err
	}
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err = matrix.ParseText("bench", text.Bytes()); err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# parsing a dense %d x %d text matrix (target: 100 MB/s)\n%.0f MB/s\n",
		n, n, float64(text.Len())/float64(r.NsPerOp())*1e3)
	return err
}

// plan measures how long kvbench takes for all models with all configs that are
// part of perigee. Target: 100 ms.
func plan(w io.Writer, _ *job.Command) error {
	var n int
	var err error
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if n, err = kvbench.PlanAll(); err != nil {
				return // b.Fatal works in a test only
			}
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# %d plans of kvbench (target: 100 ms)\n%.1f ms\n", n, float64(r.NsPerOp())/1e6)
	return err
}
