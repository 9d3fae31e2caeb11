// Package compare finds out what has changed between two results, or between two
// sets of results, and whether that is more than chance.
//
// Samples of old and new are told apart by the Mann-Whitney U test; the interval of
// the change belongs to the same test (see package stats); all tests of a table are
// corrected together by the procedure of Benjamini and Hochberg. A verdict also has to
// be larger than what the same run, or runs of the same side, differ by among
// themselves. docs/compare.md says it in full.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/fault"
	"perigee/internal/metric"
	"perigee/internal/result"
	"perigee/internal/stats"
)

// Options steer a comparison.
type Options struct {
	Alpha  float64 // level of significance, above 0 and below 1
	Metric string  // of patterns: one that has a sample for each run
	Pairs  bool    // compare the messages of each pair of ranks, too
	Force  bool    // compare what is not comparable
	Unit   string  // what a sample is: sample, run, or auto
}

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
	Pattern int    // -1 for a scenario's own metric and for block transfers
	Name    string // of the pattern
	Phase   string
	// Sender and Receiver are the ranks of a pair; -1 where the row is of a whole pattern.
	Sender, Receiver int
	// Block is the bytes of a block, Batch the blocks at a time; 0 where the row is not of block transfers.
	Block, Batch int64
	OldN, NewN   int // samples
	Old, New     float64
	// Change is New/Old - 1; Low and High are the interval of the change. NaN where there is none.
	Change, Low, High float64
	P, Q              float64 // of the test, and after the correction
	Exact             bool
	Verdict           string
	Warning           string // why there is no verdict, or what to think of it
	noise             float64
	better            metric.Better
}

// Label names what a row is about.
func (r Row) Label() string {
	if r.Block > 0 {
		return fmt.Sprintf("%d x %d bytes, %s", r.Batch, r.Block, r.Metric)
	}
	if r.Pattern < 0 {
		return r.Metric
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
	Unit        string   // sample or run: what was tested
	Differences []string // why the sides should not be compared; empty but with Force
	Remarks     []string // what else differs, and may explain a change
	Rows        []Row    // patterns, then pairs, block transfers, and the scenario's own metrics
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
	var bad []string
	for _, row := range r.Rows {
		if row.Verdict == Worse && on != "none" || row.Verdict != Same && on == "any" {
			bad = append(bad, fmt.Sprintf("%s %+.1f%%", row.Label(), 100*row.Change))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	word := map[string]string{"worse": "worse", "any": "not as before"}[on]
	text := fmt.Sprintf("%d of %d comparisons are %s: ", len(bad), len(r.Rows), word)
	if len(bad) == 1 {
		text = fmt.Sprintf("1 of %d comparisons is %s: ", len(r.Rows), word)
	}
	const most = 3
	if more := len(bad) - most; more > 0 {
		bad = append(bad[:most], fmt.Sprintf("and %d more", more))
	}
	return fault.New(fault.Worse, "%s%s", text, strings.Join(bad, "; "))
}

// Compare compares two sets of results. Without Force the error, of the kind Input, names
// why they cannot be compared.
func Compare(old, fresh []*result.Document, o Options) (*Report, error) {
	r := &Report{Options: o, Unit: o.Unit}
	r.Differences, r.Remarks = obstacles(old, fresh)
	if len(r.Differences) > 0 && !o.Force {
		return nil, fault.New(fault.Input, "these results cannot be compared: %s", strings.Join(r.Differences, "; ")).
			WithHint("--force compares them all the same; then a change may come from these differences alone")
	}
	if o.Unit == "auto" {
		// Runs are independent of each other, the samples of a run are not. So a run counts
		// as one, as soon as there are enough of them.
		r.Unit = "sample"
		if stats.SmallestP(len(old), len(fresh)) < o.Alpha {
			r.Unit = "run"
		}
	}
	if r.Unit != "run" {
		r.Remarks = append(r.Remarks, pooled(len(old), len(fresh)))
	}
	levels := []string{o.Metric}
	if o.Pairs {
		levels = append(levels, "pair_latency_ms")
	}
	var own []string
	for _, d := range slices.Concat(old, fresh) {
		for _, m := range d.Metrics {
			if !slices.Contains(own, m.Name) {
				own = append(own, m.Name)
			}
		}
	}
	for _, name := range levels {
		r.family(old, fresh, name)
	}
	r.family(old, fresh, slices.DeleteFunc([]string{"block_bw_gb_per_s", "block_latency_us", "batch_p99_us"}, func(name string) bool { return name == o.Metric })...)
	r.family(old, fresh, own...)
	return r, nil
}

// family compares metrics whose tests are corrected together.
func (r *Report) family(old, fresh []*result.Document, metrics ...string) {
	first := len(r.Rows)
	for _, name := range metrics {
		gather(name, old, fresh, func(g *gathered) { r.Rows = append(r.Rows, r.row(name, g, old[0], fresh[0])) })
	}
	r.judge(r.Rows[first:])
}

// pooled warns of what a test of samples cannot see.
func pooled(old, fresh int) string {
	runs := func(n int) string {
		if n == 1 {
			return "1 run"
		}
		return fmt.Sprint(n, " runs")
	}
	return fmt.Sprintf("samples of %s and %s: a verdict tells these runs apart, and runs differ by chance, too; four or more on each side would show that",
		runs(old), runs(fresh))
}

func (r *Report) row(name string, g *gathered, old, fresh *result.Document) Row {
	x, y := g.old, g.fresh
	row := Row{
		Metric: name, Pattern: g.key.pattern, Phase: g.key.phase, Sender: g.key.sender, Receiver: g.key.receiver, Block: g.key.block, Batch: g.key.batch, better: betterOf(name, old, fresh),
	}
	for _, d := range []*result.Document{old, fresh} {
		if p := g.key.pattern; p >= 0 && p < len(d.Patterns) && row.Name == "" {
			row.Name = d.Patterns[p].Name
		}
	}
	if r.Unit == "run" {
		x, y = [][]float64{medians(x)}, [][]float64{medians(y)}
	} else {
		row.noise = max(noise(x), noise(y))
	}
	a, b := slices.Concat(x...), slices.Concat(y...)
	row.OldN, row.NewN = len(a), len(b)
	row.Old, row.New = stats.Median(a), stats.Median(b)
	row.Change, row.Low, row.High = math.NaN(), math.NaN(), math.NaN()
	if row.Old > 0 {
		row.Change = row.New/row.Old - 1
	}
	if ratio, ok := stats.RatioOf(a, b, r.Options.Alpha); ok {
		row.Low, row.High = ratio.Low-1, ratio.High-1
	}
	test := stats.MannWhitney(a, b)
	row.P, row.Exact = test.P, test.Exact
	return row
}

func medians(runs [][]float64) (list []float64) {
	for _, run := range runs {
		if len(run) > 0 {
			list = append(list, stats.Median(run))
		}
	}
	return list
}

// A run is cut into so many stretches of at least so many samples, to see its noise.
const (
	stretches    = 4
	leastStretch = 10
)

// noise is the largest share by which the medians of the stretches of a run, or of the runs
// of one side, differ: what changes without any cause that the comparison is about.
func noise(runs [][]float64) (most float64) {
	spread := func(list []float64) {
		if len(list) < 2 {
			return
		}
		if low := slices.Min(list); low > 0 {
			most = max(most, slices.Max(list)/low-1)
		}
	}
	for _, run := range runs {
		var list []float64
		for k, n := 0, min(stretches, len(run)/leastStretch); k < n; k++ {
			list = append(list, stats.Median(run[k*len(run)/n:(k+1)*len(run)/n]))
		}
		spread(list)
	}
	spread(medians(runs))
	return most
}

// judge gives verdicts to the rows of one table.
func (r *Report) judge(rows []Row) {
	alpha := r.Options.Alpha
	p := make([]float64, len(rows))
	for i, row := range rows {
		p[i] = row.P
		if stats.SmallestP(row.OldN, row.NewN) >= alpha {
			p[i] = math.NaN() // no test: it could find nothing
		}
	}
	for i, q := range stats.AdjustBH(p) {
		rows[i].Q = q
		rows[i].Verdict, rows[i].Warning = rows[i].verdict(q, alpha, r.Unit)
	}
}

func (row Row) verdict(q, alpha float64, unit string) (verdict, warning string) {
	switch {
	case row.OldN == 0:
		return Same, "only in NEW"
	case row.NewN == 0:
		return Same, "only in OLD"
	case math.IsNaN(q):
		return Same, fmt.Sprintf("too few %ss for a verdict at alpha %g", unit, alpha)
	case q >= alpha && row.P < alpha:
		return Same, "not significant among so many tests"
	case q >= alpha:
		return Same, ""
	case math.IsNaN(row.Change):
		return Same, "the old median is not positive: no change in %"
	case row.Change == 0:
		return Same, "the distributions differ, the medians do not"
	case math.Abs(row.Change) <= row.noise:
		return Same, fmt.Sprintf("noise: parts of one side differ by %.1f%% among themselves", 100*row.noise)
	}
	if row.Low > row.Change || row.High < row.Change {
		warning = "the shape has changed: the median did not move like the rest"
		if row.Low > 0 && row.Change < 0 || row.High < 0 && row.Change > 0 {
			return Same, "the median moved one way, the rest the other"
		}
	}
	switch {
	case row.better == metric.Neither:
		return Differs, warning
	case (row.better == metric.Lower) == (row.Change < 0):
		return Better, warning
	}
	return Worse, warning
}

// betterOf says in which direction a metric improves.
func betterOf(name string, docs ...*result.Document) metric.Better {
	if def, ok := metric.Find(name); ok {
		return def.Better
	}
	for _, d := range docs {
		for _, m := range d.Metrics {
			if m.Name == name && m.Better != "" {
				return metric.Better(m.Better)
			}
		}
	}
	return metric.Neither
}
