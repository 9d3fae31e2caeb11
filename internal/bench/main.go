// Bench compares perigee with what it could be compared with on this machine:
// make bench. Every figure is a ratio of two things that ran in turns, or, where
// there is nothing to compare with, stands next to its target.
package main

import (
	"fmt"
	"os"
	"testing"

	"perigee/internal/bench/barrier"
	"perigee/internal/bench/job"
	"perigee/internal/bench/storage"
	"perigee/internal/bench/transfer"
	"perigee/internal/traffic/matrix"
	"perigee/tools/kvbench"
)

func main() {
	transfer.Child() // does not return in the processes that this benchmark starts
	measure := run
	if barrier.IsRank() {
		measure = barrier.Rank
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	c, err := job.New()
	if err != nil {
		return err
	}
	defer c.Close()
	out := os.Stdout
	for _, step := range []func() error{
		func() error { return transfer.SHM(out) },
		func() error { return transfer.NIXL(out) },
		func() error { return c.Latency(out) },
		func() error { return c.Blocks(out) },
		func() error { return storage.Run(out, c) },
		func() error { return barrier.Run(out) },
		func() error { return c.Prepare(out) },
		func() error { return c.WholeRuns(out) },
		func() error { return c.Weight(out) },
		parse,
		plan,
	} {
		if err := step(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// parse measures how fast the text of a dense matrix is read. Target: 100 MB/s.
func parse() error {
	const n = 1024
	m, err := matrix.AllToAll(n, 123_456_789, true)
	if err != nil {
		return err
	}
	var text writer
	if err := m.WriteText(&text); err != nil {
		return err
	}
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := matrix.ParseText("bench", text); err != nil {
				b.Fatal(err)
			}
		}
	})
	fmt.Printf("# parsing a dense %d x %d text matrix (target: 100 MB/s)\n%.0f MB/s\n",
		n, n, float64(len(text))/float64(r.NsPerOp())*1e3)
	return nil
}

// plan measures how long kvbench takes for all models with all configs that are
// part of perigee. Target: 100 ms.
func plan() error {
	n := 0
	r := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			var err error
			if n, err = kvbench.PlanAll(); err != nil {
				b.Fatal(err)
			}
		}
	})
	fmt.Printf("# %d plans of kvbench (target: 100 ms)\n%.1f ms\n", n, float64(r.NsPerOp())/1e6)
	return nil
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
