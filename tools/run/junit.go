package run

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/junit"
	"perigee/internal/result"
)

// JUnitSuite is a job as a suite of tests: one for each threshold, and one of the job itself, whose failure is an error
// unless it is the verdict on what was measured.
func JUnitSuite(name string, began time.Time, thresholds []result.Threshold, failure error) junit.Suite {
	job := junit.Case{Name: "the run ends", Class: name, Took: time.Since(began)}
	if kind := fault.KindOf(failure); failure != nil && kind != fault.Threshold && kind != fault.Worse {
		job.Error = failure.Error()
	}
	s := junit.Suite{Name: name, Began: began, Cases: []junit.Case{job}}
	for _, t := range thresholds {
		c := junit.Case{Name: t.Threshold, Class: name + ".threshold", Output: t.Note}
		measured := cmp.Or(t.Found, "no value")
		if t.Value != nil {
			measured = fmt.Sprintf("%.6g", *t.Value)
		}
		switch {
		case t.Passed == nil:
			c.Skipped = "not judged: the run has not ended"
		case !*t.Passed:
			c.Failure = fmt.Sprintf("%s is violated: it is %s over %s", t.Text(), measured, cli.Count(t.Samples, "sample"))
			if t.Note != "" {
				c.Failure += "; " + t.Note
			}
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

// junit writes the file of --junit at rank 0: at the beginning, as of a run that was killed, which then stays if it is,
// and at the end. It returns failure, or why the file could not be written.
func (k *rank) junit(thresholds []result.Threshold, failure error) error {
	if k.flags.Yielding.JUnit == "" || k.world.Rank() > 0 || k.helped {
		return failure
	}
	suites := []junit.Suite{JUnitSuite(k.job.Command, k.began, thresholds, faultOf(failure))}
	if k.job.Suites != nil {
		suites = append(suites, k.job.Suites()...)
	}
	if err := junit.Write(k.flags.Yielding.JUnit, suites...); err != nil && failure == nil {
		return err
	}
	return failure
}

// errGoing is what the file of --junit says until the run has ended.
var errGoing = errors.New("the run is still going on, or was killed")
