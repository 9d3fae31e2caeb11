package disagg

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/serving/benchlog"
	"perigee/internal/serving/judge"
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
	var levels []*runs.LoadLevel
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
			row := report.Row{Test: l.Test(), Start: r.Start, Concurrency: boundOf(r)}
			if info, err := os.Stat(r.File); row.Start.IsZero() && err == nil {
				row.Start = info.ModTime().Truncate(time.Second)
			}
			row.End = row.Start
			if r.Duration > 0 {
				row.End = row.Start.Add(time.Duration(r.Duration * float64(time.Second)))
			}
			for metric, value := range metricsOf(r) {
				row.Metric, row.Value = metric, value
				rows = append(rows, row)
			}
		}
	}
	return rows, nil
}

// boundOf is the concurrency of a run, 0 where it is not known or not bounded.
func boundOf(r *runs.Record) int {
	if r.Concurrency < math.MaxInt32 {
		return int(r.Concurrency)
	}
	return 0
}

// metricsOf are the figures of a run, as those of a batch are called.
func metricsOf(r *runs.Record) map[string]float64 {
	all := map[string]float64{
		"SERVER_OUTPUT_TOKEN_THROUGHPUT": r.OutputRate, "SERVER_REQUEST_THROUGHPUT": r.RequestRate,
	}
	for name, statistic := range statistics {
		for latency, quantity := range benchlog.Quantities {
			all[benchlog.Name(name, quantity)] = r.Stat(runs.Latency(latency), statistic)
		}
	}
	maps.DeleteFunc(all, func(_ string, x float64) bool { return math.IsNaN(x) })
	return all
}

// judgeReport judges a report of llm-d by what keeps runs off the front of a sweep.
func judgeReport(path string, g judge.Gates) (reading, error) {
	got, err := runs.Load([]string{path}, runs.DefaultLoadOptions())
	if err == nil && len(got.Skipped) > 0 {
		err = got.Skipped[0].Err
	}
	if err != nil {
		return reading{}, err
	}
	runs.Doubts{MaxFailed: g.MaxFailed, AllowImplausible: g.Implausible}.Mark(got.Runs)
	v := &judge.Verdict{Levels: []judge.Level{}, Accuracy: []judge.Score{}, Reasons: []string{}, State: judge.Passed,
		Files: []string{filepath.Base(path)}}
	log := &benchlog.Log{Unmarked: true}
	for _, r := range got.Runs {
		l := judge.Level{Client: r.Harness, Complete: true, Metrics: metricsOf(r), Concurrency: boundOf(r)}
		l.Throughput = max(0, benchlog.Or(r.OutputRate, 0))
		v.Levels, v.Reasons = append(v.Levels, l), append(v.Reasons, r.OffFront...)
		v.Warnings = append(v.Warnings, r.Notes...)
		counts := benchlog.NewLevel()
		if r.Requests >= 0 && r.Failed >= 0 { // a report has one run
			counts.Requests, counts.Failed = r.Requests, r.Failed
			v.TotalRequests, v.FailedRequests = new(int(r.Requests)), new(int(r.Failed))
		}
		log.Levels = append(log.Levels, counts)
	}
	if len(v.Reasons) > 0 || len(v.Levels) == 0 {
		v.State = judge.Failed
	}
	return reading{path, v, log}, nil
}
