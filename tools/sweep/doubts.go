package sweep

import (
	"fmt"
	"slices"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/serving/runs"
)

// doubtful marks the runs that are kept off Pareto fronts, and notes the first of them. A command without a front
// marks them by the defaults, for --where, and says nothing.
func doubtful(all []*runs.Record, doubts *runs.Doubts, d *imported) {
	quiet := doubts == nil
	if quiet {
		doubts = &runs.Doubts{}
	}
	doubts.Mark(all)
	const most = 3
	count := 0
	for _, r := range all {
		if len(r.OffFront) == 0 || quiet {
			continue
		}
		if count++; count <= most {
			options := ""
			if len(r.Relaxed) > 0 {
				options = " (" + strings.Join(r.Relaxed, ", ") + ")"
			}
			d.notes = append(d.notes, fmt.Sprintf("%s: kept off the Pareto front%s: %s", r.File, options, strings.Join(r.OffFront, "; ")))
		}
	}
	if count > most {
		d.notes = append(d.notes, fmt.Sprintf("%s kept off the Pareto front; the column Off_Front says why",
			cli.Count(count-most, "more run")))
	}
}

// ifDoubtful is the column that says why a run is kept off the front, if one of the rows is.
func ifDoubtful(rows []*runs.Record) []*runs.Column {
	if !slices.ContainsFunc(rows, func(r *runs.Record) bool { return len(r.OffFront) > 0 }) {
		return nil
	}
	return []*runs.Column{must("Off_Front")}
}
