package series

import (
	"math"
	"testing"
)

// The formulas of the table, worked out by hand.
func TestFormulas(t *testing.T) {
	rank := func(rank int, start, end, bytes int64) RankRun {
		return RankRun{Rank: rank, StartNS: start, PostNS: start, EndNS: end, Bytes: bytes}
	}
	run := func(ranks ...RankRun) Run {
		var r Run
		for _, k := range ranks {
			r.Add(k)
		}
		return r
	}
	// Rank 0: 1000 bytes in 100 ns = 10e9 B/s. Rank 3: 500 bytes in 250 ns = 2e9 B/s.
	first := run(rank(0, 1000, 1100, 1000), rank(3, 900, 1150, 500))
	if first.StartNS != 900 || first.EndNS != 1150 || first.LatencyNS() != 250 {
		t.Errorf("from %d to %d, latency %d; want 900 to 1150, 250", first.StartNS, first.EndNS, first.LatencyNS())
	}
	if bw := first.MeanBandwidth(); bw != 6e9 {
		t.Errorf("mean bandwidth %v, want 6e9", bw)
	}
	// Rank 0 needs 100 and 300 ns, mean 200; rank 3 needs 250 and 170, mean 210.
	second := run(rank(0, 5000, 5300, 1000), rank(3, 5000, 5170, 500))
	if iso := Mean([]Run{first, second}); iso != 210 {
		t.Errorf("isolated %v, want 210", iso)
	}
	if iso := Mean(nil); !math.IsNaN(iso) {
		t.Errorf("isolated of no run is %v, want NaN", iso)
	}
	var empty Run
	if empty.LatencyNS() != 0 || empty.MeanBandwidth() != 0 {
		t.Errorf("an empty run has latency %d and bandwidth %v", empty.LatencyNS(), empty.MeanBandwidth())
	}
	if bw := rank(0, 5, 5, 100).Bandwidth(); bw != 100e9 {
		t.Errorf("100 bytes in no time: %v B/s, want those of 1 ns", bw)
	}
}
