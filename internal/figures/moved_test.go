package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// apart4 puts the ranks of incast on four hosts, whose networks were looked at: alone and in the workload the counters
// of rank 2's host have gained so much.
func apart4(alone, workload map[string]int64) *result.Document {
	d := incast(2)
	d.World.Hosts = nil
	for i := range 4 {
		d.World.Hosts = append(d.World.Hosts, result.Host{Name: fmt.Sprint("node", i), Ranks: []int{i}, CPUs: 4})
	}
	d.World.Clocks = make([]result.Clock, 4)
	d.Network = &result.Network{Windows: []result.NetworkWindow{
		{Host: 2, Phase: "isolated", EndNS: 1e9, TCP: alone,
			NICs: []result.NICWindow{{Name: "eth0", Mbps: 1000, Sent: 1e6, Received: 50e6}}},
		{Host: 2, Phase: "workload", StartNS: 1e9, EndNS: 3e9, TCP: workload,
			NICs: []result.NICWindow{{Name: "eth0", Mbps: 1000, Sent: 2e6, Received: 200e6}, {Name: "eth1"}}},
	}}
	return d
}

// Counters stand beside the verdict only where they rose in the workload, and were seen not to rise alone.
func TestCongestionBesideTheVerdict(t *testing.T) {
	type counters = map[string]int64
	const want = "2174 retransmitted TCP segments in phase workload on node2, 0 there in phase isolated."
	for name, c := range map[string]struct {
		alone, workload counters
		want            string
	}{
		"as in the specification": {counters{"retransmits": 0}, counters{"retransmits": 2174}, want},
		"both rose":               {counters{"retransmits": 3}, counters{"retransmits": 2174}, ""},
		"not counted alone":       {nil, counters{"retransmits": 2174}, ""},
		"no counters":             {nil, nil, ""},
		"chance":                  {counters{"retransmits": 0}, counters{"retransmits": 9}, ""}, // 4.5 expected alone
		"not by chance":           {counters{"retransmits": 0}, counters{"retransmits": 10}, strings.Replace(want, "2174", "10", 1)},
		"neither":                 {counters{"retransmits": 0}, counters{"retransmits": 0}, ""},
	} {
		f, err := Of(apart4(c.alone, c.workload))
		must.Do(t, err)
		if f.Moved.Congestion != c.want || !strings.HasSuffix(f.Answer.Why, c.want) ||
			f.Findings[0].Text != f.Answer.Sentence+" "+f.Answer.Why {
			t.Errorf("%s: %q, why %q", name, f.Moved.Congestion, f.Answer.Why)
		}
	}
	d := apart4(counters{"retransmits": 0}, counters{"retransmits": 2174})
	for i := range d.Measurements { // as long in the workload as alone: no contention, so no evidence of it
		d.Measurements[i].Ranks[0].Peers[0].EndNS = 1000 + int64(i%7)
	}
	f, err := Of(d)
	if err != nil || f.Moved.Congestion != "" || strings.Contains(f.Answer.Why, "2174") {
		t.Errorf("without contention: %v, %q, %q", err, f.Moved.Congestion, f.Answer.Why)
	}
	for _, phase := range []string{"warmup", "ceiling"} { // no pattern was measured in it
		d = apart4(counters{"retransmits": 0}, counters{"retransmits": 2174})
		d.Network.Windows[1].Phase = phase
		if f, err = Of(d); err != nil || f.Moved.Congestion != "" {
			t.Errorf("%s: %v, %q", phase, err, f.Moved.Congestion)
		}
	}
	d = apart4(counters{"retransmits": 0}, counters{"retransmits": 2174})
	second := slices.Clone(d.Network.Windows)
	for i := range second {
		second[i].Host = 1
	}
	d.Network.Windows = append(d.Network.Windows, second...)
	if f, err = Of(d); err != nil || !strings.Contains(f.Moved.Congestion, "on node1 (and on 1 further host), 0 there in") {
		t.Errorf("two hosts: %v, %q", err, f.Moved.Congestion)
	}
}

// Rates and utilisations are those of the phase; those with counters stand first, then the busiest.
func TestNICs(t *testing.T) {
	d := apart4(map[string]int64{"retransmits": 0}, map[string]int64{"retransmits": 7})
	d.Network.Windows[0].Note, d.Network.Windows[0].Host = "eth7 went away", 99
	f, err := Of(d)
	must.Do(t, err)
	var got []string
	for _, n := range f.Moved.NICs {
		got = append(got, fmt.Sprint(n.Phase, " ", n.Name, " ", n.SentRate, n.ReceivedRate, n.SentUse, n.ReceivedUse))
	}
	want := []string{"workload  NaN NaN NaN NaN", "workload eth0 1e+06 1e+08 0.008 0.8", "isolated eth0 1e+06 5e+07 0.008 0.4",
		"workload eth1 0 0 NaN NaN"}
	must.Equal(t, want, got)
	must.Equal(t, []string{"host 99, phase isolated: eth7 went away"}, f.Moved.Notes)
	d.Network.Windows[1].EndNS = d.Network.Windows[1].StartNS // a phase without a time has no rate
	if f, err = Of(d); err != nil || f.Moved.NICs[1].SentRate.Known() {
		t.Errorf("%v, %v", err, f.Moved.NICs[1].SentRate)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

// The fastest pair between hosts stands against the line and the ceiling, and the chart of bandwidth has both.
func TestLineAndCeiling(t *testing.T) {
	d := handMade()
	d.Line = &result.Line{Rate: 100e9, Ceiling: &result.Ceiling{Rate: 80e9, Bytes: 64 << 20}}
	f, err := Of(d)
	must.Do(t, err)
	// 0 -> 2: 1400 bytes in 20 + 100 ns alone; 1 -> 3: 2000 in 50 ns alone, 100 in the workload.
	want := []Reached{{"the ceiling", 80e9, 0.8, 1}, {"all messages of the fastest pair alone, 1 \u2192 3", 40e9, 0.4, 0.5},
		{"all messages of the fastest pair in the workload, 0 \u2192 3", 25e9, 0.25, 0.3125}}
	round := cmp.Comparer(func(a, b Num) bool { return math.Abs(float64(a-b)) <= 1e-9*math.Abs(float64(a)) })
	must.Equal(t, want, f.Moved.Reached, round)
	d.Line.Host = 200e9
	b, together := d.Busiest()
	if f, err = Of(d); err != nil || !together {
		t.Fatal(err, b)
	}
	got := f.Moved.Reached[3]
	if !strings.HasSuffix(got.Of, ": "+b.Text(d)) || got.Bandwidth != Num(b.Rate) || got.OfLine != Num(b.Rate/200e9) || got.OfCeiling.Known() {
		t.Errorf("got %+v, want %+v", got, b)
	}
	d.Line.Rate, d.Line.Host, d.Line.Ceiling = 0, 0, nil
	if f, err = Of(d); err != nil || len(f.Moved.Reached) != 0 {
		t.Errorf("unknown: %v, %v", err, f.Moved.Reached)
	}
	for hosts, want := range map[int]string{1: "", 2: "line 1e+11, ceiling 8e+10"} {
		d := alone2(hosts)
		d.Line = &result.Line{Rate: 100e9, Ceiling: &result.Ceiling{Rate: 80e9, Bytes: 64 << 20}}
		if f, err = Of(d); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range f.Answer.Charts[0].Limits {
			got = append(got, fmt.Sprint(l.Name, " ", float64(l.Points[0].Y)))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%d hosts: %s, want %s", hosts, text, want)
		}
	}
}

// alone2 has a pattern from rank 0 to 1, in the workload only, on one host or two.
func alone2(hosts int) *result.Document {
	d := &result.Document{
		Schema: result.Schema, Matrices: []result.Matrix{{Ranks: 2, Bytes: 10, Cells: [][3]int64{{0, 1, 10}}}},
		Patterns: []result.Pattern{{Op: "WRITE", Mem: "dram", Senders: 1}},
		World:    result.World{Size: 2, Hosts: []result.Host{{Name: "a", Ranks: []int{0, 1}, CPUs: 4}}},
	}
	if hosts == 2 {
		d.World.Hosts = []result.Host{{Name: "a", Ranks: []int{0}, CPUs: 4}, {Name: "b", Ranks: []int{1}, CPUs: 4}}
	}
	var r series.Run
	r.Add(series.RankRun{EndNS: 1000, Bytes: 10, Peers: []series.PeerRun{{Peer: 1, Bytes: 10, EndNS: 1000}}})
	r.Complete(0, nil)
	d.AddRuns(0, "workload", 0, []series.Run{r})
	return d
}

// An old result says nothing of it.
func TestNothingMoved(t *testing.T) {
	f, err := Of(handMade())
	if err != nil || f.Moved != nil || f.Answer.Path != "" || strings.Contains(marshalled(t, f), `"moved"`) {
		t.Errorf("%v, %+v", err, f.Moved)
	}
}

func marshalled(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must.Do(t, err)
	return string(text)
}
