package metric

import (
	"fmt"
	"math"

	"perigee/internal/kit/cli"
	"perigee/internal/result"
)

// spreads have the distribution of a metric's samples over all runs, where a result keeps some of them; its times are
// in nanoseconds, the samples in milliseconds.
var spreads = map[string]func(t *result.Totals) *result.Spread{
	"latency_ms":      func(t *result.Totals) *result.Spread { return &t.Latencies },
	"pair_latency_ms": func(t *result.Totals) *result.Spread { return &t.Messages },
}

// ofAll is what the samples of all runs come to, where a result keeps some of them. o is of those that are kept, c has
// them, and drifts says that their values are the total time / runs.
func (t Threshold) ofAll(d *result.Document, o Outcome, c *collection, drifts bool) Outcome {
	def, _ := Find(t.Metric)
	if len(d.Totals) == 0 || def.each == nil {
		return o
	}
	number := t.Aggregate == "count" || t.Aggregate == "rate"
	spread, known := spreads[t.Metric]
	if t.Where != nil && (t.Where.Names("rank") || t.Where.Names("peer")) {
		known = false // totals are of all messages of a pattern
	}
	var all result.Spread
	kept, runs := 0, 0
	for _, of := range d.Totals {
		if !c.of[runsOf{of.Pattern, of.Phase}] {
			continue
		}
		kept, runs = kept+of.Kept, runs+of.Runs
		c.start, c.end = min(c.start, of.StartNS), max(c.end, of.EndNS)
		if known {
			all.Merge(*spread(of))
		}
	}
	switch {
	case kept == runs:
		return o
	case !known && number:
		o.Value, o.Passed = math.NaN(), false
		o.Others = fmt.Sprintf(": the result keeps %d of %s; latency_ms.%s counts all", kept, cli.Count(runs, "run"), t.Aggregate)
		return o
	case !known:
		o.Note = fmt.Sprintf("of the %s that are kept, of %d", cli.Count(kept, "run"), runs)
		return o
	}
	o.Samples = int(all.Count())
	if drifts && !number {
		return o
	}
	o.Value = t.aggregate(&all, 1e6, c)
	bound := t.within(d)
	o.Passed = !math.IsNaN(bound.Limit) && bound.Holds(o.Value)
	return o
}
