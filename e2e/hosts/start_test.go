package hosts

import (
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/result"
)

// Initiators on hosts whose clocks have nothing to do with each other start at one instant: no run begins before it, and
// where no rank waits for a CPU they begin as close together as the clocks are known. Of many runs some are so.
func TestStartByTheClockBetweenHosts(t *testing.T) {
	harness.NeedNIXL(t)
	c := newCluster(t, ipv4)
	dir := harness.Files(t, map[string]string{
		"c.yaml": "iters: 60\nisolation_iters: 140\nwarmup_iters: 2\nstart: clock\ntraffic_patterns:\n- {matrix_file: m.txt, mem_type: cpu}\n",
		"m.txt":  "0 4K\n4K 0\n",
	})
	out := c.start(t, spec{ranks: 2, dir: dir, args: []string{"sequential-ct-perftest", "c.yaml", "--result", "r.json"}}).mustEnd()
	harness.Contains(t, "stdout", out, "# start skew by the clock: median ", "uncertainty of the clocks ")
	doc, err := result.Read(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	exact := 0
	for _, m := range doc.Measurements {
		if m.AgreedNS == nil || m.StartSkewNS == nil {
			t.Fatalf("a run without an instant: %+v", m)
		}
		for _, r := range m.Ranks {
			if r.StartNS < *m.AgreedNS-m.UncertaintyNS {
				t.Errorf("rank %d started %d ns before the instant, with clocks uncertain by %d ns", r.Rank, *m.AgreedNS-r.StartNS, m.UncertaintyNS)
			}
		}
		if *m.StartSkewNS <= m.UncertaintyNS {
			exact++
		}
	}
	if len(doc.Measurements) != 200 || exact == 0 {
		t.Errorf("%d of %d starts were as close together as the clocks are known\n%s", exact, len(doc.Measurements), out)
	}
}
