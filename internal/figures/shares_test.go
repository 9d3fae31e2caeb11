package figures

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// traffic is a pattern of two ranks and its runs in milliseconds.
type traffic struct {
	bytes    int64
	metadata map[string]any
	alone    []int64
	workload []int64
}

// played makes a result of patterns that ran so.
func played(t *testing.T, list ...traffic) *Figures {
	t.Helper()
	d := &result.Document{Schema: result.Schema, Status: result.Complete, World: result.World{
		Size: 2, Hosts: []result.Host{{Name: "h", Ranks: []int{0, 1}, CPUs: 2}}, Clocks: []result.Clock{{}}}}
	for i, x := range list {
		d.Matrices = append(d.Matrices, result.Matrix{Ranks: 2, Bytes: x.bytes, Cells: [][3]int64{{0, 1, x.bytes}}})
		d.Patterns = append(d.Patterns, result.Pattern{Matrix: i, Op: "WRITE", Senders: 1, Metadata: x.metadata})
		for phase, times := range map[string][]int64{Isolated: x.alone, "workload": x.workload} {
			var runs []series.Run
			for _, ms := range times {
				runs = append(runs, series.Run{EndNS: ms * 1e6, Ranks: []series.RankRun{{EndNS: ms * 1e6, Bytes: x.bytes,
					Peers: []series.PeerRun{{Peer: 1, Bytes: x.bytes, EndNS: ms * 1e6}}}}})
			}
			d.AddRuns(i, phase, 0, runs)
		}
	}
	f, err := Of(d)
	must.Do(t, err)
	return f
}

func near(a Num, b float64) bool {
	return math.IsNaN(float64(a)) && math.IsNaN(b) || math.Abs(float64(a)-b) < 1e-9*math.Abs(b)+1e-12
}

// The known answers: two equal senders on one link, and 3 to 1.
func TestShares(t *testing.T) {
	type object = map[string]any
	none := math.NaN()
	for name, c := range map[string]struct {
		list          []traffic
		leakage       []float64
		jain, goodput float64
	}{
		"equal senders": {[]traffic{
			{1e9, object{"class": "a"}, []int64{10}, []int64{20}}, {1e9, object{"class": "b"}, []int64{10}, []int64{20}},
		}, []float64{0.5, 0.5}, 1, none},
		"3 to 1": {[]traffic{
			{3e9, object{"class": "a", "slo_ms": 20.0}, []int64{10}, []int64{20}},
			{1e9, object{"class": "b", "slo_ms": int64(20)}, []int64{20}, []int64{20}},
		}, []float64{0.5, 0}, 0.8, 200e9},
		"3 to 1 as weighted": {[]traffic{
			{3e9, object{"class": "a", "weight": 3.0, "slo_ms": 20.0}, []int64{40}, []int64{20}},
			{1e9, object{"class": "b", "slo_ms": 10.0}, nil, []int64{20}},
		}, []float64{0, none}, 1, 3 * 150e9},
		"two weights in a class": {[]traffic{
			{3e9, object{"class": "a", "weight": 3.0, "slo_ms": 20.0}, nil, []int64{20}},
			{1e9, object{"class": "a", "slo_ms": 20.0}, nil, []int64{20}}, {1e9, object{"class": "b"}, nil, []int64{20}},
		}, []float64{none, none}, none, none},
	} {
		s := played(t, c.list...).Shares
		if len(s.Classes) != len(c.leakage) || !near(s.Jain, c.jain) || !near(s.Goodput, c.goodput) {
			t.Errorf("%s: %+v", name, s)
			continue
		}
		for i, want := range c.leakage {
			if !near(s.Classes[i].Leakage, want) {
				t.Errorf("%s: leakage of %d is %v, want %v", name, i, s.Classes[i].Leakage, want)
			}
		}
	}
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{1, 0, 0}, 1. / 3}, {[]float64{5, 5}, 1}, {[]float64{3, 1}, 0.8}, {[]float64{5}, none}, {[]float64{0, 0}, none}} {
		if got := jain(c.values); !near(got, c.want) {
			t.Errorf("jain of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

// 100 GB/s of which half the runs kept their SLO are a goodput of 50 GB/s, with both factors beside it.
func TestGoodput(t *testing.T) {
	f := played(t, traffic{1e9, nil, []int64{10}, []int64{10, 10}})
	if f.Shares != nil || f.runs == nil {
		t.Errorf("shares without classes: %+v", f.Shares)
	}
	if !f.Share(10*time.Millisecond) || f.Shares.Classes[0].Attainment != 1 {
		t.Errorf("a time that is just kept: %+v", f.Shares)
	}
	f = played(t, traffic{1e9, map[string]any{"class": "a"}, nil, []int64{5, 15}})
	if x := f.Shares.Classes[0]; x.Attainment.Known() || x.Goodput.Known() || x.Isolated.Known() || x.Leakage.Known() {
		t.Errorf("without SLO and without runs alone: %+v", x)
	}
	if text, err := json.Marshal(f.Shares); err != nil || string(text) != `{"classes":[{"class":"a","runs":2,"weight":1,`+
		`"throughput":1e+11,"isolated_throughput":null,"isolation_leakage":null,"slo_attainment":null,"goodput":null}],`+
		`"jain":null,"weighted_goodput":null}` {
		t.Errorf("%v: %s", err, text)
	}
	f.Share(10 * time.Millisecond)
	if x := f.Shares.Classes[0]; !near(x.Throughput, 100e9) || !near(x.Attainment, 0.5) || !near(x.Goodput, 50e9) {
		t.Errorf("%+v", x)
	}
	own := played(t, traffic{1e9, map[string]any{"slo_ms": 1.0}, nil, []int64{5}})
	if own.Share(10*time.Millisecond) || own.Shares.Classes[0].Attainment != 0 {
		t.Errorf("an SLO for all beside its own one: %+v", own.Shares)
	}
}
