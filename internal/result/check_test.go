package result_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/fault"
	"perigee/internal/result"
)

// What no clock and no count can have given is refused: worked on, it would pass for a measurement.
func TestImpossibleFigures(t *testing.T) {
	for want, change := range map[string]func(d *result.Document){
		"measurements[0]: end_ns - start_ns: wanted 0 or more": func(d *result.Document) { d.Measurements[0].EndNS, d.Measurements[0].LatencyNS = 9, -1 },
		"measurements[0]: end_ns - start_ns: wanted 0 or more, got -9.22": func(d *result.Document) {
			d.Measurements[0].StartNS, d.Measurements[0].EndNS, d.Measurements[0].LatencyNS = 1, math.MinInt64, math.MaxInt64
		},
		"measurements[0]: ranks[0]: end_ns - start_ns: wanted":          func(d *result.Document) { d.Measurements[0].Ranks[0].StartNS = math.MinInt64 },
		"measurements[0]: ranks[0]: bytes: wanted":                      func(d *result.Document) { d.Measurements[0].Ranks[0].Bytes = -1 },
		"measurements[0]: ranks[0].peers[0]: bytes: wanted":             func(d *result.Document) { d.Measurements[0].Ranks[0].Peers[0].Bytes = -1 },
		"measurements[0]: ranks[0].peers[0]: end_ns - start_ns: wanted": func(d *result.Document) { d.Measurements[0].Ranks[0].Peers[0].EndNS = 9 },
		"storage[0]: end_ns - start_ns: wanted":                         func(d *result.Document) { d.Storage[0].EndNS = d.Storage[0].StartNS - 1 },
		"lanes[0]: end_ns - start_ns: wanted":                           func(d *result.Document) { d.Lanes[0].StartNS = 1 },
		"storage[0]: bytes: wanted":                                     func(d *result.Document) { d.Storage[0].Bytes = -1 },
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
