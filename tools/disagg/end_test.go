package disagg

import (
	"io"
	"math"
	"strings"
	"testing"

	"perigee/internal/kit/must"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/config"
	"perigee/internal/serving/judge"
)

// Figures that JSON cannot hold fail their case, and end no run.
func TestFiguresThatJSONLacks(t *testing.T) {
	dir := t.TempDir()
	task := &batch.Task{Config: &config.Config{Ident: config.Ident{Type: "disagg", Category: "accuracy", Stem: "a"}}, Dir: dir}
	bad := &judge.Verdict{State: judge.Passed, Accuracy: []judge.Score{{Judgement: &judge.Judgement{Threshold: math.NaN()}}}}
	o := &outcome{Case: judge.Case{Dir: dir, Verdict: bad}}
	r := &session{RunCmd: &RunCmd{}, log: &runLog{screen: io.Discard}, dir: t.TempDir(), outcomes: map[*batch.Task]*outcome{task: o}}
	must.Do(t, r.write(task, o))
	c, err := judge.ReadCase(dir + batch.FailedSuffix)
	if err != nil || c.State != judge.Failed || !strings.Contains(c.Reasons[0], "the verdict has a figure that is no finite number: ") {
		t.Errorf("%v: %+v", err, c)
	}
	if v := judge.Unwritable(printJSON(io.Discard, bad)); v == nil || v.State != judge.Failed || judge.Unwritable(printJSON(io.Discard, v)) != nil {
		t.Errorf("%+v", v)
	}
}
