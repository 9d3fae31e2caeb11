// Package series holds what measurements consist of: the stamps of single runs, the distributions of long ones, the
// runs of all ranks joined on one time line, and the binary form in which they travel to rank 0. It knows neither
// worlds nor engines, so that readers of results need neither.
//
// Measured data takes two ways, since a scenario that plays a pattern a thousand times wants each run, and a benchmark
// that repeats a batch a million times could not keep them:
//
//	single runs  Stamps, Logged (stamps.go) at the rank, Log on the wire (codec.go), Run (run.go) in the result
//	long ones    Distribution (distribution.go) at the rank and on the wire, Measurement (measurement.go) in it
//
// Package play fills both at each rank, gathers them, and puts the stamps on the common time line. The types with JSON
// tags are part of the schema of results: a new field is optional, an old one keeps its name and meaning.
//
// All times are nanoseconds and all sizes bytes. Stamps and Exit are by the clock of the rank's host; Run, RankRun,
// PeerRun, StorageRun and RankPart are on the common time line, and say in UncertaintyNS how far apart two hosts'
// stamps may be wrong. A latency runs from before the first post until all is complete; over several ranks it is the
// last end minus the first start.
//
// Samples (samples.go) keeps 131,072 durations as they are. Beyond that it rounds them down to twelve binary digits,
// by less than 0.05 %, and counts equal ones, so that a long run does not fill the memory; count, mean and extremes
// stay exact.
//
// Decoding checks all that it reads: a log that is torn is pack.ErrTorn, and one that belongs to other plans is
// ErrPlans, for a scenario whose ranks collect different plans.
package series
