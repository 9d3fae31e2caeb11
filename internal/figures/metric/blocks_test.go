package metric

import (
	"fmt"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// Block transfers have a sample for each size, with the figures that kvbench's table has.
func TestBlocks(t *testing.T) {
	d := &result.Document{}
	for i, size := range [][2]int64{{4096, 1}, {4096, 8}, {8192, 1}} {
		d.Lanes = append(d.Lanes, result.Lanes{Phase: "measure", Measurement: series.Measurement{
			BlockBytes: size[0], Batch: size[1], Bytes: 2e9, CPUSeconds: 3, Bandwidth: float64(i+1) * 1e9, StartNS: int64(i), EndNS: int64(i) + 7,
			Latency: series.Stats{Mean: 16e3, P50: 1000, P99: 2000, P999: 3000}, Prep: series.Stats{Mean: 4000}, Post: series.Stats{Mean: 5000},
		}})
	}
	for name, want := range map[string]string{
		"block_bw_gb_per_s": "[1 2 3]", "block_latency_us": "[16 2 16]", "batch_p50_us": "[1 1 1]", "batch_p99_us": "[2 2 2]", "batch_p999_us": "[3 3 3]",
		"block_prep_us": "[4 4 4]", "block_post_us": "[5 5 5]", "block_cpu_s_per_gb": "[1.5 1.5 1.5]",
	} {
		var values []float64
		for i, s := range Of(d, name) {
			values = append(values, s.Value)
			m := d.Lanes[i]
			if s.Block != m.BlockBytes || s.Batch != m.Batch || s.Phase != "measure" || s.Pattern != -1 || s.StartNS != m.StartNS || s.EndNS != m.EndNS {
				t.Errorf("%s: %+v is of %+v", name, s, m)
			}
		}
		if got := fmt.Sprint(values); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if len(Of(&result.Document{}, name)) != 0 {
			t.Errorf("%s: samples of a result without blocks", name)
		}
	}
}
