package result_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// What no clock and no count can have given is refused: worked on, it would pass for a measurement.
func TestImpossibleFigures(t *testing.T) {
	below := func() *float64 { return new(-0.5) }
	for want, change := range map[string]func(d *result.Document){
		"measurements[0]: latency_ns: wanted end_ns - start_ns": func(d *result.Document) { d.Measurements[0].LatencyNS++ },
		"measurements[0]: end_ns - start_ns: wanted 0 or more":  func(d *result.Document) { d.Measurements[0].EndNS, d.Measurements[0].LatencyNS = 9, -1 },
		"measurements[0]: end_ns - start_ns: wanted 0 or more, got -9.22": func(d *result.Document) {
			d.Measurements[0].StartNS, d.Measurements[0].EndNS, d.Measurements[0].LatencyNS = 1, math.MinInt64, math.MaxInt64
		},
		"measurements[0]: uncertainty_ns: wanted":                            func(d *result.Document) { d.Measurements[0].UncertaintyNS = -1 },
		"measurements[0]: barrier_exit_skew_ns: wanted":                      func(d *result.Document) { d.Measurements[0].BarrierExitSkewNS = new(int64(-1)) },
		"measurements[0]: start_skew_ns: wanted":                             func(d *result.Document) { d.Measurements[0].StartSkewNS = new(int64(-1)) },
		"measurements[0]: mean_bandwidth_bytes_per_s: wanted":                func(d *result.Document) { d.Measurements[0].MeanBandwidth = -1 },
		"measurements[0]: ranks[0]: end_ns - start_ns: wanted":               func(d *result.Document) { d.Measurements[0].Ranks[0].StartNS = math.MinInt64 },
		"measurements[0]: ranks[0]: bytes: wanted":                           func(d *result.Document) { d.Measurements[0].Ranks[0].Bytes = -1 },
		"measurements[0]: ranks[0].peers[0]: bytes: wanted":                  func(d *result.Document) { d.Measurements[0].Ranks[0].Peers[0].Bytes = -1 },
		"measurements[0]: ranks[0].peers[0]: end_ns - start_ns: wanted":      func(d *result.Document) { d.Measurements[0].Ranks[0].Peers[0].EndNS = 9 },
		"storage[0]: end_ns - start_ns: wanted":                              func(d *result.Document) { d.Storage[0].EndNS = d.Storage[0].StartNS - 1 },
		"storage[0]: bytes: wanted":                                          func(d *result.Document) { d.Storage[0].Bytes = -1 },
		"lanes[0]: batch: wanted 0 or more, got -1":                          func(d *result.Document) { d.Lanes[0].Batch = -1 },
		"lanes[0]: block_bytes: wanted":                                      func(d *result.Document) { d.Lanes[0].BlockBytes = -4096 },
		"lanes[0]: bandwidth_bytes_per_s: wanted":                            func(d *result.Document) { d.Lanes[0].Bandwidth = -1 },
		"lanes[0]: tx.p99_ns: wanted":                                        func(d *result.Document) { d.Lanes[0].Tx = series.Stats{P99: -5} },
		"patterns[0]: latency_ms: wanted 0 or more, got -0.5":                func(d *result.Document) { d.Patterns[0].LatencyMS = below() },
		"patterns[0]: isolated_latency_ms: wanted":                           func(d *result.Document) { d.Patterns[0].IsolatedLatencyMS = below() },
		"patterns[0]: slowdown: wanted":                                      func(d *result.Document) { d.Patterns[0].Slowdown = below() },
		"patterns[0]: mean_bandwidth_bytes_per_s: wanted 0 or more, got -0.": func(d *result.Document) { d.Patterns[0].MeanBandwidth = below() },
		"patterns[0]: senders: wanted":                                       func(d *result.Document) { d.Patterns[0].Senders = -1 },
	} {
		d := full(t)
		d.Lanes, d.Storage = []result.Lanes{{}}, []result.Storage{{}}
		change(d)
		path := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(path, []byte(asJSON(t, d)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := result.Read(path); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What is there twice would count twice, or mean one thing to one reader and another to the next. What contradicts what
// the file says elsewhere would pass for a measurement.
func TestContradictions(t *testing.T) {
	for want, change := range map[string]func(d *result.Document){
		`metrics[1]: "own" is there twice`: func(d *result.Document) { d.Metrics[1].Name = "own" },
		"metrics[0]: label_sets[1]: {size=4} is there twice": func(d *result.Document) {
			d.Metrics[0].LabelSets = append(d.Metrics[0].LabelSets, result.Labels{"size": "4"})
		},
		`measurements[1]: wanted an iteration from 4 on of pattern 0 in the phase "work", got 3`: func(d *result.Document) {
			d.Measurements = append(d.Measurements, d.Measurements[0])
		},
		`storage[1]: iteration 0 of rank 0's "READ" of pattern 0 in the phase "work" is there twice`: func(d *result.Document) {
			d.Storage = append(d.Storage, d.Storage[0])
		},
		"measurements[0]: ranks[1]: rank 0 comes after rank 0": func(d *result.Document) {
			d.Measurements[0].Ranks = append(d.Measurements[0].Ranks, d.Measurements[0].Ranks[0])
		},
		"measurements[0]: mean_bandwidth_bytes_per_s: got 1e+15, but bytes and times of its ranks make it 1e+09": func(d *result.Document) {
			d.Measurements[0].MeanBandwidth = 1e15
		},
		"measurements[0]: ranks[0]: bytes: got 1000, which is not the sum": func(d *result.Document) { d.Measurements[0].Ranks[0].Bytes = 1000 },
		"measurements[0]: ranks[0]: bytes: with 1000 its run has moved more than the 13 bytes of the matrix": func(d *result.Document) {
			m := &d.Measurements[0]
			m.Ranks[0].Bytes, m.Ranks[0].Peers = 1000, nil
			m.MeanBandwidth = m.Run.MeanBandwidth()
		},
		"lanes[0]: bandwidth_bytes_per_s: got 1e+15, but 50 bytes in 100 ns make it 5e+08": func(d *result.Document) {
			d.Lanes[0].Bytes, d.Lanes[0].EndNS, d.Lanes[0].Bandwidth = 50, 100, 1e15
		},
		"thresholds[0]: passed: got true, but with the value 9 it is false that own.max < 2": func(d *result.Document) {
			d.Thresholds[0].Note, d.Thresholds[0].Value = "", new(9.0)
		},
		"thresholds[0]: passed: got false, but with the value -1 it is true that own{x=\"< 9\"}.p50 >= -1.5e+03 abort after 20": func(d *result.Document) {
			d.Thresholds[0] = result.Threshold{Threshold: `own{x="< 9"}.p50 >= -1.5e+03 abort after 20`, Value: new(-1.0), Passed: new(false)}
		},
		"thresholds[0]: passed: got true, but with the value 8 it is false that own.max < 2": func(d *result.Document) {
			d.Thresholds[0].Note, d.Thresholds[0].Value, d.Thresholds[0].Samples = "the runs alone", new(8.0), 5
		},
		"thresholds[0]: samples: wanted 0 or more, got -1": func(d *result.Document) { d.Thresholds[0].Samples = -1 },
	} {
		d := full(t)
		d.Lanes = []result.Lanes{{}}
		d.Storage = []result.Storage{{Phase: "work", StorageRun: series.StorageRun{Op: "READ"}}}
		path := filepath.Join(t.TempDir(), "r.json")
		for _, changed := range []bool{false, true} {
			if changed {
				change(d)
			}
			if err := os.WriteFile(path, []byte(asJSON(t, d)), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := result.Read(path)
			switch {
			case !changed && err != nil:
				t.Fatal(err)
			case changed && (fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), want)):
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}
