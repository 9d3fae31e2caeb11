package disagg

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/serving/judge"
	"perigee/tools/disagg/report"
)

// CompareCmd is `perigee disagg compare`.
type CompareCmd struct {
	Old    string            `arg:"" help:"Output folder, CSV file or serving benchmarks before."`
	New    string            `arg:"" help:"Output folder, CSV file or serving benchmarks after."`
	Alpha  float64           `default:"0.05" placeholder:"P" help:"Level of significance: how often, at most, a comparison may show any change where there is none [0.05]."`
	Better map[string]string `placeholder:"METRIC=WHEN" help:"Which values of a metric are good: lower or higher. Names of rates and of times say it by themselves."`
	FailOn string            `name:"fail-on" enum:"worse,any,none" default:"worse" help:"Exit with code 13 if a figure is worse, if any has changed, or never: worse, any or none."`
	Format string            `enum:"text,csv,json" default:"text" help:"text, csv or json."`
}

// Run compares the figures of two runs.
func (c *CompareCmd) Run(s cli.Streams) (err error) {
	if err := checkAlpha(c.Alpha); err != nil {
		return err
	}
	var sides [2][]report.Series
	var cases [2][]judge.Case
	var rows [2][]report.Row
	for i, path := range []string{c.Old, c.New} {
		if rows[i], cases[i], err = readAll(s.Err, []string{path}); err != nil {
			return err
		}
	}
	if err := c.leaveOutCopies(s.Err, &rows, &cases); err != nil {
		return err
	}
	for i := range sides {
		sides[i] = report.Collect(rows[i])
	}
	if err := warnOfMixtures(s.Err, slices.Concat(cases[0], cases[1])); err != nil {
		return err
	}
	declared, err := c.directions(slices.Concat(sides[0], sides[1]))
	if err != nil {
		return err
	}
	changes := report.Compare(sides[0], sides[1], c.Alpha, declared)
	broken, mended := failing(cases[0], rows[0], cases[1]), failing(cases[1], rows[1], cases[0])
	if len(changes) == 0 && len(cases[0])+len(cases[1]) == 0 {
		return fault.New(fault.Input, "there are no figures in %s, nor in %s, and no cases", c.Old, c.New)
	}
	if err := c.print(s, changes, broken); err != nil {
		return err
	}
	count := map[string]int{}
	for _, ch := range changes {
		count[ch.Verdict]++
	}
	worse, better, differ := count[report.Worse], count[report.Better], count[report.Differs]
	if c.FailOn == "none" || worse+len(broken) == 0 && (c.FailOn == "worse" || better+differ+len(mended) == 0) {
		return nil
	}
	text := fmt.Sprintf("%s worse, %d better", cli.Count(worse, "figure"), better)
	if differ > 0 {
		text += fmt.Sprintf(", %d different", differ)
	}
	for _, list := range []struct {
		ids       []string
		old, next string
	}{{broken, "passed", "fail"}, {mended, "failed", "pass"}} {
		if len(list.ids) > 0 {
			text += fmt.Sprintf("; %s in OLD and %s in NEW: %s", list.old, list.next,
				plaintext.Escape(cli.Shortened(strings.Join(list.ids, ", "))))
		}
	}
	return fault.New(fault.Worse, "%s", text)
}

// leaveOutCopies takes the runs out of NEW that OLD has: a stored table and the output folder that has gone on since
// hold the same runs, which would speak for both sides.
func (c *CompareCmd) leaveOutCopies(w io.Writer, rows *[2][]report.Row, cases *[2][]judge.Case) error {
	type run struct {
		id    string
		start int64
	}
	of := func(r report.Row) run { return run{idOf(r), r.Start.Unix()} }
	old := origins{}
	for _, r := range rows[0] {
		old[bare(r)] = c.Old
	}
	copied := copies(rows[1], old, of)
	if len(copied) == 0 {
		return nil
	}
	left := map[string]bool{} // runs that started together have not lasted equally long
	rows[1] = slices.DeleteFunc(rows[1], func(r report.Row) bool {
		if copied[of(r)] {
			left[fmt.Sprint(r.Test, r.Start.Unix(), r.Took)] = true
		}
		return copied[of(r)]
	})
	type job struct {
		id, job string
		began   int64
	}
	jobOf := func(k *judge.Case) job { return job{k.ID, k.Job, k.Began.UnixNano()} }
	jobs := map[job]bool{}
	for i := range cases[0] {
		jobs[jobOf(&cases[0][i])] = true
	}
	cases[1] = slices.DeleteFunc(cases[1], func(k judge.Case) bool {
		return copied[run{k.ID, k.Began.Unix()}] || jobs[jobOf(&k)]
	})
	if len(rows[1])+len(cases[1]) == 0 {
		return fault.New(fault.Input, "every run of %s stands in %s, too: there is nothing to compare", c.New, c.Old)
	}
	_, err := fmt.Fprintf(w, "warning: %s of %s stand in %s, too, and count there only\n", cli.Count(len(left), "run"),
		plaintext.Escape(c.New), plaintext.Escape(c.Old))
	return err
}

// idOf is the id of a row's case: the test is function[id].
func idOf(r report.Row) string {
	_, id, _ := strings.Cut(strings.TrimSuffix(r.Test, "]"), "[")
	return id
}

// failing lists the cases that have passed in some run of a, whose rows are of passed benchmarks, and failed in all
// runs of b.
func failing(a []judge.Case, rows []report.Row, b []judge.Case) (ids []string) {
	passed, failed := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		passed[idOf(r)] = true
	}
	for _, c := range a {
		passed[c.ID] = passed[c.ID] || c.State == judge.Passed
	}
	for _, c := range b {
		before, known := failed[c.ID]
		failed[c.ID] = (before || !known) && c.State == judge.Failed
	}
	for id := range failed {
		if failed[id] && passed[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// directions are those of --better.
func (c *CompareCmd) directions(series []report.Series) (map[string]report.Direction, error) {
	declared := map[string]report.Direction{}
	for _, metric := range slices.Sorted(maps.Keys(c.Better)) {
		direction := report.Direction(c.Better[metric])
		if direction != report.Lower && direction != report.Higher {
			return nil, fault.New(fault.Usage, "--better: wanted %s=lower or %[1]s=higher, got %.40q", cli.Shortened(metric), c.Better[metric])
		}
		if !slices.ContainsFunc(series, func(s report.Series) bool { return s.Metric == metric }) {
			return nil, fault.New(fault.Usage, "--better: there is no metric %s", cli.Shortened(metric))
		}
		declared[metric] = direction
	}
	return declared, nil
}

func (c *CompareCmd) print(s cli.Streams, changes []report.Change, broken []string) error {
	t := sheet.New("", "", "|Test", "Concurrency", "|Metric", "Old %.2f", "New %.2f", "Ratio %.3f", "Low %.3f",
		"High %.3f", "p %.3g", "Old runs", "New runs", "|Verdict")
	few := 0
	var unknown []string // metrics
	for _, ch := range changes {
		if ch.Verdict == report.TooFew {
			few++
		}
		if ch.Verdict == report.Differs && !slices.Contains(unknown, ch.Metric) {
			unknown = append(unknown, ch.Metric)
		}
		t.AddRow(ch.Test, ch.Concurrency, ch.Metric, ch.OldMedian, ch.NewMedian, ch.Ratio, ch.Low, ch.High, ch.P,
			ch.Old, ch.New, ch.Verdict)
	}
	var err error
	switch c.Format {
	case "csv":
		err = t.WriteCSV(s.Out)
	case "json":
		err = t.WriteJSON(s.Out)
	default:
		if err = t.WriteText(s.Out); err == nil && len(broken) > 0 {
			_, err = fmt.Fprintf(s.Out, "\nPassed in OLD and fail in NEW: %s\n",
				plaintext.Escape(cli.Shortened(strings.Join(broken, ", "))))
		}
		if err == nil && few > 0 {
			_, err = fmt.Fprintf(s.Out, "\n%s with too few runs to distinguish any change from chance: 4 runs on each side are enough (--repeat 4)\n", cli.Count(few, "figure"))
		}
		if err == nil && len(unknown) > 0 {
			_, err = fmt.Fprintf(s.Out, "\nWhether high or low values of %s are good, the name does not say: --better NAME=higher or NAME=lower does\n",
				plaintext.Escape(cli.Shortened(strings.Join(unknown, ", "))))
		}
	}
	return err
}
