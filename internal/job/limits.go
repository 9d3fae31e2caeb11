package job

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/result"
	"perigee/internal/table"
	"perigee/internal/threshold"
	"perigee/spmd"
)

// limits are the thresholds of a run, at rank 0.
type limits struct {
	list  []threshold.Threshold
	watch *threshold.Watch
	doc   *result.Document
}

func newLimits(list []threshold.Threshold, d *result.Document) *limits {
	l := &limits{list: list, doc: d, watch: threshold.NewWatch(d, list)}
	for _, t := range list {
		d.Thresholds = append(d.Thresholds, result.Threshold{Threshold: t.String(), From: t.From})
	}
	return l
}

// sampled ends the run as soon as a threshold that says abort is violated.
func (l *limits) sampled() error {
	o, violated := l.watch.Violated()
	if !violated {
		return nil
	}
	for i, t := range l.list {
		if t == o.Threshold {
			l.record(i, o)
		}
	}
	return fault.New(fault.Threshold, "the threshold %s", o).
		WithHint("the run was ended early because the threshold says abort; what was measured until then is in the result")
}

func (l *limits) record(i int, o threshold.Outcome) {
	r := &l.doc.Thresholds[i]
	r.Samples, r.Passed = o.Samples, &o.Passed
	if !math.IsNaN(o.Value) && !math.IsInf(o.Value, 0) {
		r.Value = &o.Value
	}
}

// judge holds all thresholds against the result, and returns those that are violated.
func (l *limits) judge() []threshold.Outcome {
	var violated []threshold.Outcome
	for i, t := range l.list {
		o := t.Judge(l.doc)
		l.record(i, o)
		if !o.Passed {
			violated = append(violated, o)
		}
	}
	return violated
}

// print writes a table of what judge has found.
func (l *limits) print(w io.Writer) error {
	var t table.Table
	t.AddColumn("Threshold", table.Left, "%s")
	t.AddColumn("Value", table.Right, "%.6g")
	t.AddColumn("Samples", table.Right, "%d")
	t.AddColumn("Verdict", table.Left, "%s")
	for _, r := range l.doc.Thresholds {
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
	fmt.Fprintln(w, "# thresholds")
	return t.WriteText(w)
}

// complaint makes one error of the violated thresholds, nil of none.
func complaint(violated []threshold.Outcome, of int) error {
	if len(violated) == 0 {
		return nil
	}
	texts := make([]string, len(violated))
	for i, o := range violated {
		texts[i] = o.String()
	}
	is := "is"
	if len(violated) > 1 {
		is = "are"
	}
	return fault.New(fault.Threshold, "%d of %s %s violated: %s", len(violated), cli.Count(of, "threshold"), is, strings.Join(texts, "; ")).
		WithHint("the run itself went well, and its result is complete")
}

// verdict is what rank 0 thinks of a run that went well.
type verdict struct {
	Kind      fault.Kind // 0 if all is well
	Msg, Hint string
}

func verdictOf(err error) verdict {
	if err == nil {
		return verdict{}
	}
	return verdict{fault.KindOf(err), err.Error(), fault.HintOf(err)}
}

// agree makes the verdict of rank 0 that of all ranks, which end with its exit code.
func (k *rank) agree(mine error) error {
	v, err := spmd.BroadcastValue(k.world.All(), 0, verdictOf(mine))
	if err != nil {
		return errors.Join(mine, err)
	}
	if v.Kind == 0 {
		return nil
	}
	if k.world.Rank() > 0 {
		<-k.world.Context().Done() // rank 0 says it
		return k.world.Err()
	}
	return mine
}
