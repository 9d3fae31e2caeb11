package metric

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// The documentation lists every metric, with its unit, and no other.
func TestDocumented(t *testing.T) {
	data := must.Read(t, "../../../docs/thresholds.md")
	_, section, _ := strings.Cut(string(data), "## Metrics")
	section, _, _ = strings.Cut(section, "### What counts")
	documented := map[string]bool{}
	for _, item := range regexp.MustCompile("(?m)^- (`.*?`):").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(item[1], ", ") {
			documented[strings.Trim(name, "`")] = true
		}
	}
	for _, d := range all {
		if !documented[d.Name] {
			t.Errorf("%s is not in docs/thresholds.md", d.Name)
		}
		delete(documented, d.Name)
		if d.Help == "" || (d.each == nil) == (d.all == nil) {
			t.Errorf("%+v", d)
		}
	}
	if len(documented) > 0 {
		t.Errorf("documented, but unknown: %v", documented)
	}
}

func TestCheck(t *testing.T) {
	own := []result.MetricDef{{Name: "ttft_ms"}}
	for _, name := range []string{"latency_ms", "ttft_ms", "pair_bw_gb_per_s"} {
		if err := Check(name, own); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{"ttf_ms": `did you mean "ttft_ms"?`, "latncy_ms": `did you mean "latency_ms"?`, "": `no metric ""`} {
		near := strings.Contains(want, "did you mean") // then the others are not wanted
		if err := Check(name, own); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) || strings.Contains(fault.HintOf(err), "slowdown") == near {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The samples of a scenario's own metric lie in the phases in which they came.
func TestPhases(t *testing.T) {
	d := &result.Document{Phases: []result.Phase{{Name: "a", StartNS: 10}, {Name: "b", StartNS: 20}}}
	d.DeclareMetrics([]result.MetricDef{{Name: "own"}})
	for _, at := range []int64{5, 10, 19, 20, 99} {
		d.AddSample("own", 1, at)
	}
	d.AddSample("other", 1, 0) // not declared
	var got string
	for _, s := range Of(d, "own") {
		got += s.Phase + ","
	}
	if got != ",a,a,b,b," {
		t.Errorf("got %s", got)
	}
	if s := Of(d, "nothing"); s != nil {
		t.Errorf("got %v", s)
	}
}

// Runs of 0 ns and patterns without isolated runs have no slowdown and no bandwidth
// that could not be a number.
func TestNoDivisionByZero(t *testing.T) {
	d := &result.Document{Matrices: []result.Matrix{{Bytes: 5}}, Patterns: []result.Pattern{{}, {}}}
	run := []series.Run{{StartNS: 7, EndNS: 7, Ranks: []series.RankRun{{StartNS: 7, EndNS: 7, Bytes: 5, Peers: []series.PeerRun{{EndNS: 7, Bytes: 5}}}}}}
	d.AddRuns(0, Isolated, 0, run)
	d.AddRuns(0, "workload", 0, run)
	d.AddRuns(1, "workload", 0, run)
	for _, def := range all {
		for _, s := range Of(d, def.Name) {
			if s.Value != s.Value || s.Value > 1e300 || def.Name == "slowdown" {
				t.Errorf("%s: %+v", def.Name, s)
			}
		}
	}
}

// Overlap is 0 for messages that did not overlap, and is not known of results without it.
func TestOverlap(t *testing.T) {
	d := &result.Document{Overlaps: true, Matrices: []result.Matrix{{Bytes: 5}}, Patterns: []result.Pattern{{}}}
	peers := []series.PeerRun{
		{Peer: 1, EndNS: 9},
		{Peer: 2, EndNS: 9, Overlap: &series.Overlap{Share: 0.5, Messages: 1, Shared: "receiver"}},
		{Peer: 3, EndNS: 9, Overlap: &series.Overlap{Share: 0.75, Messages: 2, Shared: "sender, receiver", By: []series.OverlapBy{
			{Resource: "sender", Share: 0.25, Messages: 1}, {Resource: "receiver", Share: 0.5, Messages: 1}}}},
		{Peer: 4, EndNS: 9, MayMeetNS: new(int64)}, // not known
	}
	skew := int64(1500)
	run := []series.Run{{EndNS: 9, StartSkewNS: &skew, Ranks: []series.RankRun{{EndNS: 9, Peers: peers}}}}
	d.AddRuns(0, Isolated, 0, run)
	d.AddRuns(0, "workload", 0, run)
	for name, want := range map[string]string{
		"overlap": "[0 0.5 0.75]", "overlap_sender": "[0 0 0.25]", "overlap_receiver": "[0 0.5 0.5]", "overlap_receiving_host": "[0 0 0]",
		"start_skew_us": "[1.5 1.5]",
	} {
		var got []float64
		for _, s := range Of(d, name) {
			got = append(got, s.Value)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	d.Overlaps = false
	if s := Of(d, "overlap"); s != nil {
		t.Errorf("a result without overlaps: %v", s)
	}
}

// A label cannot have the name of a column that all samples have.
func TestColumnsAreNoLabels(t *testing.T) {
	for _, c := range columns {
		if err := (result.Labels{c.Name: "x"}).Check(); err == nil {
			t.Errorf("%s may be a label", c.Name)
		}
	}
}
