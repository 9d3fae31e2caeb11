package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures/contention"
	"perigee/internal/kit/expr"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/stats"
	"perigee/internal/result"
)

// contentionMetric is the metric of rows about what overlapping costs: of the whole result, and of pairs of ranks.
const contentionMetric = "contention"

// addContention adds the rows of contention where a side has it. The value of a run is the ratio of package contention;
// where no message of a side overlapped it is 1 by definition, and where a run has too few for an interval it has none.
func (r *Report) addContention(old, fresh []*result.Document) {
	docs := slices.Concat(old, fresh)
	costs := map[[2]int][]contention.Estimate{} // one of each run
	var order [][2]int
	sides := [2]meetings{}
	for i, d := range docs {
		side := &sides[b2i(i >= len(old))]
		if !d.Overlaps {
			r.crowded = cmp.Or(r.crowded, d.World.Crowded())
			side.unknown = true
			continue // it does not say what overlapped
		}
		c := contention.Of(d)
		messages, met, unsure := c.Counts()
		side.add(messages, met, unsure)
		if met > 0 {
			r.crowded = cmp.Or(r.crowded, c.Waits().Crowded())
		}
		for _, p := range c.Costs() {
			key := [2]int{p.From, p.To}
			if costs[key] == nil {
				costs[key] = make([]contention.Estimate, len(docs))
				order = append(order, key)
			}
			costs[key][i] = p.Estimate
		}
	}
	r.shares = differ(sides[0], sides[1])
	for _, key := range order {
		if key[0] >= 0 && !r.Options.Pairs {
			continue
		}
		list := costs[key]
		x, y := ratios(list[:len(old)]), ratios(list[len(old):])
		if !overlapped(list) || len(present(x)) == 0 || len(present(y)) == 0 {
			continue
		}
		nan := math.NaN()
		row := Row{
			Metric: contentionMetric, Pattern: -1, Sender: key[0], Receiver: key[1], Verdict: Same,
			Low: nan, High: nan, P: nan, Q: nan, RankP: nan, better: expr.Neither,
		}
		row.fill(x, y)
		if a, b := controls(list[:len(old)]), controls(list[len(old):]); a != "" && b != "" && a != b {
			row.control = fmt.Sprintf("OLD is against %s, NEW against %s", a, b)
		}
		r.Rows = append(r.Rows, row)
		r.contentionRows++
	}
}

func overlapped(list []contention.Estimate) bool {
	return slices.ContainsFunc(list, func(e contention.Estimate) bool { return e.Overlapped > 0 })
}

// ratios are those of the runs of a side; NaN for a run without.
func ratios(list []contention.Estimate) []float64 {
	calm := !overlapped(list)
	values := make([]float64, len(list))
	for i, e := range list {
		switch {
		case calm && e.Control > 0:
			values[i] = 1
		case e.Overlapped > 0 && e.Runs >= contention.MinRuns && e.Beside == 1: // else other messages change it
			values[i] = e.Ratio
		default:
			values[i] = math.NaN()
		}
	}
	return values
}

// controls names what the overlapped messages of a side are compared with.
func controls(list []contention.Estimate) string {
	var names []string
	for name, of := range map[string]string{
		"messages of the workload that did not overlap": contention.Workload, "runs alone": contention.Alone,
	} {
		if slices.ContainsFunc(list, func(e contention.Estimate) bool {
			return e.Overlapped > 0 && (e.Of == of || e.Of == contention.Both)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// verdictOfContention is that of a row whose sides differ: contention has to be shown on the side that has more of it,
// where it is none of CPUs.
func (r *Report) verdictOfContention(row *Row) (verdict, warning string) {
	if r.crowded != "" {
		return Same, "ranks wait for CPUs: " + r.crowded
	}
	if row.Sender >= 0 && row.control != "" {
		return Same, row.control // which alone may make such a difference; the whole result has more to go by
	}
	side := row.values[r.OldN:]
	if row.Old > row.New {
		side = row.values[:r.OldN]
	}
	if low, _ := r.sideInterval(side); !(low > 1) {
		return Same, "overlapping costs nothing beyond chance on either side"
	}
	return Differs, row.control
}

// sideInterval is Student's interval of the ratio of one side, corrected for all rows of contention.
func (r *Report) sideInterval(values []float64) (low, high float64) {
	var logs []float64
	for _, v := range present(values) {
		logs = append(logs, math.Log(v))
	}
	n := float64(len(logs))
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	half := stats.StudentQuantile(1-r.Options.Alpha/float64(2*r.contentionRows), n-1) * stats.StdDev(logs) / math.Sqrt(n)
	mean := stats.Mean(logs)
	return math.Exp(mean - half), math.Exp(mean + half)
}

// mostPairsNamed is how many pairs a finding names.
const mostPairsNamed = 5

// sayContention says where contention changed, and nothing where that is not shown.
func (r *Report) sayContention() {
	var pairs []*Row
	for i := range r.Rows {
		row := &r.Rows[i]
		switch {
		case row.Metric != contentionMetric || !row.changed():
		case row.Sender < 0:
			text := fmt.Sprintf("Contention %s: messages that overlap with other patterns take %s as long in NEW as without, %s in OLD",
				rose(row), r.ratio(row.values[r.OldN:]), r.ratio(row.values[:r.OldN]))
			if row.Warning != "" {
				text += " (" + row.Warning + ")"
			}
			r.Findings = append(r.Findings, text+".")
		default:
			pairs = append(pairs, row)
		}
	}
	if len(pairs) == 0 {
		return
	}
	slices.SortStableFunc(pairs, compareRows)
	var names []string
	for _, row := range pairs {
		names = append(names, fmt.Sprintf("%d \u2192 %d %s: %s in NEW, %s in OLD", row.Sender, row.Receiver, rose(row),
			r.ratio(row.values[r.OldN:]), r.ratio(row.values[:r.OldN])))
	}
	r.Findings = append(r.Findings, "Contention by pair, corrected for all that were compared: "+
		strings.Join(plaintext.First(names, mostPairsNamed, "and %d more"), "; ")+".")
}

func rose(row *Row) string {
	if row.New > row.Old {
		return "rose"
	}
	return "fell"
}

// ratio is the cost on one side, with its interval.
func (r *Report) ratio(values []float64) string {
	values = present(values)
	if !slices.ContainsFunc(values, func(v float64) bool { return v != 1 }) {
		return "1 times (nothing overlapped)"
	}
	low, high := r.sideInterval(values)
	return fmt.Sprintf("%.2f times (%.2f to %.2f)", stats.Median(values), low, high)
}
