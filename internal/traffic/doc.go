// Package traffic is the middle of perigee: it moves bytes between ranks as a
// description says, and measures how long that takes. It has no code; its parts do.
//
// Every benchmark is a description from which each rank can compute what every
// rank transfers, and takes the same way:
//
//	load     describes traffic by pure functions: Pattern, Blocks, Exchange
//	matrix   is how many bytes each rank sends to each other
//	session  agrees with the other ranks on loads, and holds agents, buffers, files and connections for them
//	play     prepares plans of loads, runs them, verifies every byte where asked, and gathers the times at rank 0
//	series   holds stamps and distributions, and the form in which they travel
//	overlap  finds messages of different patterns that ran at the same time
//
// To add a kind of traffic, add a type to package load.
package traffic
