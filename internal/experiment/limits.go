package experiment

import (
	"fmt"
	"math"
	"strings"
	"time"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/sheet"
)

// Sampled is called when the result has new samples. If a threshold that says abort is violated, Aborting says so, and
// Sampled itself half a second later.
func (e *Experiment) Sampled() error { return e.hold(e.sampled(false)) }

// abortSoon is how long a run may go on with samples alone when a threshold that says abort is violated.
const abortSoon = time.Second / 2

// hold keeps the error of a threshold for Aborting: a run that ends now is complete.
func (e *Experiment) hold(err error) error {
	if e.aborting == nil {
		e.aborting, e.violatedAt = err, time.Now()
	}
	if e.aborting != nil && time.Since(e.violatedAt) > abortSoon {
		return e.aborting
	}
	return nil
}

// Aborting is the error of a threshold that says abort and is violated, which ends what the scenario does next with
// other ranks. nil for none, and at ranks other than 0.
func (e *Experiment) Aborting() error { return e.aborting }

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
		WithHint("the threshold says abort, which has ended the run in the phase %s, %s after it began; what was measured until then is in the result",
			e.World.CurrentPhase(), time.Since(e.Doc.Started).Round(100*time.Millisecond))
}

func (e *Experiment) record(i int, o metric.Outcome) {
	r := &e.Doc.Thresholds[i]
	r.Samples, r.Passed, r.Note, r.Found = o.Samples, &o.Passed, o.Note, o.Found
	if !math.IsNaN(o.Value) && !math.IsInf(o.Value, 0) {
		r.Value = &o.Value
	}
	if o.Threshold.Of != "" && !math.IsNaN(o.Limit) {
		r.Limit = &o.Limit
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
	t := sheet.New("", "", "|Threshold", "Value", "Samples", "|Verdict")
	for _, r := range e.Doc.Thresholds {
		var value any
		verdict := "violated"
		if r.Value != nil {
			value = fmt.Sprintf("%.6g", *r.Value)
		} else if r.Found != "" {
			value = r.Found
		}
		if *r.Passed {
			verdict = "ok"
		}
		t.AddRow(r.Text(), value, r.Samples, verdict)
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
