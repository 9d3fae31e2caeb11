// Package launch starts the ranks of a job on this machine: the same program
// N times, watched until all have ended.
//
// Rank 0 writes straight to the launcher's output, so that it sees a terminal
// where there is one; the lines of the others are labelled with their rank.
// When one rank dies or the launcher's context ends, the others are informed and
// given a moment to write what they have; then they are killed.
//
// Each rank leads its own process group. So a Ctrl-C at the terminal
// reaches the launcher alone, which ends the job in good order, and what a rank
// has started ends with it.
//
// # Reading order
//
// launch.go has Job and Run: it starts the ranks, waits for each and for the coordinator of package watch, over whose
// sockets ranks report what has gone wrong. output.go brings their output together; a reader that is gone, as of head,
// ends the job. threads.go finds out how many threads this user can still start, which limits the ranks of a machine.
//
// Run returns the job's first failure, a watch.Failure, whose kind becomes the exit code, or an error of the kind
// Launch where the ranks cannot be started. Under mpirun or srun this package is not used: there the launcher starts
// the ranks, and package boot finds out which.
package launch
