package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// accuracyPrefix begins the reasons of a verdict that are about evaluations, and not about the benchmark before them.
const accuracyPrefix = "accuracy: "

// Reference says which score a data set should reach.
type Reference struct {
	Name, Filter string
	Expected     float64
	Unjudged     bool // there is nothing to expect: a score has to be there, and passes nothing
	Test
}

// Test is the hypothesis test that a score is held against. The score's
// difference from the reference is taken as normal with the standard deviation
// sqrt(2*Sigma^2/Samples), both being means of that many samples.
type Test struct {
	Alpha, Beta    float64 // probabilities of a wrong failure and of a missed regression
	Sigma          float64 // standard deviation of one sample
	Samples        int
	HigherIsBetter bool
}

// Judgement holds a score against its threshold.
type Judgement struct {
	Expected  float64 `json:"expected"`  // in percent, or as a fraction where Sigma is
	Actual    float64 `json:"actual"`    // likewise
	Threshold float64 `json:"threshold"` // likewise
	Theta     float64 `json:"theta"`     // smallest regression that is found with the probability 1-beta
	Passed    bool    `json:"passed"`
}

// defaults are the tests of the data sets that TensorRT-LLM knows.
var defaults = map[string]Test{
	"gsm8k":                  {.05, .2, 50, 1319, true},
	"mmlu":                   {.05, .2, 50, 4096, true},
	"gpqa_diamond":           {.05, .2, 50, 198, true},
	"gpqa_diamond_local":     {.05, .2, 50, 198, true},
	"aime25":                 {.05, .2, 50, 30, true},
	"json_mode_eval":         {.05, .2, 50, 100, true},
	"mmmu":                   {.05, .2, 50, 900, true},
	"humaneval":              {.002, .2, 15.08, 164, true},
	"cnn_dailymail":          {.002, .2, 11.06, 512, true},
	"zero_scrolls":           {.002, .2, 6.97, 80, true},
	"slimpajama-6b":          {.01, .2, 4.48, 86, false},
	"passkey_retrieval_64k":  {.5, .2, 0, 20, true},
	"passkey_retrieval_128k": {.5, .2, 0, 20, true},
}

// defaultTest returns the test of a data set by its name in small letters.
func defaultTest(name string) Test {
	if t, ok := defaults[name]; ok {
		return t
	}
	return Test{.05, .2, 50, 1000, true}
}

// quantile is the quantile function of the standard normal distribution.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// Judge holds a score against the reference. Both are brought to one scale: to
// percent where Sigma is above 1, otherwise to fractions.
//
//	scale     = sqrt(2*sigma^2/samples)
//	threshold = expected + z(alpha)*scale, or minus where lower is better
//	theta     = -(z(alpha)+z(beta))*scale
func (r Reference) Judge(value float64) Judgement {
	scale := math.Sqrt(2 * r.Sigma * r.Sigma / float64(r.Samples))
	j := Judgement{Expected: r.onScale(r.Expected), Actual: r.onScale(value),
		Theta: -(quantile(r.Alpha) + quantile(r.Beta)) * scale}
	if r.HigherIsBetter {
		j.Threshold = j.Expected + quantile(r.Alpha)*scale
		j.Passed = j.Actual >= j.Threshold
	} else {
		j.Threshold = j.Expected - quantile(r.Alpha)*scale
		j.Passed = j.Actual <= j.Threshold
	}
	return j
}

// onScale brings a score or reference to the scale of Sigma.
func (r Reference) onScale(x float64) float64 {
	switch percent := r.Sigma > 1; {
	case percent && math.Abs(x) <= 1:
		return 100 * x
	case !percent && math.Abs(x) > 1:
		return x / 100
	}
	return x
}

// accuracy judges every run of the scores, in place: each reference must have its score in every run and, where there
// is something to expect, pass.
func (j *judge) accuracy() {
	j.v.Accuracy = append(j.v.Accuracy, j.e.Scores...)
	scores, references := j.v.Accuracy, j.want.References
	runs := 0
	for _, s := range scores {
		runs = max(runs, s.Run)
	}
	switch {
	case len(references) == 0 && runs > 0:
		j.warn("the scores are not judged: that takes an accuracy or stress case with metadata.accuracy.datasets")
	case len(references) > 0 && runs == 0:
		j.fail(accuracyPrefix + "no table of results in the log")
	}
	for run := 1; run <= runs; run++ {
		n := slices.IndexFunc(scores, func(s Score) bool { return s.Run > run })
		if n < 0 {
			n = len(scores)
		}
		for _, r := range references {
			if why := r.judgeRun(scores[:n], run); why != "" {
				j.fail("%s%s", accuracyPrefix, why)
			}
		}
		scores = scores[n:] // they stand in the order of the runs
	}
	if names := j.want.unjudged(); len(names) > 0 {
		j.warn("not judged, since metadata.accuracy.datasets has no expected_value for it: %s", strings.Join(names, ", "))
	}
}

// judgeRun judges one reference by the scores of one run. It returns what is wrong, "" for nothing.
func (r Reference) judgeRun(scores []Score, run int) string {
	is := func(s Score) bool { return s.Task == r.Name && s.Filter == r.Filter }
	i := slices.IndexFunc(scores, func(s Score) bool { return is(s) && s.Metric == "exact_match" })
	if i < 0 {
		i = slices.IndexFunc(scores, is)
	}
	if i < 0 {
		return fmt.Sprintf("run %d has no result of %s with the filter %s", run, r.Name, cmp.Or(r.Filter, "none"))
	}
	if text := scores[i].Text; text != "" {
		return fmt.Sprintf("run %d of %s: wanted a number for %s, got %q", run, r.Name, scores[i].Metric, text)
	}
	if r.Unjudged {
		return ""
	}
	j := r.Judge(scores[i].Value)
	scores[i].Judgement = &j
	if j.Passed {
		return ""
	}
	side := "below"
	if !r.HigherIsBetter {
		side = "above"
	}
	return fmt.Sprintf("run %d of %s reached %.4f, %s the threshold %.4f (reference %.4f)", run, r.Name, j.Actual, side,
		j.Threshold, j.Expected)
}
