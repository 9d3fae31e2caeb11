package job

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"perigee/e2e/bench/transfer"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
	"perigee/nixl"
)

// KVBench runs the scenario kvbench for one size and returns what it measured.
func (c *Command) KVBench(args ...string) (*series.Measurement, error) {
	file := filepath.Join(c.folder, "kvbench.json")
	if _, _, err := c.run(append([]string{"run", "kvbench", "--result", file}, args...)...); err != nil {
		return nil, err
	}
	doc, err := result.Read(file)
	if err != nil {
		return nil, err
	}
	if len(doc.Lanes) != 1 {
		return nil, fmt.Errorf("kvbench %v measured %d sizes, want 1", args, len(doc.Lanes))
	}
	return &doc.Lanes[0].Measurement, nil
}

// Size are the options for one block size and one batch size.
func Size(block, batch, iterations int) []string {
	b, n := strconv.Itoa(block), strconv.Itoa(batch)
	return []string{
		"--start_block_size", b, "--max_block_size", b, "--start_batch_size", n, "--max_batch_size", n,
		"--num_iter", strconv.Itoa(iterations), "--warmup_iter", strconv.Itoa(iterations/10 + 2),
	}
}

// Blocks compares batches of blocks, as kvbench on NIXL measures them, with a bare C
// loop over the same library: the median of post and wait. Targets: 1.05, for 4 KiB 1.2.
func (c *Command) Blocks(w io.Writer) error {
	bare, err := transfer.StartLoop(nixl.DRAM)
	if err != nil {
		return err
	}
	defer bare.Close()
	fmt.Fprintln(w, "# perigee run kvbench on NIXL against a C loop over the same library, 2 ranks, one request of many blocks")
	var cases []transfer.Case
	for _, op := range []string{"write", "read"} {
		for _, size := range []struct {
			name         string
			block, batch int
			count        int
			target       float64
		}{{"4 KiB x 1", 4 << 10, 1, 2000, 1.2}, {"64 KiB x 1000", 64 << 10, 1000, 10, 1.05},
			{"1 MiB x 64", 1 << 20, 64, 10, 1.05}} {
			cases = append(cases, transfer.Case{
				Name: fmt.Sprintf("kvbench %s %s", op, size.name), Bytes: size.block * size.batch, Count: size.count,
				Turns: processTurns, Target: size.target,
				Ours: func(_, count int) (time.Duration, error) {
					m, err := c.KVBench(append(Size(size.block, size.batch, count), "-n", "2", "--engine", "nixl",
						"--op_type", op)...)
					if err != nil {
						return 0, err
					}
					return time.Duration(m.Latency.P50), nil
				},
				Theirs: func(_, count int) (time.Duration, error) {
					return bare.Measure(fmt.Sprintf("%s:%d", op, size.batch), size.block, count)
				},
			})
		}
	}
	return transfer.Report(w, cases)
}
