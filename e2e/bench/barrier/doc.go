// Package barrier measures how long ranks take to meet, and how far apart they leave, and sets it beside MPI_Barrier
// of the MPI libraries that are installed. A broadcast over links is measured in the same way, and what the proofs on
// links cost, against a build without them (proofs.go).
//
// All are measured in the same way: barrier.go has the turns and the table, rank.go the loop of one of perigee's
// ranks, mpi/barrier.c that of an MPI rank, run.go starts either. The contenders take turns, so that a disturbance of
// the machine meets all of them. A contender that does not end in time, as MPI libraries with many more ranks than
// cores do, has no figure.
package barrier
