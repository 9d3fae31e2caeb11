package figures

import (
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// Patterns that share a large matrix, of which their runs have few messages, are reported in a time that grows as they
// do: not with the cells of all of them.
func TestPatternsThatShareAMatrix(t *testing.T) {
	fuzztest.Linear(t, "patterns and cells", 400, func(n int) func() {
		d := &result.Document{World: result.World{Size: n + 1}}
		d.World.Hosts = []result.Host{{Name: "h"}}
		for i := range n + 1 {
			d.World.Hosts[0].Ranks = append(d.World.Hosts[0].Ranks, i)
		}
		m := result.Matrix{Ranks: n + 1}
		for i := range n {
			m.Cells = append(m.Cells, [3]int64{0, int64(i + 1), 1})
			d.Patterns = append(d.Patterns, result.Pattern{Op: "WRITE"})
			d.Measurements = append(d.Measurements, result.Measurement{Pattern: i, Run: series.Run{
				Ranks: []series.RankRun{{Peers: []series.PeerRun{{Peer: i + 1, EndNS: 5}}}},
			}})
		}
		d.Matrices = []result.Matrix{m}
		return func() {
			f, err := Of(d)
			if err != nil || len(f.Pairs) != n || f.Pairs[n-1].Messages != n || f.Pairs[0].LatencyNS != 5 {
				t.Fatal(err)
			}
		}
	})
}
