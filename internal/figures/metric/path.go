package metric

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/result"
)

// pathName begins a threshold on what moved the bytes, such as path{op="READ"} == "rc". A scenario's metric of this
// name has a dot behind it.
const pathName = "path"

// pathColumns are the conditions that such a threshold takes.
var pathColumns = []string{"op", "local", "remote", "reach", "transport", "device", "how"}

// path reads the comparison of a threshold on what moved the bytes.
func (t *Threshold) path(s *expr.Scanner) {
	for _, op := range []string{"==", "!=", "=~", "!~"} {
		if t.Op == "" && s.Accept(op) {
			t.Op = op
		}
	}
	if t.Op == "" {
		s.Fail(s.Next(), `==, !=, =~ or !~ and a transport, as in path == "rc"`)
	}
	at := s.Next()
	text := s.Quoted(`a transport in quotes, as in path == "rc"`)
	if _, err := regexp.Compile(text); err != nil && strings.Contains(t.Op, "~") {
		s.Wrong(at, "%v", err)
	}
	s.End("the end: a path is known and judged at the end of a run")
	t.Transport = &text
	if t.Where == nil {
		return
	}
	for _, name := range t.Where.Columns() {
		if !slices.Contains(pathColumns, name) {
			s.Wrong(at, "a path has no column %q: want %s", name, strings.Join(pathColumns, ", "))
		}
	}
}

// CheckFor refuses a threshold on a metric that a scenario with these own metrics does not have.
func (t Threshold) CheckFor(own []result.MetricDef) error {
	if t.Transport != nil {
		return nil
	}
	err := Check(t.Metric, own)
	if err != nil && t.Metric == pathName {
		return fault.New(fault.Usage, `path takes no aggregate: wanted a transport, as in path == "cma"`).
			WithHint("see docs/thresholds.md")
	}
	return err
}

// judgePath holds a threshold against the paths of a result: all that moved something and that the condition chooses
// have to fulfil it. Where not all is known it is not known to hold.
func (t Threshold) judgePath(d *result.Document) Outcome {
	o := Outcome{Threshold: t, Value: math.NaN()}
	if d.Paths == nil {
		o.Others = ": the result does not say what moved the bytes"
		return o
	}
	counts, total := map[string]int64{}, int64(0)
	o.Passed = d.Paths.Unknown == ""
	for _, u := range d.Paths.Uses {
		labels := result.Labels{"op": u.Op, "local": u.Local, "remote": u.Remote, "reach": u.Reach,
			"transport": u.Transport, "device": u.Device, "how": u.How}
		sample := Sample{Pattern: -1, Rank: -1, Peer: -1, Labels: labels}
		if t.Where != nil && !t.Where.Match(SampleRow{Doc: d, Sample: sample}) {
			continue
		}
		o.Samples++
		o.Passed = o.Passed && u.Transport != "unknown" && t.admitsPath(u)
		counts[u.Transport] += u.Count
		total += u.Count
	}
	var found []string
	for name, n := range counts {
		found = append(found, fmt.Sprintf("%s %.3g %%", name, 100*float64(n)/float64(total)))
	}
	slices.Sort(found)
	o.Found = strings.Join(found, ", ")
	switch {
	case d.Paths.Unknown != "":
		o.Note = "not all is known: " + d.Paths.Unknown
	case o.Samples == 0:
		o.Passed, o.Others = false, ": no path of the result is chosen"
	}
	return o
}

// admitsPath reports whether one path fulfils the threshold.
func (t Threshold) admitsPath(u result.PathUse) bool {
	switch t.Op {
	case "==":
		return u.Only(*t.Transport)
	case "!=":
		return !u.Over(*t.Transport)
	}
	for name := range strings.SplitSeq(u.Transport, ", ") {
		if found, _ := regexp.MatchString(*t.Transport, name); found != (t.Op == "=~") {
			return false
		}
	}
	return true
}
