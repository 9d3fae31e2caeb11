// Package session holds one rank's side of all traffic: an agent per lane with
// its buffers, its files and its connections. Package load says what they must
// hold, package play runs transfers between them.
//
// # How ranks come to share buffers
//
// Open and Reserve are collectives: all ranks call them in the same order with
// the same loads. Open makes the agent of lane 0 and makes sure that all ranks
// use the same engine. Reserve then takes these steps:
//
//	check    every load is validated; the result is the same on every rank.
//	agree    the ranks compare a digest of the loads. Ranks that hold different
//	         loads would compute different offsets, so that is an error which
//	         names the first rank that differs from rank 0.
//	ledger   from the loads alone each rank works out what every rank's buffers
//	         must hold, which buffers grow, and which pairs of ranks meet for the
//	         first time. Nothing is sent: all ranks come to the same conclusion.
//	memory   the lowest rank of each host compares what its ranks are about to
//	         allocate with what the host has. A barrier follows, so that no rank
//	         allocates before it is known that all can.
//	allocate buffers that have to grow are allocated anew: for each kind of memory
//	         one to send from and one to receive into, in the same order at all
//	         ranks, since a peer's buffer is named by its number. Plans that use
//	         the old ones keep them. --timeout does not count the time that this takes.
//	files    each rank opens its files, once each.
//	cards    agents describe their buffers in cards. If buffers have grown and ranks
//	         have many peers, an all-gather gives all cards to all (tellAll). With
//	         few peers, only pairs that exchange bytes do (tellPeers). If nothing
//	         grew, only new pairs do (tellFresh), or no rank (tellNobody).
//	connect  new pairs open their connections. Every rank polls until all ranks
//	         are connected, since a connection needs both ends to make progress.
//
// Loads that fit what is there cost the comparison of digests only.
//
// # Reading order
//
// session.go has Session, Open and Reserve, which calls the steps in the order above. agree.go compares digests,
// ledger.go works out buffers and pairs, memory.go checks and allocates, lane.go has a lane's files and batches,
// cards.go and connect.go make peers reachable; connect.go also words what goes wrong with a transfer. start.go agrees
// on an instant at which ranks start together.
//
// A Lane is one agent with all it holds, for one goroutine at a time (Lane.Use). A Bound is a lane as one load uses
// it: with the buffers that were there when the load was reserved. Offsets of loads count from the first byte that
// messages may use, so that Bound.Buffer returns what to add for the guard in front of it.
package session
