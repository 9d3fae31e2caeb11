// Package sweep is `perigee sweep`: it reads the benchmark reports of a sweep over configurations and loads, and shows
// them as tables, trade-off plots and an interactive page. The reports are those of llm-d-benchmark, as YAML or JSON,
// and results of perigee.
//
// Package runs reads reports and has the table of runs with its columns, scenarios, configurations and objectives
// (--slo). Package plot draws the pictures and makes the page. This package has the commands: sweep.go with what all
// of them share (Input: which files, which runs, which scenario), table.go, plotcmd.go and report.go. progress.go
// shows on a terminal how many files are read.
//
// A sweep often has thousands of files, of which some are broken. Those are skipped and named, with file, line and
// key; --strict makes them an error, of kind Input. Every command takes the same conditions (--where), in the language
// of package expr over the columns that `perigee sweep columns` lists.
package sweep
