// Package metric turns a result into named lists of numbers, and holds limits against them: by what thresholds judge a
// run while it goes on (package experiment), by what two results are compared (tools/compare), and by what scripts and
// perigee result choose samples.
//
// Most metrics have a sample for each measured run of a pattern; some have one for each initiator or message of a run,
// for each pattern, or for each size of blocks. A scenario may declare its own metrics. docs/thresholds.md lists
// them all with their formulas.
//
// metric.go has the catalogue and the Sample, which says besides its value what it belongs to: pattern, phase,
// iteration, rank, peer, labels. -1 stands for "to none, or to several". blocks.go has the metrics of transfers of
// blocks. By columns (columns.go) conditions choose samples, in the language of package expr. Follow
// yields the samples of a result that grows, each once, so that looking at thresholds costs time in proportion to what
// is new.
//
// Some metrics are revised: slowdown, for one, needs to know which runs were at the same time, so that a run that
// comes later changes samples that are there. Revised says so, and a threshold on such a metric is looked at only
// while no run is under way.
//
// A Threshold (threshold.go, read by parse.go) aggregates samples (aggregate.go) and compares the outcome with a
// bound. A ThresholdWatch ends a run early, and only for bounds that further samples cannot fulfil any more. Where an
// aggregate is not known, for lack of samples, a threshold has not passed: a gate without measurements must not be
// green. Mistakes in a threshold are of kind Usage, and say where the parser stopped and what it wanted there.
//
// Values are in the unit that the metric's name ends in, as latency_ms; times of samples are nanoseconds on the common
// time line.
package metric
