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
