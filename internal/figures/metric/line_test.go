package metric

import (
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

func TestParseLine(t *testing.T) {
	for in, want := range map[string]string{
		"pair_bw_gb_per_s.p50 > 0.9 * line":            "pair_bw_gb_per_s.p50 > 0.9 * line",
		"pair_bw_gb_per_s.p50>.9*ceiling":              "pair_bw_gb_per_s.p50 > 0.9 * ceiling",
		"pair_bw_gb_per_s.p50 < line abort after 3":    "pair_bw_gb_per_s.p50 < line abort after 3",
		`rank_bw_gb_per_s{phase="x"}.min >= 1*ceiling`: `rank_bw_gb_per_s{phase="x"}.min >= ceiling`,
		"block_bw_gb_per_s.max > + 0.5 * line":         "block_bw_gb_per_s.max > 0.5 * line",
	} {
		got, err := Parse(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"latency_ms.p50 < 0.9 * line":                   "the line is a limit of metrics in GB/s, such as pair_bw_gb_per_s.p50, not of latency_ms.p50",
		"pair_bw_gb_per_s.count > line":                 "not of pair_bw_gb_per_s.count",
		"own.p50 > ceiling":                             "not of own.p50",
		"pair_bw_gb_per_s.p50 > 0.9 * wire":             `wanted line or ceiling at character 30, got "wire"`,
		"pair_bw_gb_per_s.p50 > 0.9 * ":                 "wanted line or ceiling at character 30, got the end",
		"pair_bw_gb_per_s.p50 > 0.9 GB/s * line":        `wanted the end, or abort`,
		"pair_bw_gb_per_s.p50 > -0.9 * line":            "wanted a positive part of the line",
		"pair_bw_gb_per_s.p50 > -line":                  "wanted a number",
		"pair_bw_gb_per_s.p50 > lines":                  "wanted a number",
		"pair_bw_gb_per_s.p50 > line * 0.9":             `wanted the end, or abort at character 29, got "* 0.9"`,
		"pair_bw_gb_per_s.p50 > 0.9 * ceiling abort":    "the ceiling is measured after the run, too late for abort",
		"pair_bw_gb_per_s.p50 > ceiling abort after 10": "too late for abort",
	} {
		if got, err := Parse(in); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", in, got, err, want)
		}
	}
}

// onLine is a result with messages of 20, 22 and 24 GB/s.
func onLine(l *result.Line) *result.Document {
	d := &result.Document{Line: l, Patterns: []result.Pattern{{Op: "WRITE"}}, Matrices: []result.Matrix{{}}}
	for _, rate := range []int64{20, 22, 24} {
		d.Measurements = append(d.Measurements, result.Measurement{Phase: "workload", Run: series.Run{
			Ranks: []series.RankRun{{EndNS: 1000, Bytes: rate * 1000, Peers: []series.PeerRun{{Peer: 1, Bytes: rate * 1000, EndNS: 1000}}}},
		}})
	}
	return d
}

func TestJudgeAgainstLine(t *testing.T) {
	known := &result.Line{Rate: 25e9, From: "x", Ceiling: &result.Ceiling{Rate: 23e9}}
	for _, c := range []struct {
		text   string
		line   *result.Line
		passed bool
		says   string
	}{
		{"pair_bw_gb_per_s.p50 > 0.8 * line", known, true, "> 0.8 * line (20 GB/s): it is 22 over 3 samples"},
		{"pair_bw_gb_per_s.p50 > 0.9 * line", known, false, "> 0.9 * line (22.5 GB/s): it is 22 over 3 samples"},
		{"pair_bw_gb_per_s.max < line", known, true, "< line (25 GB/s): it is 24"},
		{"pair_bw_gb_per_s.max <= ceiling", known, false, "<= ceiling (23 GB/s): it is 24"},
		{"pair_bw_gb_per_s.p50 > 0.8 * line", &result.Line{From: "no speed"}, false, "> 0.8 * line: the line is not known"},
		{"pair_bw_gb_per_s.p50 != line", nil, false, "!= line: the line is not known"},
		{"pair_bw_gb_per_s.p50 < ceiling", &result.Line{Rate: 1}, false, "< ceiling: the ceiling is not known"},
	} {
		threshold, err := Parse(c.text)
		must.Do(t, err)
		o := threshold.Judge(onLine(c.line))
		if o.Passed != c.passed || !strings.Contains(o.String(), c.says) {
			t.Errorf("%s: %t, %s", c.text, o.Passed, o)
		}
		if math.IsNaN(o.Limit) && o.Note == "" {
			t.Errorf("%s: no reason", c.text)
		}
	}
}

// Where messages were faster than the line they took another way: nothing passes against line or ceiling.
func TestJudgeAboveLine(t *testing.T) {
	between := func(rate float64) *result.Document {
		d := onLine(&result.Line{Rate: rate, Host: 4 * rate, From: "x", Ceiling: &result.Ceiling{Rate: 23e9}})
		d.World.Hosts = []result.Host{{Name: "a", Ranks: []int{0}}, {Name: "b", Ranks: []int{1}}}
		return d
	}
	for text, limit := range map[string]float64{
		"pair_bw_gb_per_s.p50 > 0.8 * line": 25e9, "pair_bw_gb_per_s.p50 > 0.9 * ceiling": 25e9, "pair_bw_gb_per_s.p50 > 0.9 * line": 21e9,
	} {
		threshold, err := Parse(text)
		must.Do(t, err)
		if o := threshold.Judge(between(limit)); !o.Passed || o.Note != "" {
			t.Errorf("%s of %g: %s, %s", text, limit, o, o.Note)
		}
		if o := threshold.Judge(between(2e9)); o.Passed || !strings.Contains(o.Note, " 22.0 GB/s, more than the line of 2.00 GB/s") {
			t.Errorf("%s: passed %t, %s", text, o.Passed, o.Note)
		}
	}
}

// A threshold against the line can end a run while it goes on.
func TestWatchLine(t *testing.T) {
	threshold, err := Parse("pair_bw_gb_per_s.p50 > line abort")
	must.Do(t, err)
	for rate, violated := range map[float64]bool{25e9: true, 21e9: false} {
		d := onLine(nil)
		w := NewThresholdWatch(d, []Threshold{threshold})
		d.Line = &result.Line{Rate: rate} // found after the watch has begun
		if o, got := w.Violated(true); got != violated {
			t.Errorf("line of %g: %t, %s", rate, got, o)
		}
	}
}

func TestNICUtilisation(t *testing.T) {
	d := &result.Document{World: result.World{Hosts: []result.Host{{Name: "a"}, {Name: "b"}}}, Network: &result.Network{
		Windows: []result.NetworkWindow{{Phase: "workload", StartNS: 0, EndNS: 2e9, NICs: []result.NICWindow{
			{Name: "eth0", Mbps: 8000, Sent: 1e9, Received: 5e8}, {Name: "eth1", Sent: 1e9},
		}}, {Phase: "short", StartNS: 2e9, EndNS: 2e9 + 99e6, NICs: []result.NICWindow{{Name: "eth0", Mbps: 8000, Sent: 2e8}}}},
	}}
	judge := func(text string) Outcome {
		threshold, err := Parse(text)
		must.Do(t, err)
		return threshold.Judge(d)
	}
	for text, want := range map[string]float64{
		`nic_utilisation{nic="eth0", direction="sent"}.max > 0.1`:          0.5,
		`nic_utilisation{host="a", direction="received"}.max > 0.1`:        0.25,
		`nic_utilisation{phase="workload", direction="received"}.max > .1`: 0.25,
	} {
		if o := judge(text); o.Value != want || !o.Passed || o.Samples != 1 {
			t.Errorf("%s: %v over %d", text, o.Value, o.Samples)
		}
	}
	if o := judge(`nic_utilisation{nic="eth1"}.count == 0`); o.Passed || !strings.Contains(o.String(), "--line RATE says") {
		t.Errorf("unknown speed: %s", o)
	}
	if o := judge(`nic_utilisation{phase="short"}.max < 1`); o.Passed || !strings.Contains(o.String(), "in a phase of at least 100ms") {
		t.Errorf("short phase: %s", o)
	}
	d.Line = &result.Line{Rate: 2e9, Given: true}
	if o := judge(`nic_utilisation{nic="eth1", direction="sent"}.max > 0.1`); o.Value != 0.25 {
		t.Errorf("given speed: %s", o)
	}
}
