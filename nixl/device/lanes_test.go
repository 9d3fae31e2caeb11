package device

import "testing"

func TestLanes(t *testing.T) {
	nics := []NIC{
		{Name: "lo", State: "unknown"}, {Name: "no-such-interface", State: "up"},
		{Name: "mlx5_0:1", RDMA: true, State: "ACTIVE"}, {Name: "mlx5_1:1", RDMA: true, State: "DOWN"},
	}
	const have = ", which this host lacks; it has lo, no-such-interface, mlx5_0:1, mlx5_1:1"
	for value, want := range map[string][2]string{
		"":                     {"lo, mlx5_0:1", ""},
		"all":                  {"lo, mlx5_0:1 (UCX_NET_DEVICES=all)", ""},
		"lo":                   {"lo (UCX_NET_DEVICES=lo)", ""},
		"mlx5_1:1":             {"none (UCX_NET_DEVICES=mlx5_1:1)", ""},
		"mlx5_0:1, eth7,mlx5_": {"mlx5_0:1 (UCX_NET_DEVICES=mlx5_0:1, eth7,mlx5_)", "UCX_NET_DEVICES names eth7, mlx5_" + have},
		"mlx5_0":               {"none (UCX_NET_DEVICES=mlx5_0)", "UCX_NET_DEVICES names mlx5_0" + have},
		"mlx5_*":               {"lo, mlx5_0:1 (UCX_NET_DEVICES=mlx5_*)", ""},
		"^eth7":                {"lo, mlx5_0:1 (UCX_NET_DEVICES=^eth7)", ""},
	} {
		if got := Lanes(nics, value); got != want[0] {
			t.Errorf("%q: lanes %q, want %q", value, got, want[0])
		}
		if got := Lacking("UCX_NET_DEVICES", nics, value); got != want[1] {
			t.Errorf("%q: lacking %q, want %q", value, got, want[1])
		}
	}
}
