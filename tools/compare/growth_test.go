package compare

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"perigee/internal/kit/fuzztest"
	"perigee/internal/kit/must"
	"perigee/internal/result"
)

// The labels of a metric are written once, not for every sample that has them.
func TestManySamplesWithLabels(t *testing.T) {
	var docs [2]*result.Document
	for k := range docs {
		set := result.Labels{}
		for i := range 64 {
			set[fmt.Sprint("key", i)] = strings.Repeat("v", 256)
		}
		docs[k] = document(0, 0, nil)
		docs[k].Metrics = []result.Metric{{MetricDef: result.MetricDef{Name: "own"}, LabelSets: []result.Labels{set}}}
		m := &docs[k].Metrics[0]
		for i := range 1000 {
			m.Values, m.TimesNS, m.Labels = append(m.Values, 1), append(m.TimesNS, int64(i)), append(m.Labels, 0)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mustCompare(t, one(docs[0]), one(docs[1]), defaults)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 { // each text has 17 kB
		t.Errorf("%d bytes for 2000 samples with the same labels", took)
	}
}

// Results of many hosts, options, files and settings are compared in a time that grows as they do.
func TestManyOfEverything(t *testing.T) {
	for what, fill := range map[string]func(d *result.Document, i int){
		"hosts": func(d *result.Document, i int) {
			h := result.Host{Name: fmt.Sprint("h", i), CPUs: i, Hardware: &result.Hardware{CPU: fmt.Sprint("c", i)}}
			d.World.Hosts = append(d.World.Hosts, h)
		},
		"options that are written": func(d *result.Document, i int) {
			d.Scenario.Options[fmt.Sprint("o", i)] = i
			d.Scenario.Writes = append(d.Scenario.Writes, fmt.Sprint("o", i))
		},
		"options that are read": func(d *result.Document, i int) {
			d.Scenario.Options[fmt.Sprint("o", i)] = fmt.Sprint("f", i)
			d.Scenario.Reads = append(d.Scenario.Reads, fmt.Sprint("o", i))
			d.Inputs = append(d.Inputs, result.Input{Path: fmt.Sprint("f", i), SHA256: "x"})
		},
		"settings": func(d *result.Document, i int) { d.Engine.Params[fmt.Sprint("k", i)] = fmt.Sprintf("%p", d) },
		"phases": func(d *result.Document, i int) {
			m := d.Measurements[0]
			m.Phase = fmt.Sprint("p", i)
			d.Measurements = append(d.Measurements, m)
		},
	} {
		fuzztest.Linear(t, what, 2000, func(n int) func() {
			var docs [2]*result.Document
			for k := range docs {
				docs[k] = document(1, 1, func(int) float64 { return 1 })
				docs[k].Engine.Params = map[string]string{}
				for i := range n {
					fill(docs[k], i)
				}
			}
			return func() { mustCompare(t, one(docs[0]), one(docs[1]), defaults) }
		})
	}
}

// The page of very many pairs, of which it shows the first, holds no copy of their rows.
func TestPageOfManyPairs(t *testing.T) {
	const rows = 200_000
	r := &Report{OldN: 1, NewN: 1, Rows: make([]Row, rows)}
	for i := range r.Rows {
		r.Rows[i] = Row{Metric: "pair_end_ms", Sender: i / 500, Receiver: i % 500, Old: 1, New: 1, Change: float64(i) / rows}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must.Do(t, r.WriteHTML(io.Discard))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > rows*100 { // a row has 300 bytes
		t.Errorf("%d bytes for %d rows", took, rows)
	}
}
