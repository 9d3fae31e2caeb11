package metric

import (
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// drifted is a pattern whose two initiators go through four runs without meeting, of 10 ms and of 15 ms each.
func drifted() *result.Document {
	d := &result.Document{Patterns: []result.Pattern{{Matrix: 0}}, Matrices: []result.Matrix{{Ranks: 2, Bytes: 20}}}
	for i := range int64(4) {
		first, second := series.RankRun{Rank: 0, StartNS: 10e6 * i, EndNS: 10e6 * (i + 1), Bytes: 10}, series.RankRun{Rank: 1, StartNS: 15e6 * i, EndNS: 15e6 * (i + 1), Bytes: 10}
		first.Peers = []series.PeerRun{{Peer: 2, Bytes: 10, EndNS: first.EndNS}}
		second.Peers = []series.PeerRun{{Peer: 3, Bytes: 10, EndNS: second.EndNS}}
		d.Measurements = append(d.Measurements, result.Measurement{Phase: "workload", Iteration: int(i), LatencyNS: second.EndNS - first.StartNS,
			Run: series.Run{StartNS: first.StartNS, EndNS: second.EndNS, Ranks: []series.RankRun{first, second}}})
	}
	return d
}

// Thresholds judge the total time / runs where single runs have the drift of initiators in them, as the report does, and
// refuse what that does not say.
func TestThresholdsWithoutDrift(t *testing.T) {
	const refused = "initiators do not meet between runs"
	for text, want := range map[string]struct {
		value  float64
		passed bool
		why    string
	}{
		"latency_ms.p50 < 16":                       {15, true, ""},
		"latency_ms.mean < 15":                      {15, false, ""},
		`latency_ms{phase="workload"}.median <= 15`: {15, true, ""},
		"latency_ms.count == 4":                     {4, true, ""},
		"latency_ms.p99 < 1000":                     {math.NaN(), false, refused},
		"latency_ms.max < 1000":                     {math.NaN(), false, refused},
		"slo_attainment.count == 0":                 {0, true, ""},
		"pair_end_ms.max <= 15":                     {15, true, ""},
		"pair_latency_ms.max <= 15":                 {15, true, ""},
		"avg_latency_s.max == 0.015":                {0.015, true, ""},
	} {
		limit, err := Parse(text)
		must.Do(t, err)
		o := limit.Judge(drifted())
		same := o.Value == want.value || math.IsNaN(o.Value) && math.IsNaN(want.value)
		if !same || o.Passed != want.passed || !strings.Contains(o.String(), want.why) {
			t.Errorf("%s: %v, passed %t (%s), want %v, %t", text, o.Value, o.Passed, o, want.value, want.passed)
		}
	}
	d := drifted()
	for i := range d.Measurements { // with meetings, runs have their own times
		m := &d.Measurements[i]
		m.StartNS, m.EndNS = 100e6*int64(i), 100e6*int64(i)+m.LatencyNS
		for k := range m.Ranks {
			m.Ranks[k].StartNS, m.Ranks[k].EndNS = m.StartNS, m.EndNS
		}
	}
	limit, err := Parse("latency_ms.max > 29")
	must.Do(t, err)
	if o := limit.Judge(d); !o.Passed {
		t.Errorf("with meetings: %s", o)
	}
}

// The drift of initiators aborts no run.
func TestDriftAbortsNoRun(t *testing.T) {
	for text, violated := range map[string]bool{"latency_ms.p50 < 16 abort after 2": false, "latency_ms.p99 < 1 abort after 2": false, "latency_ms.p50 < 14 abort after 2": true} {
		limit, err := Parse(text)
		must.Do(t, err)
		if o, is := NewThresholdWatch(drifted(), []Threshold{limit}).Violated(true); is != violated {
			t.Errorf("%s: violated %t: %s", text, is, o)
		}
	}
}
