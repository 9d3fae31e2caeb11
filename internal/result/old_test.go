package result_test

import (
	"path/filepath"
	"testing"

	"perigee/internal/result"
)

// Results that version 0.1.0 wrote stay readable: one of patterns with files and a threshold, one of block transfers,
// one with a scenario's own metric, table and value, and one of a run that failed.
func TestReadsOldResults(t *testing.T) {
	for name, check := range map[string]func(d *result.Document) bool{
		"patterns.json.zst": func(d *result.Document) bool {
			p := d.Patterns
			return len(p) == 2 && len(d.Storage) == 10 && len(d.Measurements) == 10 && *p[0].Slowdown > 0 && *d.Thresholds[0].Passed && len(d.Matrices) == 2 &&
				len(d.World.Hosts) == 1 && d.World.Clocks[0] == result.Clock{} && d.Engine.Name == "shm" && d.Inputs[0].Text != ""
		},
		"blocks.json.gz": func(d *result.Document) bool {
			return len(d.Lanes) == 2 && d.Lanes[1].BlockBytes == 8192 && d.Lanes[1].Latency.Count == 20 && d.Lanes[1].Latency.P99 > 0
		},
		"metrics.json": func(d *result.Document) bool {
			return d.Metrics[0].Name == "ttft" && len(d.Metrics[0].Values) == 3 && len(d.Tables[0].Rows) == 2 && d.Values["answer"] != nil
		},
		"partial.json": func(d *result.Document) bool {
			f := d.Failure
			return d.Status == result.Partial && f.Rank >= 0 && f.Kind == 4 && f.Phase == "workload" && f.String() == "rank 1 on vm, phase workload: fail.lua:5: on purpose"
		},
	} {
		d, err := result.Read(filepath.Join("testdata", "0.1.0", name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !check(d) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
