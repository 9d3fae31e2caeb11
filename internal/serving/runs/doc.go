// Package runs is the table of a sweep: one [Record] per benchmark report, the [Column]s that are shown of it, and how
// runs are grouped into scenarios and configurations.
//
// run.go has Record, with its hosts, latencies and throughputs, column.go the columns, which tables, CSV, conditions
// and plots share: a name, a unit, the better direction and a function of a run. group.go has [Scenario], the runs of
// one model, GPU and request shape, which can be compared, and [Configuration], those of one way of serving, which are
// a line of a plot. slo.go has bounds on columns that a run must keep, such as P90_TTFT_ms <= 500.
//
// Load (load.go) finds the reports below folders (find.go) and reads them in parallel: reports of llm-d-benchmark in
// the versions 0.1, 0.2 and 0.2.1 (report.go, v01.go, v02.go, fields.go, duration.go) and results of perigee itself
// (perigee.go). A file that cannot be read never stops an import; it is skipped and its error, which names file, line
// and key, is kept.
//
// Times are milliseconds and rates per second once they are in a Run, whatever unit the report has. A number that a
// report does not have is NaN here and an empty cell in every output; it is never replaced by a guess. Names sort in
// their natural order, c8 before c16.
package runs
