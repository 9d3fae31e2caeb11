// Package threshold holds limits on what a run measures, such as
//
//	latency_ms.p99 < 40
//	slowdown{phase="workload"}.max <= 1.5 abort after 20
//
// The grammar, in the notation of the Go specification:
//
//	threshold = metric [ "{" [ filter { "," filter } ] "}" ] "." aggregate comparison number
//	            [ "abort" [ "after" count ] ] .
//	metric    = letter { letter | digit | "_" } .
//	filter    = ( "phase" | "pattern" ) "=" string | ( "pattern" | "rank" | "peer" | "block" | "batch" ) "=" count |
//	            label "=" ( string | number | size ) .
//	label     = letter { letter | digit | "_" } .
//	string    = `"` { any character but `"` and control characters } `"` .
//	aggregate = "min" | "max" | "mean" | "median" | "stddev" | "count" | "rate" | "p" decimal .
//	comparison = "<" | "<=" | ">" | ">=" | "==" | "!=" .
//	number    = [ "-" | "+" ] decimal [ ( "e" | "E" ) [ "-" | "+" ] count ] .
//	decimal   = count [ "." count ] .
//	count     = digit { digit } .
//
// A label is one that a scenario gives to samples of the metrics that it declares; a size is a number with a unit,
// such as 64K.
//
// White space may stand between any two parts, but not inside of them. letter and
// digit are those of ASCII.
package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/metric"
	"perigee/internal/result"
)

// Threshold is a limit on an aggregate of a metric's samples.
type Threshold struct {
	Metric    string
	Where     Filter
	Aggregate string // min, max, mean, median, stddev, count, rate, or p and a number from 0 to 100
	Op        string // <, <=, >, >=, == or !=
	Limit     float64
	// AbortAfter is the number of samples from which on a violation ends the run; 0 leaves
	// the judgement to the end.
	AbortAfter int
	// From says where it was set, for messages.
	From string

	quantile float64 // of an aggregate pNN
}

// Filter selects samples. What is nil does not select.
type Filter struct {
	Phase   *string
	Pattern *string // the name
	Number  *int    // of the pattern
	Rank    *int    // initiator
	Peer    *int    // other end of the message
	Block   *int64  // bytes of a block
	Batch   *int    // blocks at a time
	Labels  []Label // of samples of a scenario's own metrics, by key; all of them
}

// Label is a label and its value, in the form of result.Labels.
type Label struct{ Key, Value string }

// String writes the threshold in its grammar.
func (t Threshold) String() string {
	text := fmt.Sprintf("%s%s.%s %s %s", t.Metric, t.Where, t.Aggregate, t.Op, number(t.Limit))
	switch t.AbortAfter {
	case 0:
	case 1:
		text += " abort"
	default:
		text += fmt.Sprint(" abort after ", t.AbortAfter)
	}
	return text
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// String writes the filter with its braces, and nothing for an empty one.
func (f Filter) String() string {
	parts := part(nil, `phase="%s"`, f.Phase)
	parts = part(parts, `pattern="%s"`, f.Pattern)
	parts = part(parts, "pattern=%d", f.Number)
	parts = part(parts, "rank=%d", f.Rank)
	parts = part(parts, "peer=%d", f.Peer)
	parts = part(parts, "block=%d", f.Block)
	parts = part(parts, "batch=%d", f.Batch)
	for _, l := range f.Labels {
		parts = append(parts, result.LabelText(l.Key, l.Value))
	}
	if parts == nil {
		return ""
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// part adds a part of a filter, if it is there.
func part[T any](parts []string, form string, value *T) []string {
	if value == nil {
		return parts
	}
	return append(parts, fmt.Sprintf(form, *value))
}

// admits reports whether a sample counts.
func (t Threshold) admits(d *result.Document, s metric.Sample) bool {
	f := t.Where
	switch {
	case f.Phase != nil && *f.Phase != s.Phase,
		f.Phase == nil && s.Phase == metric.Isolated && t.Metric != "isolated_latency_ms",
		f.Pattern != nil && (s.Pattern < 0 || d.Patterns[s.Pattern].Name != *f.Pattern),
		f.Number != nil && *f.Number != s.Pattern,
		f.Rank != nil && *f.Rank != s.Rank,
		f.Peer != nil && *f.Peer != s.Peer,
		f.Block != nil && *f.Block != s.Block,
		f.Batch != nil && int64(*f.Batch) != s.Batch,
		slices.ContainsFunc(f.Labels, func(l Label) bool { v, ok := s.Labels[l.Key]; return !ok || v != l.Value }):
		return false
	}
	return true
}

// Outcome is what became of a threshold.
type Outcome struct {
	Threshold Threshold
	Value     float64 // NaN where there are too few samples to aggregate
	Samples   int
	Passed    bool
	Note      string // why it passed without samples
	Others    string // the labels of the metric's samples where none has those that were asked for
}

// String says what was measured.
func (o Outcome) String() string {
	limit := o.Threshold
	limit.AbortAfter = 0
	samples := fmt.Sprint(o.Samples, " samples")
	if o.Samples == 1 {
		samples = "1 sample"
	}
	switch {
	case math.IsNaN(o.Value) && o.Samples == 0:
		return fmt.Sprintf("%s: there are no samples%s", limit, o.Others)
	case math.IsNaN(o.Value):
		return fmt.Sprintf("%s: there is no %s of %s", limit, limit.Aggregate, samples)
	}
	return fmt.Sprintf("%s: it is %s over %s", limit, strconv.FormatFloat(o.Value, 'g', 6, 64), samples)
}

// Judge holds a threshold against a whole result. Where the aggregate of its samples
// is not known, because there are none for instance, it has not passed: it is
// not known to hold.
func (t Threshold) Judge(d *result.Document) Outcome {
	var c collection
	for _, s := range metric.Of(d, t.Metric) {
		if t.admits(d, s) {
			c.add(s)
		}
	}
	slices.Sort(c.sorted)
	o := t.outcome(&c)
	if (t.Metric == "slowdown" || t.Metric == "contention") && o.Samples == 0 && calm(d) {
		o.Passed, o.Note = true, "no message of the workload overlapped with one of another pattern, so nothing was slowed down"
	}
	if o.Samples == 0 && len(t.Where.Labels) > 0 {
		o.Others = others(d, t.Metric)
	}
	return o
}

// others names the labels that the samples of a metric have.
func others(d *result.Document, name string) string {
	i := slices.IndexFunc(d.Metrics, func(m result.Metric) bool { return m.Name == name })
	if i < 0 || len(d.Metrics[i].LabelSets) == 0 {
		return ""
	}
	const most = 5
	sets := d.Metrics[i].LabelSets
	var list []string
	for _, l := range sets[:min(len(sets), most)] {
		list = append(list, l.String())
	}
	if more := len(sets) - most; more > 0 {
		list = append(list, fmt.Sprint(more, " more"))
	}
	return " with these labels, only with " + strings.Join(list, ", ")
}

// calm reports whether a result has a workload that is known to have no overlap.
func calm(d *result.Document) bool {
	any := false
	for i := range d.Measurements {
		m := &d.Measurements[i]
		any = any || m.Phase != metric.Isolated
		if m.Overlapped() {
			return false
		}
	}
	return d.Overlaps && any
}

func (t Threshold) outcome(c *collection) Outcome {
	o := Outcome{Threshold: t, Value: t.aggregate(c), Samples: len(c.sorted)}
	o.Passed = !math.IsNaN(o.Value) && t.holds(o.Value)
	return o
}

func (t Threshold) holds(v float64) bool {
	switch t.Op {
	case "<":
		return v < t.Limit
	case "<=":
		return v <= t.Limit
	case ">":
		return v > t.Limit
	case ">=":
		return v >= t.Limit
	case "==":
		return v == t.Limit
	}
	return v != t.Limit
}
