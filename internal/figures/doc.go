// Package figures computes what a report shows from a result: latencies of
// patterns alone and in the workload, what contention costs, figures by pattern, pair,
// rank and host, percentiles, and the spans of a timeline. It reads a result as
// a stream and keeps sums, so its memory grows with the matrices and not with
// the number of runs.
//
// Runs of the phase "isolated" are those of a pattern alone; the runs of all
// other phases are the workload.
//
// # Formulas
//
// The latency of a message is the time from its initiator's first post until
// the initiator saw the message complete: end_ns of the message - start_ns of
// the rank. The latency of a pattern in the workload is last end - first start
// over its initiators, the median over its runs; isolated likewise (docs/tables.md).
//
// What contention costs is computed by package contention, from the messages that
// overlapped with others. A slowdown alone does not show contention.
//
// The slowdown of a set of messages, such as those between two ranks or all
// that one rank sends, is that of package contention: the geometric mean over these
// messages, in each run of the workload, of their time / the median time of the same
// message alone, so that small messages count as much as large ones. Cells of a matrix
// that were not measured in both ways do not count.
//
// # Reading order
//
// figures.go has the types of the figures, which are the JSON of `perigee report --format json`; build.go reads a
// result and fills them. pairs.go sums up pairs of ranks and of hosts, tails.go percentiles, blocks.go transfers of
// blocks, contention.go and verdict.go what overlapping costs, experts.go what perigee ep leaves, sizes.go patterns
// that never ran alone, script.go a scenario's own metrics. findings.go says in sentences what stands out, answer.go
// which of that comes first, with its pictures. Num is a number that may be unknown: NaN here, null in JSON, a dash in
// tables.
package figures
