// Package barrier measures how long ranks on one host take to meet, and sets it
// beside MPI_Barrier of the MPI libraries that are installed.
//
// All are measured in the same way: batches of barriers back to back, timed at
// rank 0. The contenders take turns, so that a disturbance of the machine meets
// all of them.
package barrier

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee/internal/clock"
	"perigee/spmd"
	"perigee/spmd/boot"
	"perigee/spmd/launch"
)

const (
	batch  = 10                     // barriers between two looks at the clock
	budget = 100 * time.Millisecond // of one turn
	turns  = 5
	// patience is what a turn may take, start included. Who takes longer gets no
	// other one: MPI libraries that never yield need milliseconds for a barrier
	// of more ranks than cores.
	patience = 2 * time.Second
)

// envRank marks a process as a rank of this benchmark.
const envRank = "PERIGEE_BENCH_BARRIER"

// IsRank reports whether this process was started as a rank of the benchmark.
// The program that calls Run must then call Rank and nothing else.
func IsRank() bool { return os.Getenv(envRank) != "" }

// Rank is a rank of the benchmark. Rank 0 prints one line per batch with the
// nanoseconds of one barrier.
func Rank() error {
	ctx := context.Background()
	p, err := boot.Join(ctx, os.LookupEnv, boot.Watcher{})
	if err != nil {
		return err
	}
	w, err := spmd.Join(ctx, p, spmd.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	times, err := measure(w.All())
	if err != nil {
		w.Fail(err)
		w.Close()
		return err
	}
	if w.Rank() == 0 {
		for _, t := range times {
			fmt.Printf("%.1f\n", t)
		}
	}
	return w.Close()
}

func measure(g *spmd.Group) ([]float64, error) {
	run := func() (float64, error) {
		start := clock.Now()
		for range batch {
			if err := g.Barrier(); err != nil {
				return 0, err
			}
		}
		return float64(clock.Now()-start) / batch, nil
	}
	best := math.Inf(1) // the first batches pay for what comes into being with them
	for range 3 {
		once, err := run()
		if err != nil {
			return nil, err
		}
		best = min(best, once)
	}
	batches, err := spmd.BroadcastValue(g, 0, int(float64(budget)/(best*batch))+1)
	if err != nil {
		return nil, err
	}
	times := make([]float64, batches)
	for i := range times {
		if times[i], err = run(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// Row is the outcome for one number of ranks: the median time of a barrier per
// contender in nanoseconds, in the order of Contenders.
type Row struct {
	Ranks  int
	Median []float64
}

// Result is what Measure found.
type Result struct {
	Contenders []string // "perigee" first
	Rows       []Row
}

type contender struct {
	name  string
	start func(ranks int) ([]float64, error)
}

// Measure runs the benchmark for the given numbers of ranks. MPI libraries
// whose compiler wrapper (mpicc.openmpi, mpicc.mpich) is not installed are left
// out.
func Measure(ctx context.Context, ranks []int) (*Result, error) {
	dir, err := os.MkdirTemp("", "perigee-barrier-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	contenders := []contender{{"perigee", func(n int) ([]float64, error) { return runOwn(ctx, n) }}}
	for _, mpi := range []struct {
		name  string
		flags []string
	}{
		{"openmpi", []string{"--allow-run-as-root", "--oversubscribe"}},
		{"mpich", nil},
	} {
		program, err := compile(ctx, dir, mpi.name)
		if err != nil {
			return nil, err
		}
		if program == "" {
			continue
		}
		contenders = append(contenders, contender{mpi.name, func(n int) ([]float64, error) {
			return runMPI(ctx, "mpirun."+mpi.name, append(mpi.flags, "-n", strconv.Itoa(n), program))
		}})
	}
	r := &Result{}
	for _, c := range contenders {
		r.Contenders = append(r.Contenders, c.name)
	}
	for _, n := range ranks {
		row, err := compete(contenders, n)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// compete lets the contenders take turns.
func compete(contenders []contender, ranks int) (Row, error) {
	all := make([][]float64, len(contenders))
	slow := make([]bool, len(contenders))
	for range turns {
		for i, c := range contenders {
			if slow[i] {
				continue
			}
			start := time.Now()
			times, err := c.start(ranks)
			if err != nil {
				return Row{}, fmt.Errorf("%s with %d ranks: %w", c.name, ranks, err)
			}
			all[i] = append(all[i], times...)
			slow[i] = time.Since(start) > patience
		}
	}
	row := Row{Ranks: ranks}
	for _, times := range all {
		slices.Sort(times)
		row.Median = append(row.Median, times[len(times)/2])
	}
	return row, nil
}

func runOwn(ctx context.Context, ranks int) ([]float64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	err = launch.Run(ctx, launch.Job{
		Ranks: ranks, Path: self, Env: append(os.Environ(), envRank+"=1"), Stdout: &out, Stderr: &errOut,
	})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, errOut.Bytes())
	}
	return parse(out.String())
}

func runMPI(ctx context.Context, mpirun string, args []string) ([]float64, error) {
	cmd := exec.CommandContext(ctx, mpirun, append(args, strconv.Itoa(batch), strconv.FormatInt(int64(budget), 10))...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, errOut.Bytes())
	}
	return parse(string(out))
}

// parse reads one number per line.
func parse(text string) ([]float64, error) {
	var times []float64
	for line := range strings.Lines(text) {
		t, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: want nanoseconds: %w", len(times)+1, err)
		}
		times = append(times, t)
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("no times were printed")
	}
	return times, nil
}

//go:embed mpi/barrier.c
var source []byte

// compile builds the MPI program, and returns "" where there is no compiler.
func compile(ctx context.Context, dir, mpi string) (program string, err error) {
	compiler, err := exec.LookPath("mpicc." + mpi)
	if err != nil {
		return "", nil
	}
	file := filepath.Join(dir, "barrier.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, mpi)
	if out, err := exec.CommandContext(ctx, compiler, "-O2", "-o", program, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return program, nil
}

// Run measures 2, 4, 8 and 16 ranks and prints a table: the median of one
// barrier in nanoseconds, and perigee's time divided by each MPI's.
func Run(w io.Writer) error {
	r, err := Measure(context.Background(), []int{2, 4, 8, 16})
	if err != nil {
		return err
	}
	return r.Print(w)
}

// Print writes the table.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# median time of a barrier in ns; %d turns of %v; ratio: perigee / other, below 1 is faster\n", turns, budget)
	b.WriteString("# ranks")
	for i, c := range r.Contenders {
		fmt.Fprintf(&b, " %10s", c)
		if i > 0 {
			fmt.Fprintf(&b, " %7s", "ratio")
		}
	}
	b.WriteByte('\n')
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%7d", row.Ranks)
		for i, m := range row.Median {
			fmt.Fprintf(&b, " %10.0f", m)
			if i > 0 {
				fmt.Fprintf(&b, " %7.2f", row.Median[0]/cmp.Or(m, 1))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
