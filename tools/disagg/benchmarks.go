package disagg

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/runs"
	"perigee/tools/disagg/report"
)

// statistics are the statistics of latencies that make figures, by their names in figures.
var statistics = map[string]runs.Statistic{"Mean": runs.Mean, "Median": runs.P50, "P99": runs.P99}

// figuresOf are the figures of serving benchmarks that no batch has run: of each configuration and level, as those of a
// batch are called. A run began when its file was written, unless it says more.
func figuresOf(w io.Writer, path string) (rows []report.Row, _ error) {
	got, err := runs.Load([]string{path}, runs.DefaultLoadOptions())
	if err != nil {
		return nil, err
	}
	for _, f := range got.Skipped {
		fmt.Fprintln(plaintext.Writer(w), "warning: skipped", cli.Shortened(f.Err.Error()))
	}
	runs.Doubts{}.Mark(got.Runs)
	var levels []*runs.Level
	for _, r := range got.Runs {
		switch {
		case len(r.OffFront) > 0:
			fmt.Fprintf(plaintext.Writer(w), "warning: %s does not count: %s\n", r.File, r.OffFront[0])
		case !r.Transfer:
			levels = runs.Place(levels, 0, path, r)
		}
	}
	runs.SortLevels(levels)
	for _, l := range levels {
		for _, r := range l.Runs[0] {
			row := report.Row{Test: l.Test(), Start: r.Start}
			if r.Concurrency < math.MaxInt32 { // not unknown, and not without a limit
				row.Concurrency = int(r.Concurrency)
			}
			if info, err := os.Stat(r.File); row.Start.IsZero() && err == nil {
				row.Start = info.ModTime().Truncate(time.Second)
			}
			row.End = row.Start
			if r.Duration > 0 {
				row.End = row.Start.Add(time.Duration(r.Duration * float64(time.Second)))
			}
			add := func(metric string, value float64) {
				if !math.IsNaN(value) {
					row.Metric, row.Value = metric, value
					rows = append(rows, row)
				}
			}
			for name, statistic := range statistics {
				for latency, quantity := range benchlog.Quantities {
					add(benchlog.Name(name, quantity), r.Latency[latency][statistic])
				}
			}
			add("SERVER_OUTPUT_TOKEN_THROUGHPUT", r.OutputTokens)
			add("SERVER_REQUEST_THROUGHPUT", r.Requests)
		}
	}
	return rows, nil
}
