package run

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// A violated threshold fails its case, and any other failure is an error of the run, whose thresholds are not judged.
func TestJUnitSuite(t *testing.T) {
	value, yes, no := 2.5, true, false
	for name, c := range map[string]struct {
		failure error
		of      result.Threshold
		want    string // of both cases: error, failure, skipped, output
	}{
		"passed":   {nil, result.Threshold{Passed: &yes, Value: &value, Samples: 1, Note: "no runs"}, "; , , , no runs"},
		"violated": {fault.New(fault.Threshold, "x"), result.Threshold{Passed: &no, Value: &value, Samples: 3}, "; , a < 1 is violated: it is 2.5 over 3 samples, , "},
		"none":     {fault.New(fault.Threshold, "x"), result.Threshold{Passed: &no}, "; , a < 1 is violated: it is no value over 0 samples, , "},
		"worse":    {fault.New(fault.Worse, "x"), result.Threshold{Passed: &yes, Value: &value}, "; , , , "},
		"broken":   {errors.New("boom"), result.Threshold{}, "boom; , , not judged: the run has not ended, "},
	} {
		c.of.Threshold = "a < 1"
		s := JUnitSuite("perigee run x", time.Now(), []result.Threshold{c.of}, c.failure)
		job, limit := s.Cases[0], s.Cases[1]
		got := job.Error + "; " + strings.Join([]string{limit.Error, limit.Failure, limit.Skipped, limit.Output}, ", ")
		if diff := cmp.Diff(c.want, got); diff != "" || job.Failure != "" || limit.Name != "a < 1" || limit.Class != "perigee run x.threshold" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
