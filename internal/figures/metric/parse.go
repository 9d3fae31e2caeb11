package metric

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/value"
	"perigee/internal/result"
)

// Aggregates are the ways to make one number of samples; pNN stands for any
// percentile, such as p99.9.
var Aggregates = []string{"min", "max", "mean", "median", "pNN", "stddev", "count", "rate"}

// Parse reads a threshold. The error, of the kind Usage, says where it stopped and what it wanted there.
// Whether there is such a metric only package metric knows.
func Parse(text string) (Threshold, error) {
	t, err := parse(text)
	if err != nil {
		return Threshold{}, err
	}
	return t, nil
}

// parse is Parse; with an error it returns what was read until then.
func parse(text string) (t Threshold, err error) {
	s := expr.Scan("threshold", text, "a threshold looks like latency_ms.p99 < 40; see docs/thresholds.md")
	t.Metric = s.Word("the name of a metric")
	if s.Accept("{") && !s.Accept("}") {
		t.Where = conditions(t.Metric).List(s)
		s.Want("}", "a comma or }")
	}
	if t.Metric == pathName && !s.Comes(".") {
		t.path(s)
		return t, s.Err()
	}
	s.Want(".", "a dot and an aggregate, as in latency_ms.p99 < 40")
	at := s.Next()
	t.aggregated(s)
	if def, _ := Find(t.Metric); def.percentiles && !slices.Contains(percentiles, t.part()) {
		s.Wrong(at, "%s has no %s: a result has its %s", t.Metric, t.Aggregate, list(percentiles))
	}
	at = s.Next()
	t.Bound, t.Of = s.BoundOf(t.unit(), result.References, expr.Bounds...)
	if t.Of != "" && t.unit() != "GB/s" {
		s.Wrong(at, "the %s is a limit of metrics in GB/s, such as pair_bw_gb_per_s.p50, not of %s.%s", t.Of, t.Metric,
			t.Aggregate)
	}
	t.AbortAfter = abort(s, t.unit())
	if err := t.Abortable(); err != nil {
		s.Wrong(at, "%w", err)
	}
	return t, s.Err()
}

// conditions is the language of what stands in braces behind a metric.
func conditions(name string) *expr.Language[Row] {
	return &expr.Language[Row]{
		Operand: "a column such as phase, pattern or rank", Example: "rank = 2",
		Find: func(column string, left bool) (*expr.Column[Row], error) {
			return Column(name, column, left)
		},
	}
}

// unit is that of the aggregate of a metric of every run; the others' are not known.
func (t *Threshold) unit() string {
	if def, _ := Find(t.Metric); t.Aggregate != "count" && t.Aggregate != "rate" {
		return def.Unit
	}
	return ""
}

// ReadThreshold reads a threshold for a scenario whose own metrics are given. The error, of the
// kind Usage, also reports a metric that does not exist, before any other mistake.
func ReadThreshold(text string, own []result.MetricDef) (Threshold, error) {
	t, err := parse(text)
	if unknown := t.CheckFor(own); t.Metric != "" && unknown != nil {
		err = fault.New(fault.Usage, "threshold %q: %w", text, unknown)
	}
	if err != nil {
		return Threshold{}, err
	}
	return t, nil
}

// ParseCondition reads what follows the metric's name and dot, as in p99 < 40, or the name path, as in == "rc". The
// error is as that of Parse.
func ParseCondition(metricName, condition string) (Threshold, error) {
	if c := strings.TrimSpace(condition); strings.HasPrefix(c, "=") || strings.HasPrefix(c, "!") {
		return Parse(metricName + " " + condition)
	}
	return Parse(metricName + "." + condition)
}

var percentile = regexp.MustCompile(`^p[0-9]+(\.[0-9]+)?$`)

// aggregated reads the aggregate.
func (t *Threshold) aggregated(s *expr.Scanner) {
	at := s.Next()
	t.Aggregate = s.Word("an aggregate: " + strings.Join(Aggregates, ", "))
	switch t.Aggregate {
	case "min":
		t.quantile = 0
	case "max":
		t.quantile = 1
	case "median":
		t.quantile = 0.5
	case "mean", "stddev", "count", "rate":
	default:
		percent, err := strconv.ParseFloat(t.Aggregate[min(1, len(t.Aggregate)):], 64)
		if !percentile.MatchString(t.Aggregate) || err != nil || percent > 100 {
			s.Fail(at, "an aggregate (%s, with NN from 0 to 100%s)", strings.Join(Aggregates, ", "),
				value.Suggestion(t.Aggregate, Aggregates))
		}
		t.quantile = percent / 100
	}
}

// Abortable refuses to end a run by what is known only after it. The error is of the kind Usage.
func (t *Threshold) Abortable() error {
	switch def, _ := Find(t.Metric); {
	case t.AbortAfter == 0:
		return nil
	case t.Of == result.ByCeiling:
		return fault.New(fault.Usage, "the ceiling is measured after the run, too late for abort")
	case t.Transport != nil || def.atEnd:
		return fault.New(fault.Usage, "%s is known at the end of a run, too late for abort", t.Metric)
	}
	return nil
}

// abort reads from which number of samples on a violation ends the run; 0 if it does not.
func abort(s *expr.Scanner, unit string) int {
	if !s.Accept("abort") {
		s.EndOfBound(unit, "the end, or abort")
		return 0
	}
	if !s.Accept("after") {
		s.End("the end, or after and a number of samples")
		return 1
	}
	n := s.Count("at least 1 sample")
	s.End("the end")
	return n
}
