// Package moe holds the arithmetic of expert parallelism: which experts the
// router of a mixture-of-experts layer chooses for which token, on which rank
// each expert lies, how many bytes that moves on each basis, and where each
// message lies in each rank's memory. It moves nothing, reads no clock, and its
// results are the same on every machine.
//
// # The model
//
// R ranks hold T tokens each, and E experts are spread over the ranks. The
// router chooses K experts for each token ([Router], [Route]). An assignment is
// one (token, choice) pair. A [Placement] maps the E logical experts to
// physical slots on the ranks: expert x on rank x / (E/R) by default, or
// balanced replicas ([Balance]).
//
// Tokens have global numbers: token t of rank r is number r*T + t.
//
// # Bytes
//
// One row of traffic has several byte counts that are all correct and differ by
// a third ([Bytes]): one message for each assignment, one copy for each rank that
// a token visits, only copies that leave their rank, or what is really written.
// A figure in GB/s is only comparable with one on the same basis.
//
// # Reading order
//
// shape.go has the sizes and router.go the choice of experts, with random.go below it: numbers that depend on the seed
// and the place alone, so that every rank draws the same without asking. placement.go and shared.go put experts on
// ranks. census.go counts bytes on all bases, layout.go says where each message lies, payload.go what it holds,
// matrix.go makes a traffic matrix of it all, and loads.go reads measured loads of experts. math.go has its own
// logarithm and exponential, as those of processors differ in the last bit.
//
// Files of loads that are wrong are errors of the kind Input, with file and line.
package moe
