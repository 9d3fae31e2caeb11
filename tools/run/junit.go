package run

import (
	"fmt"
	"os"
	"time"

	"perigee/internal/cli"
	"perigee/internal/fault"
	"perigee/internal/file"
	"perigee/internal/junit"
	"perigee/internal/metric"
	"perigee/internal/result"
)

// checkJUnit makes sure that the file of --junit can be written, and removes that of an earlier job: no file is left
// that says another job has passed.
func checkJUnit(flags Flags, inputs []string) error {
	const flag = "--junit"
	path := flags.Yielding.JUnit
	if path == "" {
		return nil
	}
	if err := cli.NotOver(path, inputs...); err != nil {
		return err
	}
	if flags.Result != "" && file.SamePlace(path, flags.Result) {
		return fault.New(fault.Usage, "%s %s is the file of --result, too", flag, path).WithHint("name another file")
	}
	if err := result.CheckWritable(flag, path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		if err := os.Remove(path); err != nil {
			return fault.New(fault.Output, "%s: %w", flag, err)
		}
	}
	return nil
}

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
		measured := "no value"
		if t.Value != nil {
			measured = fmt.Sprintf("%.6g", *t.Value)
		}
		switch {
		case t.Passed == nil:
			c.Skipped = "not judged: the run has not ended"
		case !*t.Passed:
			c.Failure = fmt.Sprintf("%s is violated: %s of %s", t.Threshold, measured, cli.Count(t.Samples, "sample"))
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

// explainJUnit writes the file of a job that has failed where rank 0 could not.
func (j Job) explainJUnit(path string, began time.Time, failure error, note func(string)) {
	if path == "" {
		return
	}
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := junit.Write(path, JUnitSuite(j.Command, began, unjudged(j.limits), failure)); err != nil {
		note(err.Error())
	}
}

// unjudged are thresholds of which nothing is known.
func unjudged(limits []metric.Threshold) (list []result.Threshold) {
	for _, t := range limits {
		list = append(list, result.Threshold{Threshold: t.String(), From: t.From})
	}
	return list
}

// junit writes the file of --junit at rank 0, once, and returns failure, or why the file could not be written.
func (k *rank) junit(began time.Time, failure error) error {
	if k.flags.Yielding.JUnit == "" || k.world.Rank() > 0 || k.helped {
		return failure
	}
	var thresholds []result.Threshold
	if k.exp != nil {
		thresholds = k.exp.Doc.Thresholds
	}
	suites := []junit.Suite{JUnitSuite(k.job.Command, began, thresholds, faultOf(failure))}
	if k.job.Suites != nil {
		suites = append(suites, k.job.Suites()...)
	}
	if err := junit.Write(k.flags.Yielding.JUnit, suites...); err != nil && failure == nil {
		return err
	}
	return failure
}
