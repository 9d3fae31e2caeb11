package compare

import (
	"fmt"
	"testing"

	"perigee/internal/fuzztest"
	"perigee/internal/result"
)

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
