// Package job measures whole runs of the perigee command: what a scenario adds to a transfer, how long ranks take to
// start, to prepare and to connect, what they weigh, and how the benchmarks of files and of expert parallelism stand
// beside fio and MPI.
//
// A Command is a perigee that New has built. Its methods are sections of `make bench`; each prints a table and, where
// there is one, the target beside the figure. job.go has scenarios and whole runs, start.go start-up beside Open MPI
// and a rank 0 of 16,384, storage.go kvbench against fio, experts.go the exchange of experts against MPI_Alltoallv
// (libraries.go) and against the bare copies of tokens (copies.go), connect.go the opening of connections against the
// library's own calls (bare.go), compare.go how often compare finds a change of known size, tools.go the commands that
// read results.
package job
