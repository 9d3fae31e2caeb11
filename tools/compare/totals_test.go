package compare

import (
	"math"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// aThird is a result of a pattern that runs 99 times, in so many ns and twice and three times that, which keeps the
// runs that are longest.
func aThird(ns int64) *result.Document {
	d := &result.Document{
		Status:   result.Complete,
		World:    result.World{Size: 2, Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}},
		Matrices: []result.Matrix{{Ranks: 2, Bytes: 100, Cells: [][3]int64{{0, 1, 100}}}},
		Patterns: []result.Pattern{{Name: "p", Op: "WRITE", Mem: "dram", Senders: 1}},
	}
	all := &result.Totals{Phase: "workload"}
	for i := range 99 {
		start, took := int64(i)*10*ns, int64(i%3+1)*ns
		r := series.Run{StartNS: start, EndNS: start + took, Ranks: []series.RankRun{
			{StartNS: start, PostNS: start, EndNS: start + took, Bytes: 100, Peers: []series.PeerRun{{Peer: 1, Bytes: 100, EndNS: start + took}}},
		}}
		m := result.Measure(0, "workload", i, r)
		if all.Add(&m, nil); i%3 == 2 {
			d.Measurements, all.Kept = append(d.Measurements, m), all.Kept+1
		}
	}
	all.Settle()
	d.Totals = []*result.Totals{all}
	return d
}

// Latencies are compared by the median of all runs, whichever the results keep.
func TestMediansOfAllRuns(t *testing.T) {
	r, err := Compare([]*result.Document{aThird(1000)}, []*result.Document{aThird(1500)}, Options{Alpha: 0.05, Metric: "latency_ms"})
	must.Do(t, err)
	if row := r.Rows[0]; math.Abs(row.Old/0.002-1) > 0.005 || math.Abs(row.New/0.003-1) > 0.005 {
		t.Errorf("%s went from %g to %g, want 0.002 to 0.003", row.Label(), row.Old, row.New)
	}
}
