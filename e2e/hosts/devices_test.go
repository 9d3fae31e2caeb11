package hosts

import (
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
)

// A device in UCX_NET_DEVICES that a host lacks is named, whether UCX fails for it or takes another one; and where UCX
// has found no common network, the error says what each side had.
func TestUCXDevices(t *testing.T) {
	harness.NeedNIXL(t)
	t.Parallel()
	c := newCluster(t, ipv4)
	const lacking = "UCX_NET_DEVICES names mlx5_0:1, which this host lacks; it has eth0, " // and what the kernel adds
	alltoall := []string{"run", "alltoall", "--iters", "1"}
	t.Run("none is there", func(t *testing.T) {
		c.start(t, spec{ranks: 3, args: alltoall, env: []string{"UCX_NET_DEVICES=mlx5_0:1"}}).
			refused(fault.Engine, lacking, "name devices of this host")
	})
	t.Run("one is there", func(t *testing.T) {
		out := c.start(t, spec{ranks: 3, args: alltoall, ownEnv: map[int][]string{1: {"UCX_NET_DEVICES=mlx5_0:1,eth0"}}}).mustEnd()
		harness.Contains(t, "stdout", out, "# note: host2: "+lacking)
		if strings.Contains(out, "host1: UCX") {
			t.Errorf("a note on host1:\n%s", out)
		}
	})
	t.Run("no common one", func(t *testing.T) {
		c.start(t, spec{ranks: 3, args: alltoall, ownEnv: map[int][]string{1: {"UCX_NET_DEVICES=lo"}}}).
			refused(fault.Engine, "loading its metadata: the backend failed; the network devices that UCX could use: ", "eth0", "lo (UCX_NET_DEVICES=lo)")
	})
}
