package compare

import (
	"math"
	"slices"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// incast is a result of two senders, 10 runs of 1 ms of each. The second begins late ms after the first, and unless
// they meet before each run both go on at once.
func incast(late float64, meet bool) *result.Document {
	d := document(1, 0, nil)
	d.World.Size, d.World.Hosts[0].Ranks = 3, []int{0, 1, 2}
	d.Matrices[0] = result.Matrix{SHA256: "bb", Ranks: 3, Bytes: 2e6, Cells: [][3]int64{{0, 2, 1e6}, {1, 2, 1e6}}}
	d.Patterns[0].Senders = 2
	var runs []series.Run
	for i := range 10 {
		var run series.Run
		for rank := range 2 {
			start := int64(i)*1e6 + int64(float64(rank)*late*1e6)
			if meet {
				start = int64(float64(i)*(1+late)*1e6 + float64(rank)*late*1e6)
			}
			run.StartNS, run.EndNS = start-int64(float64(rank)*late*1e6), start+1e6
			run.Ranks = append(run.Ranks, series.RankRun{Rank: rank, StartNS: start, EndNS: start + 1e6, Bytes: 1e6,
				Peers: []series.PeerRun{{Peer: 2, Bytes: 1e6, EndNS: start + 1e6}}})
		}
		runs = append(runs, run)
	}
	d.AddRuns(0, "workload", 0, runs)
	return d
}

// Two senders 0.5 and 0.9 ms apart: 10 runs in 10.5 and 10.9 ms, each message in 1 ms. What meets has its runs' times.
func TestDrift(t *testing.T) {
	r := mustCompare(t, one(incast(0.5, false)), one(incast(0.9, false)), defaults)
	want := map[[2]int][2]float64{{-1, -1}: {1.05, 1.09}, {0, 2}: {1, 1}, {1, 2}: {1, 1}}
	check := func(want map[[2]int][2]float64) {
		t.Helper()
		for _, row := range r.Rows {
			w, ok := want[[2]int{row.Sender, row.Receiver}]
			if row.Metric != "latency_ms" && row.Metric != "pair_end_ms" || row.Of > 0 {
				continue
			}
			if !ok || math.Abs(row.Old-w[0]) > 1e-9 || math.Abs(row.New-w[1]) > 1e-9 {
				t.Errorf("%s: %g -> %g, want %v", row.Label(), row.Old, row.New, w)
			}
		}
	}
	check(want)
	const note = "initiators of 1 pattern drift apart, since they do not meet between runs: their latency_ms is the total time / runs"
	if !slices.Contains(r.Notes(), note) {
		t.Errorf("%q", r.Notes())
	}
	r = mustCompare(t, one(incast(0.5, true)), one(incast(0.9, true)), defaults)
	check(map[[2]int][2]float64{{-1, -1}: {1.5, 1.9}, {0, 2}: {1, 1}, {1, 2}: {1.5, 1.9}})
	if slices.Contains(r.Notes(), note) {
		t.Errorf("met: %q", r.Notes())
	}
}
