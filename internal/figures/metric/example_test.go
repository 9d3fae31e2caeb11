package metric_test

import (
	"fmt"

	"perigee/internal/figures/metric"
	"perigee/internal/result"
	"perigee/internal/traffic/series"
)

// A metric is a list of samples: latency_ms has one for each run of a pattern, in milliseconds.
func ExampleOf() {
	d := &result.Document{
		Matrices: []result.Matrix{{Ranks: 2, Bytes: 1000}},
		Patterns: []result.Pattern{{Name: "pair", Senders: 1}},
	}
	d.AddRuns(0, "workload", 0, []series.Run{{StartNS: 0, EndNS: 2e6}, {StartNS: 3e6, EndNS: 7e6}})
	for _, s := range metric.Of(d, "latency_ms") {
		fmt.Printf("run %d of pattern %d in %s: %g ms\n", s.Iteration, s.Pattern, s.Phase, s.Value)
	}
	fmt.Println(metric.Check("latncy_ms", nil))
	// Output:
	// run 0 of pattern 0 in workload: 2 ms
	// run 1 of pattern 0 in workload: 4 ms
	// there is no metric "latncy_ms"; did you mean "latency_ms"?
}
