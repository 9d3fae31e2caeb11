package metric

import (
	"fmt"
	"math"

	"perigee/internal/result"
)

// drifting are the metrics whose samples count from the first start of a run, and so have the drift of initiators in
// them where these do not meet between runs.
var drifting = map[string]bool{"latency_ms": true, "pair_end_ms": true, "slo_attainment": true}

// perRun is the total time / runs, in nanoseconds, of each pattern whose single runs have the drift of initiators in
// them; nil for metrics that do not mind.
func (t Threshold) perRun(d *result.Document) map[int]float64 {
	if !drifting[t.Metric] {
		return nil
	}
	all := make([]result.Latencies, len(d.Patterns))
	for i := range d.Measurements {
		all[d.Measurements[i].Pattern].Add(&d.Measurements[i])
	}
	found := map[int]float64{}
	for i := range all {
		all[i].Whole(d, i)
		if per := all[i].PerRun(); !math.IsNaN(per) {
			found[i] = per
		}
	}
	return found
}

// withoutDrift is the sample of a run of which the total time / runs is known: that, or a message's own time.
func (t Threshold) withoutDrift(s Sample, perRun float64) Sample {
	switch t.Metric {
	case "latency_ms":
		s.Value = perRun / 1e6
	case "pair_end_ms":
		s.Value = float64(s.EndNS-s.StartNS) / 1e6
	}
	return s
}

// refusedByDrift says why an aggregate of drifting runs is not known; empty where it is: their number, and of latencies
// the middle, which is the total time / runs.
func (t Threshold) refusedByDrift() string {
	switch {
	case t.Metric == "pair_end_ms", t.Aggregate == "count", t.Aggregate == "rate":
		return ""
	case t.Metric == "latency_ms" && (t.Aggregate == "mean" || t.Aggregate == "median" || t.Aggregate == "p50"):
		return ""
	}
	return fmt.Sprintf(": %s (latency_ms.mean); pair_latency_ms.%s has each message's own time", result.DriftText, t.Aggregate)
}
