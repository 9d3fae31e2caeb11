package hosts

import (
	"path/filepath"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// Links of a known rate: one large message reaches what headers leave of it, and thresholds against it hold or do not
// accordingly. On a busy machine messages may be slower: one of three jobs will do.
func TestKnownLine(t *testing.T) {
	harness.NeedNIXL(t)
	harness.Need(t, "iproute2", "tc")
	t.Parallel()
	c := newCluster(t, ipv4)
	env := []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"}
	const keeps, breaks = "pair_bw_gb_per_s.p50 > 0.8 * line", "pair_bw_gb_per_s.p50 > 1.2 * line"
	pingpong := []string{"run", "pingpong", "--size", "2M", "--iters", "5", "--result", "r.json"}
	t.Run("unknown", func(t *testing.T) {
		c.start(t, spec{ranks: 2, env: env, args: append(pingpong, "--threshold", keeps)}).refused(fault.Usage,
			"the threshold "+keeps+": the line is not known: host", "--line 200Gbit")
	})
	t.Run("known", func(t *testing.T) {
		const tbf = " root tbf rate 200mbit burst 64kb limit 1mb"
		if err := c.fabric.Net("tc", "qdisc add dev port1"+tbf, "qdisc add dev port2"+tbf); err != nil {
			t.Skip("the kernel has no tbf: ", err)
		}
		var said string
		for range 3 {
			j := c.start(t, spec{ranks: 2, env: env, args: append(pingpong, "--line", "200Mbit", "--ceiling", "--threshold", keeps, "--threshold", breaks,
				"--threshold", `nic_utilisation{nic="eth0", phase="ceiling"}.max < 1.02`)})
			outcomes := j.wait()
			d, err := result.Read(filepath.Join(j.dir, "r.json"))
			if err != nil || d.Line.Ceiling == nil {
				t.Fatal(err, describe(outcomes))
			}
			part := d.Line.Ceiling.Rate / 25e6
			good := part > 0.9 && part < 0.99 && outcomes[0].Code == int(fault.Threshold) && outcomes[1].Code == int(fault.Threshold)
			for i, passed := range []bool{true, false, true} {
				good = good && *d.Thresholds[i].Passed == passed
			}
			if said = describe(outcomes); good {
				harness.Contains(t, "stdout", outcomes[0].Stdout, "# ceiling: ", " from rank 0 to rank 1 (9",
					"# line: p50 of messages between hosts 2", " of 25.0 MB/s (--line 200Mbit); ", keeps+" (0.02 GB/s) ")
				return
			}
		}
		t.Error(said)
	})
}
