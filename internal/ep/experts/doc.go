// Package experts plays expert parallelism at one rank: the data plane, which dispatches the tokens of all ranks to
// their experts and combines the results, and the control plane, which makes, connects and takes down what that needs.
// Package lua/modules/moe offers it to scenarios as the module moe; the routing and the arithmetic of layouts are in
// package moe, the number formats in moe/numeric.
//
// # Data plane
//
// The routing is a pure function of a seed, so every rank computes where each message of each rank lies (moe.Layout),
// and prepares its requests once. An iteration posts the same requests again.
//
//	dispatch  quantise every token once; copy it to each of its places among what this rank sends (unless
//	          Spec.Direct); write each other rank its messages, and notify it of the counts; copy those to this
//	          rank's own experts; wait for the notifications of all ranks; pack the messages densely by expert
//	combine   write each rank one BF16 row for each message that came from it; notify; wait; sum each token's rows
//	          with its weights
//
// What a rank sends to another lies in one piece at both ends, since each piece costs the engine more than the copy of
// a token: about 2.4 us on NIXL between processes of a host. With Spec.Direct each message is written by itself.
//
// A message is a header of 16 bytes (token, rank, iteration) and the payload. What a rank receives is double-buffered
// by the parity of the iteration: without a barrier in between, a peer may be one iteration ahead, and no more, since
// it needs this rank's messages of the iteration before.
//
// In a GPU's memory (Spec.Mem) the host makes messages in a copy of it and posts their transfers. There an iteration is
// these alone: quantising, staging, packing and summing come before the first and after the last.
//
// # Control plane
//
// Control (control.go) measures how long it takes to make, connect, disconnect and destroy all that, over many lives
// of an agent. Elastic (elastic.go) plays a plan, read by plan.go, in which ranks join, leave and are killed, while
// the others go on; it finds the dead by failed transfers and by notifications that do not come.
//
// # Reading order
//
// plane.go has Spec, the memory that it takes, and a rank's tokens and messages. port.go gets agents and registered
// memory for them from package session; space.go has that memory, and where it is a GPU's the host's copy. run.go plays
// the two operations and waits for notifications; measure.go measures many, piece by piece. figures.go adds up times
// and bytes of all ranks, waits.go finds the rank or host that the others wait for, nics.go counts the bytes that left
// the host, and beside.go measures iterations beside other traffic. verify.go compares messages bit by bit, and results
// with an oracle; its sabotages show that it would find a fault. apart.go gives each peer its own batch, so that one
// that is dead takes no other with it.
//
// Times are nanoseconds unless a name ends in US, sizes bytes. A description that makes no sense is an error of kind
// Usage, a lack of memory one of kind Resource before anything is allocated, and wrong bytes are one of kind Corrupt.
package experts
