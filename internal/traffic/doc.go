// Package traffic is the middle of perigee: it moves bytes between ranks as a
// description says, and measures how long that takes. It has no code; its parts do.
//
// Every benchmark is a description from which each rank can compute what every
// rank transfers, and takes the same way:
//
//	load     describes traffic by pure functions: Pattern, Blocks, Exchange
//	matrix   is how many bytes each rank sends to each other
//	session  agrees with the other ranks on loads, and holds agents, buffers, files and connections for them
//	play     prepares plans of loads and runs them
//	verify   checks every byte that a plan moves, by known ones
//	series   holds stamps and distributions, and the form in which they travel
//	record   gathers them at rank 0 on the common time line
//
// To add a kind of traffic, add a type to package load.
package traffic
