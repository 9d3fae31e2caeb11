package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/junit"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// Options steer a comparison.
type Options struct {
	Alpha  float64 // level of significance, above 0 and below 1
	Metric string  // of patterns: one that has a sample for each run
	Pairs  bool    // compare the messages of each pair of ranks, too
	Force  bool    // count runs that did not end
	Files  Files   // of the results, where they are of files
}

// Files are where results were read from.
type Files map[*result.Document]string

// The verdicts.
const (
	Worse   = "worse"
	Better  = "better"
	Differs = "differs" // where neither direction is better
	Same    = "~"       // no difference was found, which does not prove that there is none
)

// Row compares one thing.
type Row struct {
	Metric  string
	Pattern int    // -1 for a scenario's own metric, for block transfers and for a geometric mean
	Name    string // of the pattern; the labels of a scenario's own metric
	Phase   string
	// Sender and Receiver are the ranks of a pair; -1 where the row is of a whole pattern.
	Sender, Receiver int
	// Block is the bytes of a block, Batch the blocks at a time; 0 where the row is not of block transfers.
	Block, Batch int64
	// Of is the number of rows that this one is the geometric mean of; 0 where it is none.
	Of         int
	of         string // what these rows are: patterns, sizes or series; levels also of one that is no mean
	OldN, NewN int    // runs
	Old, New   float64
	// Change is New/Old - 1; Low and High are the interval of the change. NaN where there is none.
	Change, Low, High float64
	// P is of the test on sizes, Q is P corrected for all rows, RankP of the test on ranks alone. NaN where there is
	// none.
	P, Q, RankP float64
	Verdict     string
	Warning     string // why there is no verdict, or what to think of it
	better      expr.Better
	values      []float64 // one of each run, the old ones in front; NaN where a run has none
	replay      bool      // it is of a trace that was replayed
	log         bool      // the test is on the logarithms of the values
	control     string    // of contention: what to think of the groups that it is against
}

// Label names what a row is about.
func (r Row) Label() string {
	if r.Of > 0 {
		text := fmt.Sprintf("geometric mean of %d %s", r.Of, r.of)
		if r.Phase != "" {
			text += ", phase " + r.Phase
		}
		return text + ", " + r.Metric
	}
	if r.of == levelRow {
		return r.Name + ", " + r.Metric
	}
	if r.Block > 0 {
		return fmt.Sprintf("%d x %d bytes, %s", r.Batch, r.Block, r.Metric)
	}
	if r.Pattern < 0 && r.Sender >= 0 {
		return fmt.Sprintf("%s, %d -> %d", r.Metric, r.Sender, r.Receiver)
	}
	if r.Pattern < 0 {
		return r.Metric + r.Name
	}
	text := fmt.Sprint("pattern ", r.Pattern)
	if strings.HasPrefix(r.Name, text) {
		text = r.Name
	} else if r.Name != "" {
		text += " (" + r.Name + ")"
	}
	if r.Sender >= 0 {
		text += fmt.Sprintf(", %d -> %d", r.Sender, r.Receiver)
	}
	if r.Phase != "" {
		text += ", phase " + r.Phase
	}
	return text + ", " + r.Metric
}

// Report is the outcome of a comparison.
type Report struct {
	Options     Options
	What        []string  // was measured, in words; OLD and NEW where they differ
	OldN, NewN  int       // runs of each side
	Judged      bool      // there are enough runs for verdicts
	unlike      bool      // more runs would give none either
	Headline    string    // the settings that differ, or that none does
	Differences []string  // the settings that differ, of what was measured
	Paths       []string  // changed, in words, which may explain a change
	Beside      []Beside  // what both sides have seen beside the times
	Remarks     []string  // what else differs, and may explain a change
	Advice      string    // what would show what this comparison cannot; empty if Judged
	Findings    []string  // of contention that changed, in words; empty where no change is shown
	Rows        []Row     // patterns, geometric means, pairs, block transfers, the scenario's own metrics, contention
	Sides       [2]string // OLD and NEW, as a page calls them
	// contentionRows is how many rows are of contention.
	contentionRows int
	shares         string // of messages that overlapped on each side; empty unless they differ strongly
	crowded        string // why times do not show what traffic costs, on either side
	// numbers are those of each result's patterns, the old results in front, and names the names of the numbers.
	numbers [][]int
	names   []string
}

// Count returns how many rows have a verdict.
func (r *Report) Count(verdict string) (n int) {
	for _, row := range r.Rows {
		if row.Verdict == verdict {
			n++
		}
	}
	return n
}

// Err is the error, of the kind Worse, of a comparison that must not find what it has found.
// on is worse, any or none.
func (r *Report) Err(on string) error {
	n, text := r.bad(on, func(Row) bool { return true })
	if n == 0 {
		return nil
	}
	return fault.New(fault.Worse, "%s", text)
}

// bad counts the rows of a kind that must not be as they are, and names the first of them, the main row before others.
func (r *Report) bad(on string, of func(Row) bool) (n int, text string) {
	var bad []string
	main, tested := r.Main(), 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if !of(*row) {
			continue
		}
		if row.Verdict != "" {
			tested++
		}
		switch text := row.Label() + " " + row.moved(); {
		case row.Verdict != Worse && !(row.changed() && on == "any") || on == "none":
		case row == main:
			bad = slices.Insert(bad, 0, text)
		default:
			bad = append(bad, text)
		}
	}
	n = len(bad)
	is := "are"
	if n == 1 {
		is = "is"
	}
	word := map[string]string{"worse": "worse", "any": "not as before"}[on]
	bad = plaintext.First(bad, 3, "and %d more")
	return n, fmt.Sprintf("%d of %d comparisons %s %s: %s", n, tested, is, word, strings.Join(bad, "; "))
}

// suiteName names comparisons among tests.
const suiteName = "perigee.compare"

// cases are the kinds of rows as tests, which fail as on says.
func (r *Report) cases(on string) (list []junit.Case) {
	for _, k := range kinds {
		if !slices.ContainsFunc(r.Rows, k.has) {
			continue
		}
		c := junit.Case{Name: k.title, Class: suiteName, Output: r.Headline}
		if !r.Judged {
			c.Skipped = r.Advice
		} else if n, text := r.bad(on, k.has); n > 0 {
			c.Failure = text
		}
		list = append(list, c)
	}
	return list
}

// changed reports whether a change was found.
func (r Row) changed() bool { return r.Verdict != "" && r.Verdict != Same }

// moved says by how much a row has changed.
func (r Row) moved() string {
	if math.IsNaN(r.Change) {
		return fmt.Sprintf("%.6g -> %.6g", r.Old, r.New)
	}
	return fmt.Sprintf("%+.1f%%", 100*r.Change)
}

// Compare compares two sets of results, one of each run. Where nothing is in both, the error, of the kind Input, says
// what each side has.
func Compare(old, fresh []*result.Document, o Options) (*Report, error) {
	r := &Report{Options: o, Sides: [2]string{described(old), described(fresh)}}
	r.sayDifferences(old, fresh)
	cut := ""
	if !o.Force {
		old, fresh, cut = r.leaveOut(old, fresh, isPartial, "partial", "may have measured another part of the work")
		var late string
		old, fresh, late = r.leaveOut(old, fresh, isInvalid, "invalid (lateness)",
			"replayed another load than the trace's")
		cut, r.unlike = cmp.Or(late, cut), late != ""
	} else if !slices.ContainsFunc(slices.Concat(old, fresh), func(d *result.Document) bool {
		return isPartial(d) || isInvalid(d)
	}) {
		r.Remarks = append(r.Remarks, "--force has no effect: all runs are complete, and any two results are compared")
	} else {
		r.sayForced(old, fresh)
	}
	if other := otherSchedule(slices.Concat(old, fresh)); other != "" {
		cut, r.unlike = strings.TrimPrefix(cut+"; "+other, "; "), true
		r.Remarks = append(r.Remarks, other+", so none is better than the other")
	}
	r.numbers, r.names = result.Pairing(slices.Concat(old, fresh))
	r.OldN, r.NewN = len(old), len(fresh)
	r.What = whatOf(old[0], fresh[0])
	r.observe(old, fresh)
	r.Judged = cut == "" && stats.SmallestP(len(old), len(fresh)) <= o.Alpha
	r.gather(old, fresh, o.Metric)
	if o.Pairs {
		r.gather(old, fresh, "pair_end_ms")
	}
	for _, name := range []string{"block_bw_gb_per_s", "block_latency_us", "batch_p99_us"} {
		if name != o.Metric {
			r.gather(old, fresh, name)
		}
	}
	r.gatherReplays(old, fresh)
	for _, name := range ownMetrics(old, fresh) {
		r.gather(old, fresh, name)
	}
	if err := r.unpaired(old); err != nil {
		return nil, err
	}
	r.addMeans()
	r.addContention(old, fresh)
	r.judge(timesOf(old, fresh))
	r.sayContention()
	if cut != "" {
		r.Advice = cut
	} else if !r.Judged {
		n := RunsNeeded(o.Alpha)
		r.Advice = fmt.Sprintf("%s against %s: too few for a verdict at alpha %g, which takes %d on each side",
			cli.Count(len(old), "run"), cli.Count(len(fresh), "run"), o.Alpha, n)
	}
	return r, nil
}

func isPartial(d *result.Document) bool { return d.Status != result.Complete }

// leaveOut takes runs that do not count out of both sides: what words they are, and why. Of a side that has no other
// they stay, for the figures alone, and why says that there is no verdict.
func (r *Report) leaveOut(old, fresh []*result.Document, out func(*result.Document) bool, words, because string) (
	_, _ []*result.Document, why string) {
	sides := [][]*result.Document{old, fresh}
	var all []string
	for i, name := range []string{"OLD", "NEW"} {
		complete := slices.DeleteFunc(slices.Clone(sides[i]), out)
		switch n := len(sides[i]) - len(complete); {
		case n == 0:
		case len(complete) == 0:
			all = append(all, name)
		default:
			r.Remarks = append(r.Remarks, fmt.Sprintf("%s of %s left out: %s", cli.Count(n, "run"), name, words))
			sides[i] = complete
		}
	}
	if len(all) > 0 {
		why = "all runs of " + strings.Join(all, " and of ") + " are " + words + ", and " + because
	}
	return sides[0], sides[1], why
}

// RunsNeeded is the least number of runs on each side with which a verdict is possible.
func RunsNeeded(alpha float64) int {
	n := 2
	for stats.SmallestP(n, n) > alpha {
		n++
	}
	return n
}

// ownMetrics are the names of the metrics that scenarios declared.
func ownMetrics(old, fresh []*result.Document) (names []string) {
	seen := map[string]bool{}
	for _, d := range slices.Concat(old, fresh) {
		for _, m := range d.Metrics {
			if !seen[m.Name] {
				seen[m.Name] = true
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// timesOf is when each run began, in seconds.
func timesOf(old, fresh []*result.Document) (list []float64) {
	for _, d := range slices.Concat(old, fresh) {
		list = append(list, float64(d.Started.UnixMilli())/1e3)
	}
	return list
}

// gather adds the rows of a metric.
func (r *Report) gather(old, fresh []*result.Document, name string) {
	better := betterOf(name, old[0], fresh[0])
	r.each(name, old, fresh, func(list []*gathered) {
		r.Rows = slices.Grow(r.Rows, len(list))
		for i, g := range list {
			row := newRow(g)
			row.Metric, row.better = name, better
			if row.Pattern >= 0 {
				row.Name = r.names[row.Pattern]
			}
			r.Rows = append(r.Rows, row)
			list[i] = nil
		}
	})
}

func newRow(g *gathered) Row {
	nan := math.NaN()
	row := Row{
		Name: g.key.labels, Pattern: g.key.pattern, Phase: g.key.phase, Sender: g.key.sender, Receiver: g.key.receiver,
		Block: g.key.block, Batch: g.key.batch, Low: nan, High: nan, P: nan, Q: nan, RankP: nan, Verdict: Same,
	}
	old, fresh := medians(g.old), medians(g.fresh)
	row.fill(old, fresh)
	return row
}

// fill sets what follows from the values of the runs alone.
func (r *Row) fill(old, fresh []float64) {
	r.values = slices.Concat(old, fresh)
	x, y := present(old), present(fresh)
	r.OldN, r.NewN = len(x), len(y)
	r.Old, r.New, r.Change = stats.Median(x), stats.Median(y), math.NaN()
	if r.Old > 0 {
		r.Change = r.New/r.Old - 1
	}
	r.log = !slices.ContainsFunc(r.values, func(v float64) bool { return v <= 0 || math.IsInf(v, 0) })
}

func present(list []float64) []float64 { return slices.DeleteFunc(slices.Clone(list), math.IsNaN) }

// medians returns one number for each run; NaN for a run without samples.
func medians(runs [][]float64) []float64 {
	list := make([]float64, len(runs))
	for i, run := range runs {
		list[i] = stats.Median(run)
	}
	return list
}

// tested are the values on the scale on which they are tested.
func (r *Row) tested() []float64 {
	if !r.log {
		return r.values
	}
	logs := make([]float64, len(r.values))
	for i, v := range r.values {
		logs[i] = math.Log(v)
	}
	return logs
}

// judge tests all rows together and gives verdicts. times is when each run began.
func (r *Report) judge(times []float64) {
	rows := make([]stats.Quantity, len(r.Rows))
	kinds := map[string]int{}
	for i := range r.Rows {
		name := fmt.Sprint(r.Rows[i].Metric, r.Rows[i].Of > 0)
		if _, ok := kinds[name]; !ok {
			kinds[name] = len(kinds)
		}
		rows[i] = stats.Quantity{Values: r.Rows[i].tested(), Kind: kinds[name]}
	}
	common := r.common(rows)
	for i, o := range stats.CompareRuns(rows, r.OldN, r.Options.Alpha) {
		row := &r.Rows[i]
		if row.log {
			row.Low, row.High = math.Expm1(o.Low), math.Expm1(o.High)
		}
		if r.Judged {
			row.P, row.Q = o.P, o.Adjusted
			row.RankP = stats.MannWhitney(present(row.values[:r.OldN]), present(row.values[r.OldN:])).P
		}
		row.Verdict, row.Warning = r.verdict(row, o.Difference, rows[i].Values, common[i], times)
	}
}

// common returns for each row the mean of all complete rows of its kind, which a machine that gets slower makes
// slower together; nil where a row is not tested on logarithms.
func (r *Report) common(rows []stats.Quantity) [][]float64 {
	sums, counts := map[int][]float64{}, map[int]float64{}
	for i, row := range rows {
		if !r.Rows[i].log || slices.ContainsFunc(row.Values, math.IsNaN) {
			continue
		}
		if sums[row.Kind] == nil {
			sums[row.Kind] = make([]float64, len(row.Values))
		}
		counts[row.Kind]++
		for k, v := range row.Values {
			sums[row.Kind][k] += v
		}
	}
	for kind, sum := range sums {
		for k := range sum {
			sum[k] /= counts[kind]
		}
	}
	list := make([][]float64, len(rows))
	for i, row := range rows {
		if r.Rows[i].log {
			list[i] = sums[row.Kind]
		}
	}
	return list
}

// verdict of a row; difference is that of the means on the scale of the test, and values are the runs on this
// scale; common are the means of all rows of the metric.
func (r *Report) verdict(row *Row, difference float64, values, common, times []float64) (verdict, warning string) {
	alpha := r.Options.Alpha
	switch {
	case row.OldN == 0:
		return "", "only in NEW"
	case row.NewN == 0:
		return "", "only in OLD"
	case !r.Judged:
		return "", ""
	case math.IsNaN(row.Q):
		return "", "too few runs have it"
	case row.Q > alpha && row.P <= alpha:
		return Same, "not significant among so many rows"
	case row.Q > alpha:
		return Same, ""
	case (row.New-row.Old)*difference <= 0:
		return Same, "the medians of the runs do not differ as their means do"
	}
	if change, explains := stats.Drift(values, common, times, r.OldN); explains {
		return Same, row.drifts(change)
	}
	if row.Metric == contentionMetric {
		return r.verdictOfContention(row)
	}
	rounding := 1e-9 * (1 + row.Change) // of runs that all measured the same
	if row.Change < row.Low-rounding || row.Change > row.High+rounding {
		warning = "the medians changed by more or less than the interval of the means: some runs lie apart"
	}
	switch {
	case row.better == expr.Neither:
		return Differs, warning
	case (row.better == expr.Lower) == (difference < 0):
		return Better, warning
	}
	return Worse, warning
}

func (r *Row) drifts(change float64) string {
	text := fmt.Sprintf("%+.6g", change)
	if r.log {
		text = fmt.Sprintf("%+.1f%%", 100*math.Expm1(change))
	}
	return "drift: a trend within each side, which would be " + text + " from the first run to the last, may explain this change"
}

// addMeans adds the geometric means of the rows of a metric in each phase, and over all phases but that of runs alone
// where there are several. They are tested like all others.
func (r *Report) addMeans() {
	type group struct{ metric, phase string }
	of, together := map[group][]int{}, map[string][]int{}
	var order []group
	for i, row := range r.Rows {
		if row.Sender >= 0 || !row.log || slices.ContainsFunc(row.values, math.IsNaN) {
			continue
		}
		g := group{row.Metric, row.Phase}
		if of[g] == nil {
			order = append(order, g)
		}
		of[g] = append(of[g], i)
		if row.Phase != result.IsolatedPhase {
			together[row.Metric] = append(together[row.Metric], i)
		}
	}
	after := map[int][]Row{}
	add := func(g group, list []int) {
		if n := len(list); n > 1 {
			after[list[n-1]] = append(after[list[n-1]], r.mean(g.metric, g.phase, list))
		}
	}
	for _, g := range order {
		add(g, of[g])
		if all := together[g.metric]; len(all) > 0 && len(all) > len(of[g]) && all[0] == of[g][0] {
			add(group{g.metric, everyPhase}, all)
		}
	}
	rows := make([]Row, 0, len(r.Rows)+len(order))
	for i, row := range r.Rows {
		rows = append(append(rows, row), after[i]...)
	}
	r.Rows = rows
}

// everyPhase names the phases of a mean over all but that of runs alone.
const everyPhase = "all but isolated"

// mean makes the row of a geometric mean over rows: the mean of logarithms, run by run.
func (r *Report) mean(metric, phase string, rows []int) Row {
	nan := math.NaN()
	first := r.Rows[rows[0]]
	m := Row{
		Metric: metric, Pattern: -1, Name: "geomean", Phase: phase, Sender: -1, Receiver: -1, Of: len(rows),
		Low: nan, High: nan, P: nan, Q: nan, RankP: nan, better: first.better, of: "series",
	}
	switch {
	case first.Pattern >= 0:
		m.of = "patterns"
	case first.Block > 0:
		m.of = "sizes"
	case first.of != "":
		m.of = first.of
	}
	values := make([]float64, r.OldN+r.NewN)
	for _, i := range rows {
		for k, v := range r.Rows[i].tested() {
			values[k] += v / float64(len(rows))
		}
	}
	for k, v := range values {
		values[k] = math.Exp(v)
	}
	m.fill(values[:r.OldN], values[r.OldN:])
	return m
}

// betterOf says in which direction a metric improves.
func betterOf(name string, docs ...*result.Document) expr.Better {
	if def, ok := metric.Find(name); ok {
		return def.Better
	}
	for _, d := range docs {
		for _, m := range d.Metrics {
			if m.Name == name && m.Better != "" {
				return expr.Better(m.Better)
			}
		}
	}
	return expr.Neither
}
