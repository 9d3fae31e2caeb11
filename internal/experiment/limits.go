package experiment

import (
	"fmt"
	"math"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/metric"
	"perigee/internal/table"
)

// Sampled is called when the result has new samples. It returns an error, which ends the run, as soon as a threshold
// that says abort is violated.
func (e *Experiment) Sampled() error { return e.sampled(false) }

// sampled is Sampled, where which runs overlapped may be known.
func (e *Experiment) sampled(overlaps bool) error {
	if e.Doc == nil {
		return nil
	}
	if e.board != nil {
		e.board.Observe(e.Doc)
	}
	o, violated := e.watch.Violated(overlaps)
	if !violated {
		return nil
	}
	for i, t := range e.Thresholds {
		if t.From == o.Threshold.From && t.String() == o.Threshold.String() {
			e.record(i, o)
		}
	}
	return fault.New(fault.Threshold, "the threshold %s", o).
		WithHint("the run was ended early because the threshold says abort; what was measured until then is in the result")
}

func (e *Experiment) record(i int, o metric.Outcome) {
	r := &e.Doc.Thresholds[i]
	r.Samples, r.Passed, r.Note = o.Samples, &o.Passed, o.Note
	if !math.IsNaN(o.Value) && !math.IsInf(o.Value, 0) {
		r.Value = &o.Value
	}
}

// judge checks all thresholds against the result.
func (e *Experiment) judge() {
	for i, t := range e.Thresholds {
		o := t.Judge(e.Doc)
		e.record(i, o)
		if !o.Passed {
			e.violated = append(e.violated, o)
		}
	}
}

// printThresholds writes a table of what judge has found.
func (e *Experiment) printThresholds() error {
	var t table.Table
	t.AddColumn("Threshold", table.Left, "%s")
	t.AddColumn("Value", table.Right, "%.6g")
	t.AddColumn("Samples", table.Right, "%d")
	t.AddColumn("Verdict", table.Left, "%s")
	for _, r := range e.Doc.Thresholds {
		var value any
		verdict := "violated"
		if r.Value != nil {
			value = *r.Value
		}
		if *r.Passed {
			verdict = "ok"
		}
		t.AddRow(r.Threshold, value, r.Samples, verdict)
	}
	fmt.Fprintln(e.Out, "# thresholds")
	if err := t.WriteText(e.Out); err != nil {
		return err
	}
	for _, r := range e.Doc.Thresholds {
		if r.Note != "" {
			fmt.Fprintf(e.Out, "# note: %s: %s\n", r.Threshold, r.Note)
		}
	}
	return nil
}

// Violated is one error for all thresholds that [Experiment.Finish] found violated, or nil.
func (e *Experiment) Violated() error {
	if len(e.violated) == 0 {
		return nil
	}
	texts := make([]string, len(e.violated))
	for i, o := range e.violated {
		texts[i] = o.String()
	}
	is := "is"
	if len(texts) > 1 {
		is = "are"
	}
	return fault.New(fault.Threshold, "%d of %s %s violated: %s", len(texts), cli.Count(len(e.Thresholds), "threshold"),
		is, strings.Join(texts, "; ")).
		WithHint("the run itself went well, and its result is complete")
}
