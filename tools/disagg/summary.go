package disagg

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/junit"
	"perigee/internal/kit/sheet"
	"perigee/internal/serving/batch"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// finish writes what belongs to the whole run.
func (r *session) finish() error {
	if err := report.WriteSession(r.dir, r.began, time.Now()); err != nil {
		return err
	}
	return r.summarize()
}

// summarize writes the reports, prints the table, and returns the error of failed
// cases.
func (r *session) summarize() error {
	suite := junit.Suite{Name: "perigee disagg", Began: r.began}
	all := []judge.Case{}
	failed := 0
	for _, t := range r.tasks {
		if r.outcomes[t] == nil && t.Verdict != "" {
			r.outcomes[t] = r.recorded(t)
		}
		o := r.outcomes[t]
		if o == nil {
			skipped := junit.Case{Name: t.Name, Class: "disagg." + t.Category, Skipped: "not run"}
			suite.Cases = append(suite.Cases, skipped)
			continue
		}
		all = append(all, o.Case)
		test := junit.Case{Name: t.Name, Class: "disagg." + t.Category, Took: o.Ended.Sub(o.Began), Output: o.Detail}
		if o.State == judge.Failed {
			failed++
			test.Failure = strings.Join(o.Reasons, "\n")
		}
		suite.Cases = append(suite.Cases, test)
	}
	if err := junit.Write(cmp.Or(r.JUnit, filepath.Join(r.dir, junitFile)), suite); err != nil {
		return err
	}
	if r.Format.Format == "json" {
		if err := printJSON(r.s.Out, all); err != nil {
			return err
		}
	} else if err := r.printSummary(failed); err != nil {
		return err
	}
	if failed > 0 {
		return fault.New(fault.Threshold, "%d of %s failed", failed, cli.Count(len(r.tasks), "case"))
	}
	return nil
}

// recorded takes a case that the interrupted run has recorded as it stands in its folder.
func (r *session) recorded(t *batch.Task) *outcome {
	c := caseOf(t, func(c *judge.Case) bool { return c.State == t.Verdict })
	if c == nil { // its job was never submitted, or the folder is gone
		text := "recorded before, without figures in " + t.Dir
		if t.Recorded != "" {
			text += ": " + t.Recorded
		}
		o := r.outcomeOf(t)
		o.Began, o.Ended = time.Time{}, time.Time{}
		o.Verdict = judge.NoFigures(text)
		o.State = t.Verdict
		return o
	}
	t.Job.ID, t.Submitted, t.Ended = c.Job, c.Began, c.Ended
	t.Queued = time.Duration(c.QueueS * float64(time.Second))
	return &outcome{Case: *c, kept: true}
}

func (r *session) printSummary(failed int) error {
	t := taskTable(r.tasks, func(t *batch.Task) (string, string) {
		o := r.outcomes[t]
		switch {
		case o == nil:
			return "not run", ""
		case len(o.Reasons) > 0:
			return o.State, firstOf(o.Reasons, "reason")
		case len(o.Warnings) > 0:
			return o.State, "warning: " + firstOf(o.Warnings, "warning")
		}
		return o.State, ""
	})
	if err := t.WriteText(r.s.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.s.Out, "\n%s, %d failed; results in %s\n", cli.Count(len(r.tasks), "case"), failed, r.dir)
	return err
}

// firstOf is the first of some sentences, with how many more there are.
func firstOf(list []string, what string) string {
	first, _, _ := strings.Cut(list[0], "\n")
	if n := len(list) - 1; n > 0 {
		return fmt.Sprintf("%s (and %s)", first, cli.Count(n, "more "+what))
	}
	return list[0]
}

// taskTable lists tasks with their job and times.
func taskTable(tasks []*batch.Task, state func(*batch.Task) (state, remark string)) *sheet.Sheet {
	t := sheet.New("", "", "|Case", "|Job", "|State", "Queued (s) %.1f", "Run (s) %.1f", "|Remark")
	for _, task := range tasks {
		word, remark := state(task)
		var job, queued, ran, note any
		if task.Job.ID != "" {
			job = task.Job.ID
			end := task.Ended
			if end.IsZero() {
				end = time.Now()
			}
			queued, ran = task.Queued.Seconds(), max(0, end.Sub(task.Submitted)-task.Queued).Seconds()
		}
		if remark != "" {
			// The rest of it stands in the log and in the error stream.
			first, _, more := strings.Cut(remark, "\n")
			if note = first; more {
				note = first + " ..."
			}
		}
		t.AddRow(task.Name, job, word, queued, ran, note)
	}
	return t
}
