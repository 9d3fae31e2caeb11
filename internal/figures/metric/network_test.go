package metric

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
)

func networked() *result.Document {
	d := &result.Document{World: result.World{Hosts: []result.Host{{Name: "a"}, {Name: "b"}}}}
	d.Network = &result.Network{Windows: []result.NetworkWindow{
		{Host: 0, Phase: "isolated", EndNS: 9, TCP: map[string]int64{"retransmits": 50}},
		{Host: 0, Phase: "workload", EndNS: 19, TCP: map[string]int64{"retransmits": 0, "timeouts": 0}},
		{Host: 1, Phase: "workload", EndNS: 19, TCP: map[string]int64{"retransmits": 7, "timeouts": 1}, NICs: []result.NICWindow{
			{Name: "eth0", Counters: map[string]int64{"rx_dropped": 4}},
			{Name: "mlx5_0:1", Counters: map[string]int64{"cnp_sent": 31, "ecn_marked": 0}},
		}},
	}}
	return d
}

// Each window of a host is a sample, and those of a NIC by counter; what no host shows is not 0.
func TestNetworkThresholds(t *testing.T) {
	for text, want := range map[string]string{
		"tcp_retransmits.max == 0":                                 "7 2 false",
		`tcp_retransmits{phase="isolated"}.max <= 50`:              "50 1 true",
		`tcp_retransmits{host="a"}.max == 0`:                       "0 1 true",
		`tcp_counter{counter="timeouts"}.max < 2`:                  "1 2 true",
		`nic_counter{counter="cnp_sent"}.max == 0`:                 "31 1 false",
		`nic_counter{nic="eth0", host="b"}.max < 5`:                "4 1 true",
		`nic_counter{counter=~"^(cnp|ecn)", nic!="eth0"}.count==2`: "2 2 true",
		`nic_counter{counter="xmit_wait"}.max == 0`:                "NaN 0 false",
		`nic_counter{counter="xmit_wait"}.count == 0`:              "NaN 0 false",
		`tcp_retransmits{phase="work"}.count == 0`:                 "NaN 0 false",
	} {
		th, err := Parse(text)
		must.Do(t, err)
		o := th.Judge(networked())
		if got := fmt.Sprint(o.Value, o.Samples, o.Passed); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if wrong := math.IsNaN(o.Value) != strings.Contains(o.String(), "no host shows it; there are the counters "); wrong {
			t.Errorf("%s: %s", text, o)
		}
		if again, err := Parse(th.String()); err != nil || again.Judge(networked()).Samples != o.Samples {
			t.Errorf("%s: %v", th, err)
		}
	}
	// What is counted while the ceiling is measured counts where the phase is asked for; a violation names its place.
	ceiling := networked()
	ceiling.Job = &result.Invocation{Ceiling: true}
	ceiling.Network.Windows = append(ceiling.Network.Windows, result.NetworkWindow{Host: 1, Phase: "ceiling", TCP: map[string]int64{"retransmits": 9}})
	for text, want := range map[string]string{
		"tcp_retransmits.max < 8":                     "7 2 true ",
		`tcp_retransmits{phase=~".*"}.max < 9`:        `50 4 false the worst is 50, host="a" in phase isolated`,
		`tcp_retransmits{phase="ceiling"}.count == 1`: "1 1 true ",
		`tcp_retransmits{phase="ceiling"}.max == 0`:   `9 1 false the worst is 9, host="b" in phase ceiling`,
		"tcp_retransmits.min > 0":                     `0 2 false the worst is 0, host="a" in phase workload`,
		"tcp_retransmits.count == 3":                  "2 2 false ",
		`nic_counter{counter="cnp_sent"}.p50 == 0`:    `31 1 false the worst is 31, counter="cnp_sent", host="b", nic="mlx5_0:1" in phase workload`,
	} {
		th, err := Parse(text)
		must.Do(t, err)
		o := th.Judge(ceiling)
		if got := fmt.Sprint(o.Value, o.Samples, o.Passed, " ", o.Note); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	th, _ := Parse("nic_counter.count == 0")
	if o := th.Judge(&result.Document{}); o.Passed || !strings.HasSuffix(o.String(), ": there are no samples: no host shows such counters") {
		t.Errorf("%s", o)
	}
	// A run cannot be ended by what is known at its end only.
	for _, text := range []string{"nic_counter.count == 0 abort", "nic_utilisation.max < 1 abort after 3"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "is known at the end of a run, too late for abort") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`tcp_retransmits{nic="eth0"}.max == 0`, `nic_counter{kounter="x"}.max == 0`, `latency_ms{host="a"}.max < 1`} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "the samples have no column") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
