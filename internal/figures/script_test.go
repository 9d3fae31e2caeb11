package figures

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// own is a result with one metric, whose samples have labels in turn.
func own(t *testing.T, values []float64, labels ...result.Labels) *result.Document {
	t.Helper()
	d := handMade()
	d.Measurements = nil
	d.DeclareMetrics([]result.MetricDef{{Name: "empty"}, {Name: "rate", Help: "how fast"}})
	for i, v := range values {
		var l result.Labels
		if len(labels) > 0 {
			l = labels[i%len(labels)]
		}
		must.Do(t, d.AddLabelled("rate", l, v, 0))
	}
	return d
}

func TestScript(t *testing.T) {
	type shown struct {
		Sentence, X string
		Log         bool
		Words       []string
		Series      []string
	}
	size := func(n string) result.Labels { return result.Labels{"size": n} }
	for name, c := range map[string]struct {
		d    *result.Document
		want shown
	}{
		"one value":  {own(t, []float64{0.25}), shown{Sentence: "rate: 0.25."}},
		"in a row":   {own(t, []float64{1, 3, 2}), shown{"rate: median 2 over 3 values.", "sample", false, nil, []string{"rate 1:1 2:3 3:2"}}},
		"ten values": {own(t, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), shown{"rate: median 5 over 11 values, 8 of 10 from 1 to 9.", "sample", false, nil, nil}},
		"sizes": {own(t, []float64{5, 1, 7, 3}, size("65536"), size("1024")), shown{"rate: median 4 over 4 values; by size: 2 at 1 KiB, 6 at 64 KiB.", "size", true, nil,
			[]string{"rate 1024:2(1.2..2.8) 65536:6(5.2..6.8)"}}},
		"series": {own(t, []float64{1, 2, 30, 40}, result.Labels{"n": "1", "way": "up"}, result.Labels{"n": "2", "way": "up"}, result.Labels{"n": "1", "way": "down"}, result.Labels{"n": "2", "way": "down"}),
			shown{"rate: median 16 over 4 values; by n: way up 1 at 1, 2 at 2; way down 30 at 1, 40 at 2.", "n", false, nil, []string{"way up 1:1(1..1) 2:2(2..2)", "way down 1:30(30..30) 2:40(40..40)"}}},
		"words": {own(t, []float64{4, 2}, result.Labels{"op": "READ"}, result.Labels{"op": "WRITE"}), shown{"rate: median 3 over 2 values; 2 at op WRITE, 4 at op READ.", "", false,
			[]string{"op READ", "op WRITE"}, []string{"rate 0:4(4..4) 1:2(2..2)"}}},
		"number and word": {own(t, []float64{4, 2}, size("8"), size("all")), shown{"rate: median 3 over 2 values; 2 at size all, 4 at size 8.", "", false,
			[]string{"size 8", "size all"}, []string{"rate 0:4(4..4) 1:2(2..2)"}}},
	} {
		a := answer(t, c.d)
		got := shown{Sentence: a.Sentence}
		if len(a.Charts) > 0 {
			chart := a.Charts[0]
			got.X, got.Log, got.Words = chart.X.Label, chart.X.Log, chart.X.Words
			for _, s := range chart.Series {
				got.Series = append(got.Series, show(s))
			}
			if chart.Title != "rate" || chart.Y.Label != "how fast" || len(a.Charts) > 1 {
				t.Errorf("%s: %+v", name, a.Charts)
			}
		}
		if name == "ten values" {
			got.Series = nil
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A script's own metric comes before what its patterns are, and a shipped scenario's metric, which repeats its patterns'
// figures, does not.
func TestOwnAndShipped(t *testing.T) {
	d := toAndFro(3, 1000)
	d.DeclareMetrics([]result.MetricDef{{Name: "rate"}})
	d.AddSample("rate", 3, 0)
	d.AddSample("rate", 4, 0)
	a := answer(t, d)
	if a.Sentence != "rate: median 3.5 over 2 values." || a.Why != "" || a.Charts[0].Title != "rate" || a.Charts[1].Title != "Bandwidth" ||
		!strings.HasPrefix(a.Judged[0].Text, "0 \u2192 1: 201 ns") {
		t.Errorf("%+v", a)
	}
	d.World.Hosts[0].CPUs = 1
	if a := answer(t, d); a.Why != "a has 1 CPU for 2 ranks: waits for a CPU are in these figures." {
		t.Errorf("one CPU: %s", a.Why)
	}
	d.Scenario.Name = "pingpong.lua"
	if a := answer(t, d); a.Charts[0].Title != "rate" {
		t.Errorf("a script that is called like a shipped one: %+v", a)
	}
	d.Metrics[0].Name = "bw_gb_per_s"
	if a := answer(t, d); !strings.HasPrefix(a.Sentence, "0 \u2192 1: 201 ns") || a.Charts[0].Title != "Bandwidth" {
		t.Errorf("shipped: %+v", a)
	}
	d.Measurements, d.Metrics, d.Tables = nil, nil, []result.Table{{Columns: []string{"a"}}}
	if a := answer(t, d); !strings.HasPrefix(a.Sentence, "The scenario's own figures stand in its tables") {
		t.Errorf("a table alone: %+v", a)
	}
}
