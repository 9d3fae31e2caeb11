package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/stats"
	"perigee/internal/serving/given"
	"perigee/internal/serving/runs"
)

// benchmarks compares serving benchmarks, such as two releases of a sweep, level by level.
func (c *Cmd) benchmarks(sides [2][]string) (*Report, error) {
	err := given.Serving.Refuse(c.Old, given.Useless("--metric", c.Metric != "latency_ms"),
		given.Useless("--pairs", c.Pairs != "auto"))
	if err != nil {
		return nil, err
	}
	r := &Report{Options: Options{Alpha: c.Alpha}, Sides: [2]string{c.Old, c.New}}
	var levels []*runs.LoadLevel
	doubts := runs.Doubts{AllowImplausible: c.Force}
	if c.Force {
		doubts.MaxFailed = 100
	}
	for side, paths := range sides {
		kept := 0
		for _, path := range paths {
			got, err := runs.Load([]string{path}, runs.DefaultLoadOptions())
			if err != nil {
				return nil, err
			}
			for _, f := range got.Skipped {
				r.Remarks = append(r.Remarks, "skipped "+cli.Shortened(f.Err.Error()))
			}
			doubts.Mark(got.Runs)
			for _, run := range got.Runs {
				if err := cmp.Or(cli.NotOver(c.Page, run.File), cli.NotOver(c.JUnit, run.File, c.Page)); err != nil {
					return nil, err
				}
				switch {
				case run.Transfer:
					r.Remarks = append(r.Remarks, run.File+": a result of perigee, which is no serving benchmark, is left out")
				case len(run.OffFront) > 0:
					r.Remarks = append(r.Remarks,
						fmt.Sprintf("%s is left out (--force counts it): %s", run.File, run.OffFront[0]))
				default:
					levels, kept = runs.Place(levels, side, path, run), kept+1
				}
			}
		}
		if kept == 0 {
			return nil, fault.New(fault.Input, "%s: no serving benchmark can be compared", strings.Join(paths, ", ")).
				WithHint("perigee sweep report says of each file what was read and why it may be doubtful")
		}
	}
	runs.SortLevels(levels)
	return r, r.compareLevels(levels)
}

// columnsOfLevels are the columns of a level that are compared, behind the rate of output tokens.
var columnsOfLevels = []string{"Request_Throughput", "Mean_TTFT_ms", "P99_TTFT_ms", "Mean_TPOT_ms", "Mean_ITL_ms",
	"Mean_E2EL_ms"}

// compareLevels fills the report with the rows of all levels, and judges them together.
func (r *Report) compareLevels(levels []*runs.LoadLevel) error {
	var only [2][]string
	lead := "Thpt_per_GPU"
	both := slices.DeleteFunc(slices.Clone(levels), func(l *runs.LoadLevel) bool {
		r.OldN, r.NewN = max(r.OldN, len(l.Runs[0])), max(r.NewN, len(l.Runs[1]))
		for side := range l.Runs {
			if len(l.Runs[1-side]) == 0 {
				only[side] = append(only[side], l.String())
			}
			for _, run := range l.Runs[side] {
				if math.IsNaN(run.ThptPerGPU()) {
					lead = "Output_Token_Throughput"
				}
			}
		}
		return len(l.Runs[0]) == 0 || len(l.Runs[1]) == 0
	})
	if len(both) == 0 {
		return fault.New(fault.Input, "no level of a configuration is on both sides: OLD has %s, NEW has %s",
			firstOf(only[0]), firstOf(only[1])).WithHint("levels pair by folder below OLD and NEW, load, model and lengths")
	}
	for side, name := range []string{"OLD", "NEW"} {
		if n := len(only[side]); n > 0 {
			r.Remarks = append(r.Remarks, fmt.Sprintf("only in %s: %s", name, firstOf(only[side])))
		}
	}
	r.Options.Metric = lead
	for _, name := range append([]string{lead}, columnsOfLevels...) {
		column, err := runs.Find(name)
		if err != nil {
			return err
		}
		for _, l := range both {
			if row := r.rowOf(l, column); row.OldN+row.NewN > 0 {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	r.Judged = stats.SmallestP(r.OldN, r.NewN) <= r.Options.Alpha
	r.addMeans()
	r.judge(make([]float64, r.OldN+r.NewN))
	for i := range r.Rows {
		switch row := &r.Rows[i]; {
		case row.OldN == 1 && row.NewN == 1:
			row.Warning = "one run each"
		case min(row.OldN, row.NewN) == 1: // nothing says how much the runs of this side scatter
			row.Low, row.High = math.NaN(), math.NaN()
		}
	}
	if !r.Judged {
		r.Advice = fmt.Sprintf("%s against %s of a level: too few for a verdict at alpha %g, which takes %d on each side: "+
			"repeat the benchmark, with the files of all repeats in the folder of the configuration", cli.Count(r.OldN, "run"),
			cli.Count(r.NewN, "run"), r.Options.Alpha, RunsNeeded(r.Options.Alpha))
	}
	r.Headline = r.sayLevels(len(both))
	return nil
}

// firstOf names the first of some things.
func firstOf(list []string) string { return strings.Join(plaintext.First(list, 3, "%d more"), ", ") }

// rowOf compares a level in a column.
func (r *Report) rowOf(l *runs.LoadLevel, column *runs.Column) Row {
	nan := math.NaN()
	row := Row{Metric: column.Name, Pattern: -1, Name: l.String(), Sender: -1, Receiver: -1, Low: nan, High: nan,
		P: nan, Q: nan, RankP: nan, Verdict: Same, better: column.Better, of: levelRow}
	var values [2][]float64
	for side, n := range []int{r.OldN, r.NewN} {
		values[side] = slices.Repeat([]float64{nan}, n)
		for i, run := range l.Runs[side] {
			values[side][i] = column.Of(run).Value()
		}
	}
	row.fill(values[0], values[1])
	return row
}

// levelRow marks the rows of levels of serving benchmarks, and their means.
const levelRow = "levels"

// sayLevels says in a sentence how many levels are faster and slower, by their rates of output tokens, and which has
// changed most.
func (r *Report) sayLevels(levels int) string {
	faster, slower, unlike := 0, 0, ""
	var most *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Metric != r.Options.Metric || row.Of > 0 || math.IsNaN(row.Change) {
			continue
		}
		switch {
		case r.Judged && !row.changed():
		case row.Change > 0:
			faster++
		case row.Change < 0:
			slower++
		}
		if most == nil || math.Abs(math.Log1p(row.Change)) > math.Abs(math.Log1p(most.Change)) {
			most = row
		}
	}
	if rest := levels - faster - slower; rest > 0 {
		unlike = fmt.Sprintf(", %d without a change that is shown", rest)
	}
	text := fmt.Sprintf("%s on both sides: %d faster, %d slower%s, by %s", cli.Count(levels, "level"), faster, slower,
		unlike, r.Options.Metric)
	if most == nil {
		return text
	}
	text += fmt.Sprintf("; the largest change is that of %s: %s -> %s, %s", most.Name, most.amount(most.Old),
		most.amount(most.New), most.moved())
	switch {
	case most.Warning != "":
		text += " (" + most.Warning + ")"
	case !math.IsNaN(most.Low):
		text += " (" + r.interval(most) + ")"
	}
	return text
}
