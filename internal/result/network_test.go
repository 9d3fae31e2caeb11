package result_test

import (
	"fmt"
	"slices"
	"testing"

	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// counted is a result of three hosts with two phases, of which the second has measurements.
func counted() *result.Document {
	d := &result.Document{
		World:  result.World{Size: 3, Hosts: []result.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
		Phases: []result.Phase{{Name: "prepare", StartNS: 0}, {Name: "workload", StartNS: 100}},
	}
	d.AddRuns(0, "workload", 0, []series.Run{{StartNS: 110, EndNS: 120}})
	n := &result.Network{}
	for host, lost := range []int64{5, 1041, 2174} {
		n.Windows = append(n.Windows,
			result.NetworkWindow{Host: host, Phase: "workload", StartNS: 100, EndNS: 200,
				TCP:  map[string]int64{"retransmits": lost, "fast_retransmits": lost, "timeouts": int64(host % 2)},
				NICs: []result.NICWindow{{Name: "mlx5_0:1", Counters: map[string]int64{"cnp_received": 0, "pause_sent": int64(host / 2)}}}},
			result.NetworkWindow{Host: host, Phase: "prepare", EndNS: 100, TCP: map[string]int64{"retransmits": 9}})
	}
	n.Sort()
	d.Network = n
	return d
}

func TestCongestion(t *testing.T) {
	d := counted()
	check := func(want ...string) {
		t.Helper()
		if got := d.Congestion(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	check("workload: 2174 retransmitted TCP segments on c (3220 on 3 hosts), 1 TCP time-out on b, 1 pause frame sent on mlx5_0:1 of c")
	d.Network.Windows[1].Note = "eth1 has gone"
	workload := d.Network.Windows[3:]
	for i := range workload {
		workload[i].TCP, workload[i].NICs = map[string]int64{"retransmits": 0}, nil
	}
	check("prepare: on b eth1 has gone")
	for i := range 7 {
		workload[0].NICs = append(workload[0].NICs, result.NICWindow{Name: fmt.Sprint("eth", i), Counters: map[string]int64{
			[]string{"retransmits", "ecn_marked", "cnp_sent", "rx_errors", "rx_dropped", "not_ready", "of a later version"}[i]: 2}})
	}
	check("prepare: on b eth1 has gone", "workload: 2 retransmitted packets on eth0 of a, 2 packets marked for congestion on eth1 of a, "+
		"2 congestion notifications sent on eth2 of a, 2 arriving packets dropped on eth4 of a, 2 more")

	d = counted()
	d.World.Hosts = d.World.Hosts[:1]
	d.Network.Windows = slices.DeleteFunc(d.Network.Windows, func(w result.NetworkWindow) bool { return w.Host > 0 })
	check()
	d.Network.Windows[1].NICs[0].Counters["cnp_received"] = 8
	check("workload: 8 congestion notifications received on mlx5_0:1 of a")
	d.Measurements = nil
	d.Phases = nil
	check("workload: 8 congestion notifications received on mlx5_0:1 of a")
	d.Network = nil
	check()
}
