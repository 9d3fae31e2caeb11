package metric

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/plaintext"
	"perigee/internal/result"
)

// Threshold limits an aggregate of a metric's samples, such as
//
//	latency_ms.p99 < 40
//	slowdown{phase="workload"}.max <= 1.5 abort after 20
//
// The grammar, in the notation of the Go specification, around the conditions of package expr:
//
//	threshold = metric [ "{" [ condition { "," condition } ] "}" ] "." aggregate comparison limit
//	            [ "abort" [ "after" count ] ] .
//	limit     = number [ unit ] | [ number "*" ] ( "line" | "ceiling" ) .
//	aggregate = "min" | "max" | "mean" | "median" | "stddev" | "count" | "rate" | "p" count [ "." count ] .
//
// or a comparison of what moved the bytes:
//
//	threshold = "path" [ "{" [ condition { "," condition } ] "}" ] ( "==" | "!=" | "=~" | "!~" ) text .
//
// The conditions choose samples by the columns of [Column], and those of a scenario's metric by the labels that it
// gives to them. The unit is another one of the metric's kind, such as s for latency_ms. The result says what line and
// ceiling stand for.
type Threshold struct {
	Metric string
	Where  *expr.Condition[SampleRow] // nil for all samples
	// Aggregate is min, max, mean, median, stddev, count, rate, or p and a number from 0 to 100.
	Aggregate string
	expr.Bound
	// Transport is what Op compares the path with, nil for a threshold on a metric.
	Transport *string
	// Of is line or ceiling where the limit is a part of what the result says of it, else empty.
	Of string
	// AbortAfter is the number of samples from which on a violation ends the run; 0 leaves
	// the judgement to the end.
	AbortAfter int
	// From says where it was set, for messages.
	From string

	quantile float64 // of an aggregate pNN
}

// String writes the threshold in its grammar.
func (t Threshold) String() string {
	text := t.Metric
	if t.Where != nil {
		text += "{" + t.Where.String() + "}"
	}
	if t.Transport != nil {
		return text + " " + t.Op + " " + expr.Quote(*t.Transport)
	}
	limit := strconv.FormatFloat(t.Limit, 'g', -1, 64)
	switch {
	case t.Of != "" && t.Limit == 1:
		limit = t.Of
	case t.Of != "":
		limit += " * " + t.Of
	}
	text += fmt.Sprintf(".%s %s %s", t.Aggregate, t.Op, limit)
	switch t.AbortAfter {
	case 0:
	case 1:
		text += " abort"
	default:
		text += fmt.Sprint(" abort after ", t.AbortAfter)
	}
	return text
}

// admits reports whether a sample counts.
func (t Threshold) admits(d *result.Document, s Sample) bool {
	if s.Phase == Isolated && t.Metric != "isolated_latency_ms" && (t.Where == nil || !t.Where.Names("phase")) {
		return false
	}
	if def, _ := Find(t.Metric); def.percentiles && s.Labels["aggregate"] != t.part() {
		return false
	}
	return !t.ofCeiling(d, s) && t.matches(d, s)
}

// ofCeiling reports whether a sample is of what the network counted while the ceiling was measured, and the condition
// does not ask for that phase.
func (t Threshold) ofCeiling(d *result.Document, s Sample) bool {
	def, _ := Find(t.Metric)
	return def.labels != nil && s.Phase == result.CeilingPhase && d.Job != nil && d.Job.Ceiling &&
		(t.Where == nil || !t.Where.Names("phase"))
}

// matches reports whether a sample fulfils the condition, whatever its phase.
func (t Threshold) matches(d *result.Document, s Sample) bool {
	return t.Where == nil || t.Where.Match(SampleRow{Doc: d, Sample: s})
}

// within is the bound in the metric's unit; its limit is NaN where it is a part of something unknown.
func (t Threshold) within(d *result.Document) expr.Bound {
	b := t.Bound
	if t.Of != "" {
		b.Limit = math.NaN()
		if rate, _ := d.Line.By(t.Of); rate > 0 {
			b.Limit = t.Limit * rate / 1e9
		}
	}
	return b
}

// Outcome compares a threshold with the value that was measured.
type Outcome struct {
	Threshold Threshold
	Limit     float64 // in the metric's unit, NaN where it is a part of something unknown
	Value     float64 // NaN where there are too few samples to aggregate
	Samples   int
	Passed    bool
	Note      string // why it passed without samples, or what those alone say of a violation
	Found     string // of a threshold on the path, the transports
	Others    string // the labels of the metric's samples where none has those that were asked for
}

// String says what was measured.
func (o Outcome) String() string {
	t := o.Threshold
	t.AbortAfter = 0
	limit := t.String()
	if t.Of != "" && !math.IsNaN(o.Limit) {
		limit += fmt.Sprintf(" (%.4g GB/s)", o.Limit)
	}
	samples := cli.Count(o.Samples, "sample")
	switch {
	case o.Threshold.Transport != nil && o.Found != "":
		return fmt.Sprintf("%s: it is %s", limit, o.Found)
	case o.Threshold.Transport != nil:
		return limit + o.Others
	case math.IsNaN(o.Limit):
		return fmt.Sprintf("%s: the %s is not known", limit, t.Of)
	case math.IsNaN(o.Value) && o.Samples == 0:
		return fmt.Sprintf("%s: there are no samples%s", limit, o.Others)
	case math.IsNaN(o.Value):
		return fmt.Sprintf("%s: there is no %s of %s%s", limit, t.Aggregate, samples, o.Others)
	}
	return fmt.Sprintf("%s: it is %s over %s", limit, strconv.FormatFloat(o.Value, 'g', 6, 64), samples)
}

// Judge holds a threshold against a whole result. Where the aggregate of its samples
// is not known, because there are none for instance, it has not passed: it is
// not known to hold.
func (t Threshold) Judge(d *result.Document) Outcome {
	if t.Transport != nil {
		return t.judgePath(d)
	}
	o := t.over(d, func(s Sample) bool { return t.admits(d, s) })
	above := ""
	if t.Of != "" && o.Passed {
		above = d.AboveLine()
	}
	waits := ""
	if !o.Passed && t.Metric == "contention" && o.Samples > 0 {
		waits = contention.Of(d).Waits().Crowded()
	}
	switch {
	case above != "":
		o.Passed, o.Note = false, above
	case t.Metric == "contention" && o.Samples == 0 && calm(d):
		o.Passed, o.Note = true, "no message of the workload in this result overlapped with one of another pattern"
	case t.Metric == "slowdown" && o.Samples == 0 && t.Where == nil:
		o.Others = ": no pattern of the workload was also run alone, in the phase isolated"
	case waits != "":
		o.Note = "ranks wait for CPUs, which may be all of it: " + waits
	case math.IsNaN(o.Limit):
		_, o.Note = d.Line.By(t.Of)
	case !o.Passed:
		o.Note = t.alone(d)
	}
	if o.Samples == 0 && t.Where != nil {
		o.Others = others(d, t.Metric)
		if label := t.unknownLabel(d); label != "" { // count == 0 is no answer to a mistake
			o.Value, o.Passed, o.Note = math.NaN(), false, ""
			o.Others = " with the label " + label + cmp.Or(strings.TrimPrefix(o.Others, " with these labels"), ", and none with labels")
		}
	}
	if o.Samples == 0 && o.Others == "" && t.Where != nil && t.Where.Names("phase") {
		o.Others = phasesOf(d, t.Metric)
	}
	if def, _ := Find(t.Metric); o.Samples == 0 && def.atEnd { // what no host has counted is not 0
		o.Value, o.Passed, o.Others = math.NaN(), false, uncounted(d, t.Metric)
	} else if def.labels != nil && !o.Passed {
		o.Note = t.worst(d)
	}
	return o
}

// over aggregates those samples of a result that are admitted.
func (t Threshold) over(d *result.Document, admits func(Sample) bool) Outcome {
	var c collection
	perRun, drifts := t.perRun(d), false
	for _, s := range Of(d, t.Metric) {
		if !admits(s) {
			continue
		}
		if per, drift := perRun[s.Pattern]; drift {
			s, drifts = t.withoutDrift(s, per), true
		}
		c.add(s)
	}
	slices.Sort(c.sorted)
	o := t.ofAll(d, t.outcome(d, &c), &c, drifts)
	if refused := t.refusedByDrift(); drifts && refused != "" {
		o.Value, o.Passed, o.Others = math.NaN(), false, refused
	}
	return o
}

// alone says that the runs alone do not keep a threshold of slowdown either; empty of others, where they do, and if it
// is about phases.
func (t Threshold) alone(d *result.Document) string {
	number := t.Aggregate == "count" || t.Aggregate == "rate" // says nothing of how slow they are
	if t.Metric != "slowdown" || number || t.Where != nil && t.Where.Names("phase") {
		return ""
	}
	o := t.over(d, func(s Sample) bool {
		return s.Phase == Isolated && t.matches(d, s)
	})
	if o.Passed || math.IsNaN(o.Value) {
		return ""
	}
	return fmt.Sprintf("the runs alone do not keep it either: of %s it is %s",
		cli.Count(o.Samples, "run"), strconv.FormatFloat(o.Value, 'g', 6, 64))
}

// unknownLabel is a label that the condition names and none of the samples of its metric has, though there are samples.
func (t Threshold) unknownLabel(d *result.Document) string {
	i := slices.IndexFunc(d.Metrics, func(m result.Metric) bool { return m.Name == t.Metric })
	if _, known := Find(t.Metric); known || i < 0 || len(d.Metrics[i].Values) == 0 {
		return ""
	}
	known := map[string]bool{}
	for _, set := range d.Metrics[i].LabelSets {
		for label := range set {
			known[label] = true
		}
	}
	for _, name := range t.Where.Columns() {
		if !known[name] && !IsColumn(name) {
			return name
		}
	}
	return ""
}

// others names the labels that the samples of a metric have.
func others(d *result.Document, name string) string {
	i := slices.IndexFunc(d.Metrics, func(m result.Metric) bool { return m.Name == name })
	if i < 0 || len(d.Metrics[i].LabelSets) == 0 {
		return ""
	}
	var list []string
	for _, l := range d.Metrics[i].LabelSets {
		list = append(list, l.String())
	}
	return " with these labels, only with " + strings.Join(plaintext.First(list, 5, "%d more"), ", ")
}

// phasesOf names the phases that have samples of a metric; empty where there are no samples.
func phasesOf(d *result.Document, metric string) string {
	var phases []string
	Each(d, metric, func(s Sample) {
		if text := expr.Quote(s.Phase); s.Phase != "" && !slices.Contains(phases, text) {
			phases = append(phases, text)
		}
	})
	if len(phases) == 0 {
		return ""
	}
	return " in this phase, only in " + list(plaintext.First(phases, 10, "%d more"))
}

// calm reports whether a result has a workload that is known to have no overlap.
func calm(d *result.Document) bool {
	any := false
	for i := range d.Measurements {
		m := &d.Measurements[i]
		if m.Phase == Isolated {
			continue
		}
		any = true
		if m.Overlapped() {
			return false
		}
	}
	return d.Overlaps && any
}

func (t Threshold) outcome(d *result.Document, c *collection) Outcome {
	bound := t.within(d)
	o := Outcome{Threshold: t, Limit: bound.Limit, Value: t.aggregate(sorted(c.sorted), 1, c), Samples: len(c.sorted)}
	o.Passed = !math.IsNaN(bound.Limit) && bound.Holds(o.Value)
	return o
}
