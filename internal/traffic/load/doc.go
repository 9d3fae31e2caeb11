// Package load describes traffic. A Load says, for any rank, what that rank must hold, what it posts and what it
// receives; it never touches memory, a network or a file. Every rank holds the same loads, so each can work out where
// every message lies in every rank's buffers. Only the addresses of the buffers are exchanged, by package session.
//
// A new kind of traffic is a new type that implements Load. Memory, connections, timing, gathering and verification
// come with it.
//
// Read load.go first: it has the interface and the vocabulary. A Lane numbers an agent of each rank. Needs counts the
// bytes and files that a lane of a rank must hold. A Post is one transfer as readers of results see it, a Transfer the
// same as the engine takes it, with a descriptor for each piece. A Message is a run of known bytes at one end, for
// verification. Then come the four loads:
//
//	Pattern   (pattern.go, storage.go)  a matrix of bytes, as one run of a scenario plays it, and files beside it
//	Blocks    (blocks.go)               batches of equal blocks between pairs or with files, as kvbench measures them
//	Exchange  (exchange.go)             an all-to-all with a place for each piece, as expert parallelism does it
//	Schedule  (schedule.go)             transfers that are each due at a time, as a serving trace has them
//
// Clocked (clocked.go) wraps a load whose initiators start at an agreed instant instead of after a barrier.
//
// All methods must be pure and must agree: for each Post there is a Transfer of as many bytes in the same place of the
// list, and each byte that one rank's Transfers move is in a Message at both ends. Offsets are bytes from the
// beginning of the lane's buffer of that side, guards not counted. Check comes first; the other methods require a load
// that has passed it. Digest must cover all that decides about transfers: ranks with equal digests write into each
// other's memory without asking further.
//
// Posts of a Pattern or an Exchange begin with the peer after the rank itself. If all ranks began with rank 0, it
// would receive from all at once, and the measurement would be that of an incast.
package load
