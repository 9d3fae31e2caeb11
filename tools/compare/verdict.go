package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee/internal/figures"
	"perigee/internal/figures/metric"
	"perigee/internal/kit/cli"
	"perigee/internal/kit/fault"
	"perigee/internal/kit/size"
	"perigee/internal/result"
	"perigee/internal/serving/runs"
)

// mostNamed is how many settings the headline names.
const mostNamed = 3

// sayDifferences sets what differs between the sides, and within them.
func (r *Report) sayDifferences(old, fresh []*result.Document) {
	note := func(text string) {
		if !slices.Contains(r.Remarks, text) {
			r.Remarks = append(r.Remarks, text)
		}
	}
	list := result.Differences(old[0], fresh[0])
	var before, after []string
	for _, d := range list {
		if len(before) < mostNamed && (!d.Around || len(r.Differences) == 0) {
			before, after = append(before, named(d.Name, d.Old)), append(after, named(d.Name, d.New))
		}
		if !d.Around {
			r.Differences = append(r.Differences, d.String())
		} else {
			note(d.String())
		}
	}
	unkept := result.Unkept(old[0], fresh[0])
	r.Headline = "OLD and NEW have the same settings"
	if len(before) == 0 && unkept != "" {
		r.Headline += ", as far as they are kept: " + unkept
	}
	if len(before) > 0 {
		if unkept != "" {
			note("not all settings are kept: " + unkept)
		}
		r.Headline = "OLD " + strings.Join(before, ", ") + "; NEW " + strings.Join(after, ", ")
		if more := len(r.Differences) - len(before); more > 0 {
			r.Headline += fmt.Sprintf("; and %d more", more)
		}
	}
	for _, side := range []struct {
		name string
		docs []*result.Document
	}{{"OLD", old}, {"NEW", fresh}} {
		for _, d := range side.docs[1:] {
			for _, x := range result.Differences(side.docs[0], d) {
				note(fmt.Sprintf("the runs of %s differ: %s", side.name, x))
			}
		}
		for _, d := range side.docs {
			which := "a result of " + side.name
			if file := r.Options.Files[d]; file != "" {
				which = side.name + ", " + file + ","
			}
			if isPartial(d) {
				why := "it is still going on, or was killed"
				if d.Failure != nil {
					why = d.Failure.Cause
				}
				note(which + " is partial: " + why)
			}
			for _, text := range d.Standstills() {
				note(strings.TrimSuffix(which, ",") + ": " + text)
			}
		}
	}
}

// Notes are the differences that the headline has no room for, and the remarks.
func (r *Report) Notes() []string {
	if len(r.Differences) > mostNamed {
		return slices.Concat(r.Differences, r.Remarks)
	}
	return r.Remarks
}

// named is a setting with its value, which may be long.
func named(name, value string) string {
	const most = 60
	if letters := []rune(value); len(letters) > most {
		value = string(letters[:most]) + "..."
	}
	return name + " " + value
}

// unpaired is the error of sides of which nothing can be compared.
func (r *Report) unpaired(old []*result.Document) error {
	shared := map[int]bool{}
	for _, n := range slices.Concat(r.numbers[:len(old)]...) {
		shared[n] = true
	}
	for _, n := range slices.Concat(r.numbers[len(old):]...) {
		if shared[n] {
			return nil
		}
	}
	both := func(row Row) bool { return row.OldN > 0 && row.NewN > 0 }
	if len(r.Rows) == 0 || slices.ContainsFunc(r.Rows, both) {
		return nil
	}
	return fault.New(fault.Input, "nothing can be compared, since no pattern, size of blocks or metric is in both: %s", r.Headline).
		WithHint("patterns pair by name, or by place within a scenario or with as many bytes; metrics by name and labels; perigee result show FILE lists what a result holds")
}

// Main is the row that stands for the comparison: the geometric mean of most rows, first of patterns, then of block
// transfers, then of the scenario's own metrics, and of the workload rather than of runs alone. It is nil without rows
// that both sides have. Where other shares of messages overlap, runs alone go first: what takes longer in the workload
// may be what it meets.
func (r *Report) Main() *Row { return r.main(r.shares != "") }

func (r *Report) main(alone bool) (main *Row) {
	rank := func(row *Row) [4]int {
		kind := 0
		switch {
		case row.Metric == r.Options.Metric:
			kind = 2
		case row.Block > 0 || row.of == "sizes":
			kind = 1
		}
		return [4]int{kind, b2i((row.Phase == result.IsolatedPhase) == alone), b2i(row.Of > 0), row.Of}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Sender >= 0 || row.OldN == 0 || row.NewN == 0 || row.Metric == contentionMetric {
			continue
		}
		if main != nil {
			a, b := rank(row), rank(main)
			if slices.Compare(a[:], b[:]) <= 0 {
				continue
			}
		}
		main = row
	}
	return main
}

// Verdict is the outcome in a few words.
func (r *Report) Verdict() string {
	main, changes := r.Main(), r.Count(Worse)+r.Count(Better)+r.Count(Differs)
	switch {
	case main == nil:
		return "Nothing to compare"
	case !r.Judged:
		return "No verdict"
	case main.changed():
		return strings.ToUpper(main.Verdict[:1]) + main.Verdict[1:] + ": " + main.moved()
	case changes > 0:
		if r.shares != "" && main.Phase == result.IsolatedPhase {
			return fmt.Sprintf("No change of the runs alone, %d of %s changed", changes, cli.Count(r.tested(), "row"))
		}
		return fmt.Sprintf("No change on the whole, %d of %s changed", changes, cli.Count(r.tested(), "row"))
	}
	return "No change shown"
}

// tested counts the rows that are judged.
func (r *Report) tested() int {
	return r.Count(Worse) + r.Count(Better) + r.Count(Differs) + r.Count(Same)
}

// Effect says by how much the main row has changed, with units and the interval.
func (r *Report) Effect() string {
	main := r.Main()
	if main == nil {
		return ""
	}
	text := fmt.Sprintf("%s: %s -> %s, %s", main.Label(), main.amount(main.Old), main.amount(main.New),
		main.gained())
	if !math.IsNaN(main.Change) {
		text += ", " + main.moved()
	}
	if !math.IsNaN(main.Low) {
		text += " (" + r.interval(main) + ")"
	}
	return text
}

// Meeting says that the workloads differ in what runs at the same time, and how they changed; empty unless they do.
func (r *Report) Meeting() string {
	if r.shares == "" {
		return ""
	}
	text := r.shares + ": the workloads differ in what runs at the same time"
	workload, main := r.main(false), r.Main()
	if main == nil || main == workload {
		return text + ", which may be all of a change"
	}
	text += ", so the runs alone are compared first. " + workload.Label() + ": " + workload.moved()
	if !math.IsNaN(workload.Low) {
		text += " (" + r.interval(workload) + ")"
	}
	return text
}

func (r *Report) interval(row *Row) string {
	return fmt.Sprintf("%g %% interval %+.1f%% to %+.1f%%", 100*(1-r.Options.Alpha), 100*row.Low, 100*row.High)
}

// unit is that of a row's values; empty where it is not known. A scenario's own metric has the one that its name ends
// with.
func (r Row) unit() string {
	if r.of == levelRow {
		column, _ := runs.Find(r.Metric) // which is where the row is from
		return column.Unit
	}
	name, _, _ := strings.Cut(r.Metric, ".")
	if def, ok := metric.Find(name); ok {
		return def.Unit
	}
	if strings.HasSuffix(r.Metric, "_gb_per_s") {
		return "GB/s"
	}
	end := r.Metric[strings.LastIndex(r.Metric, "_")+1:]
	return map[string]string{"bytes": "B", "s": "s", "ms": "ms", "us": "us", "ns": "ns"}[end]
}

// amount is a value with a unit that suits its size.
func (r Row) amount(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	if v < 0 {
		return "-" + r.amount(-v)
	}
	unit := r.unit()
	switch unit {
	case "s", "ms", "us", "ns":
		ns := map[string]float64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[unit]
		return figures.Duration(figures.Num(v * ns))
	case "GB/s":
		return size.Rate(v * 1e9)
	case "B":
		return size.Decimal(v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
}

// gained is the difference with its sign and unit; nil where a side has no value.
func (r Row) gained() any {
	switch d := r.New - r.Old; {
	case math.IsNaN(d):
		return nil
	case d < 0:
		return r.amount(d)
	default:
		return "+" + r.amount(d)
	}
}
