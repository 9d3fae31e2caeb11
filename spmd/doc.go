// Package spmd is a world of ranks: processes that run the same program, know their number, and meet in collectives.
//
// A [World] is made from what a launcher told the process (package boot). Inside a host its ranks meet in shared
// memory (package host); everything else, payloads included, passes over authenticated links (package wire). The
// first failure of any rank ends the waits of all (package watch).
//
// # Joining
//
// [Join] is a collective of all ranks:
//
//	card       Each rank puts its card into the launcher's store, and all fence: host, CPUs, addresses, and where its
//	           shared memory can be opened. A rank gets from there only the cards of its neighbours in a binary tree.
//	gather     All cards go up the tree to rank 0, which makes the roster of them: who is where.
//	broadcast  The roster comes down again. From now on ranks know each other's addresses.
//	memory     The ranks of a host open the memory of the lowest of them.
//	ping       The lowest rank of each host compares its clock with that of another host, 32 round trips each, along a
//	           binomial tree; the sums are broadcast. See [World.Now].
//	barrier    No rank leaves before all have opened what they share.
//
// # Collectives
//
// The members of a [Group] call its collectives in the same order. A group is known by the list of its members, and
// its messages travel on their own channel. Each carries the number of the call, the collective and its root, so that
// a receiver notices a sender that is in another one.
//
//	barrier      the ranks of a host meet in shared memory, then one of each host over links, in log2 rounds, then
//	             those of the host again
//	broadcast, gather, all-gather, reduce, end
//	             along a binary tree whose subtrees are rows of consecutive members: at most three messages of a
//	             rank, and most of them stay on a host
//	all-to-all, exchange
//	             from each member to each, or to those that it names
//
// # Disagreement
//
// Ranks that call different collectives may wait for each other for ever. So a rank that has waited for 200 ms sends
// a question to the rank that it waits for: "I am in call 7, a gather". The question stays there until that rank has
// come as far, and answers with its own call. If that is another one the error names both ranks and both calls. The
// answer also shows whether a message was lost before it: frames are counted (package wire). A rank that is only late
// is asked and not blamed. See detector.go for why some rank always finds out.
//
// # Failure
//
// [World.Fail] reports an error of this rank to the coordinator, which decides what the failure of the job is and
// sends it to all ranks. Then [World.Context] ends with that failure as its cause, waits in shared memory end, and
// native loops see [World.AbortFlag]. A rank that meets the consequences first, such as the end of a link, waits for
// a moment for the news of the cause, so that the first to be blamed is the culprit.
//
// # Simulation
//
// [NewInMemory] makes the ranks of a world in one process, for tests. A [Crowd] does for thousands.
package spmd
