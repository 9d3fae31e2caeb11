package barrier

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"perigee/e2e/bench/transfer"
)

// Way selects the barrier in which the ranks meet.
type Way string

// The ways. With Links each rank counts as a separate host; all of them run here. Broadcast is no barrier but a
// broadcast of 1 MiB over such links.
const (
	Memory    Way = "memory"
	Links     Way = "links"
	Broadcast Way = "broadcast"
)

const (
	turns = 5
	// patience limits a turn, start included. Who takes longer gets no
	// other one: MPI libraries that never yield need milliseconds for a barrier
	// of more ranks than cores.
	patience = 3 * time.Second
	// limit ends a turn of an MPI library. Some, with many more ranks than cores, do
	// not even find their end. ownLimit is perigee's: to pass it is a failure.
	limit    = 6 * time.Second
	ownLimit = time.Minute
)

// ourselves is the name of the first contender.
const ourselves = "perigee"

// Cell holds the times of one contender with one number of ranks, in nanoseconds. All are
// NaN if it did not end within the limit.
type Cell struct {
	Time  float64 // of a barrier: the median of the turns' medians
	Skew  float64 // between the first and the last to leave one, likewise
	Ratio float64 // perigee's time over this one's: the median over the turns
}

// Row is the outcome for one number of ranks, in the order of Contenders.
type Row struct {
	Ranks int
	Cells []Cell
}

// Result holds the figures of Measure.
type Result struct {
	Way        Way
	Contenders []string // "perigee" first
	Rows       []Row
	Cores      int
}

// Measure runs the benchmark for the given numbers of ranks. MPI libraries
// whose compiler wrapper (mpicc.openmpi, mpicc.mpich) is not installed are left
// out.
func Measure(ctx context.Context, way Way, ranks []int) (*Result, error) {
	folder, err := os.MkdirTemp("", "perigee-barrier-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	all, err := contenders(ctx, folder)
	if err != nil {
		return nil, err
	}
	r := &Result{Way: way, Cores: runtime.NumCPU()}
	for _, c := range all {
		r.Contenders = append(r.Contenders, c.name)
	}
	for _, n := range ranks {
		row, err := compete(ctx, all, way, n)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// compete lets the contenders take turns.
func compete(ctx context.Context, all []contender, way Way, ranks int) (Row, error) {
	times, skews, ratios := make([][]float64, len(all)), make([][]float64, len(all)), make([][]float64, len(all))
	out := make([]bool, len(all))
	for range turns {
		var first float64
		for i, c := range all {
			if out[i] {
				continue
			}
			start := time.Now()
			s, err := turn(ctx, c, way, ranks)
			if err != nil {
				return Row{}, fmt.Errorf("%s with %d ranks: %w", c.name, ranks, err)
			}
			out[i] = time.Since(start) > patience && c.name != ourselves
			if len(s.times) == 0 {
				continue
			}
			t := transfer.Median(s.times)
			if i == 0 {
				first = t
			}
			times[i], skews[i], ratios[i] = append(times[i], t), append(skews[i], transfer.Median(s.skews)),
				append(ratios[i], first/t)
		}
	}
	row := Row{Ranks: ranks}
	for i := range all {
		row.Cells = append(row.Cells, Cell{median(times[i]), median(skews[i]), median(ratios[i])})
	}
	return row, nil
}

// turn lets a contender measure, and returns nothing if it takes too long.
func turn(ctx context.Context, c contender, way Way, ranks int) (sample, error) {
	most := limit
	if c.name == ourselves {
		most = ownLimit
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	s, err := c.start(within, way, ranks)
	if err != nil && within.Err() != nil && ctx.Err() == nil && c.name != ourselves {
		return sample{}, nil
	}
	return s, err
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return transfer.Median(list)
}

// parse reads what a rank 0 prints.
func parse(text string) (sample, error) {
	var s sample
	n := 0
	for line := range strings.Lines(text) {
		n++
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		ns, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return sample{}, fmt.Errorf("line %d: want time or skew with nanoseconds: %w", n, err)
		}
		switch name {
		case "time":
			s.times = append(s.times, ns)
		case "skew":
			s.skews = append(s.skews, ns)
		default:
			return sample{}, fmt.Errorf("line %d: want time or skew, got %q", n, name)
		}
	}
	if len(s.times) == 0 || len(s.skews) == 0 {
		return sample{}, fmt.Errorf("%d times and %d skews were printed, want some of both", len(s.times), len(s.skews))
	}
	return s, nil
}

// Run measures 2 to 64 ranks, first of one host, then each as a separate host, and prints
// a table for each.
func Run(w io.Writer) error {
	for i, way := range []Way{Memory, Links} {
		if i > 0 {
			fmt.Fprintln(w)
		}
		r, err := Measure(context.Background(), way, []int{2, 4, 8, 16, 32, 64})
		if err != nil {
			return err
		}
		if err := r.Print(w); err != nil {
			return err
		}
	}
	return nil
}

var titles = map[Way]string{
	Memory: "ranks of one host, in shared memory",
	Links:  "hosts of one rank each, all on this machine, over TCP (MPI: told to use nothing else)",
}

// growthTarget is how much faster than log2 N the time of a barrier may grow, as long as
// there is a core for each rank.
const growthTarget = 2.0

// Print writes the table. growth is perigee's time over that of the first row, over log2 of
// the number of ranks.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# barriers of %s\n", titles[r.Way])
	fmt.Fprintf(&b, "# medians of %d turns of %v; skew: from the first rank that leaves a barrier to the last; ratio: perigee / other, below 1 is faster\n", turns, budget)
	fmt.Fprintf(&b, "# growth: time / (time of %d ranks x log2 ranks), target %.1f up to the %d cores of this machine; with more ranks (+) it is the scheduler that is measured\n",
		r.Rows[0].Ranks, growthTarget, r.Cores)
	fmt.Fprintf(&b, "# -: no result within %v\n", limit)
	fmt.Fprintf(&b, "%-8s", "# ranks")
	for i, c := range r.Contenders {
		if i == 0 {
			fmt.Fprintf(&b, " %12s %9s %7s", c+" us", "skew us", "growth")
			continue
		}
		fmt.Fprintf(&b, " %12s %9s %7s", c+" us", "skew us", "ratio")
	}
	b.WriteByte('\n')
	for _, row := range r.Rows {
		r.printRow(&b, row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printRow prints the times of one number of ranks, and whether they grow with its logarithm, which a barrier in
// rounds must. With more ranks than cores the kernel's scheduler decides, so that no target holds there.
func (r *Result) printRow(b *strings.Builder, row Row) {
	mark, verdict := "", ""
	first := r.Rows[0]
	growth := row.Cells[0].Time / first.Cells[0].Time / math.Log2(float64(row.Ranks)) * math.Log2(float64(first.Ranks))
	switch {
	case row.Ranks > r.Cores:
		mark = "+"
	case growth > growthTarget:
		verdict = "  MISSED"
	default:
		verdict = "  ok"
	}
	fmt.Fprintf(b, "%-8s", strconv.Itoa(row.Ranks)+mark)
	for i, c := range row.Cells {
		last := c.Ratio
		if i == 0 {
			last = growth
		}
		fmt.Fprintf(b, " %12s %9s %7s", number(c.Time/1e3), number(c.Skew/1e3), number(last))
	}
	fmt.Fprintf(b, "%s\n", verdict)
}

func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x < 100:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
