// Package compare is `perigee compare`: it shows what has changed between two sets of results, and whether it is more
// than chance. perigee rerun uses it for the runs that it has made.
//
// The sample is the run: what a run measured of a pattern, a pair of ranks or a metric is one number, the median. All
// rows of a comparison are tested together on the logarithms of these numbers, by divisions of the runs into two sides
// (see stats.CompareRuns), so that the probability of any verdict where nothing has changed is at most alpha. With too
// few runs for that there are figures and no verdict. docs/compare.md describes it in full.
//
// The runs of a pattern inside one job are not independent: they share hosts, placement and the weather of an hour.
// Tests on them find "changes" between any two jobs, so that they would be worthless as a gate, and that is why one
// job counts as one number, however long it was.
//
// Any two results that share something are compared; the settings that differ (result.Differences) are the headline.
//
// Read command.go for the flags, gather.go for how samples become rows, compare.go for the test and the verdicts of
// rows, and verdict.go for the headline and the row whose verdict is that of the comparison. contention.go
// adds rows about the cost of overlapping, whose verdict also needs that contention is shown on the side that has more
// of it. print.go and html.go write the report; the columns in print.go are those of text, CSV and JSON, and what
// --columns and --sort take.
//
// Times are milliseconds where a column's name says so, and NaN stands for what is not known, and is empty in every
// output. --fail-on makes a finding an error of kind Worse.
package compare
