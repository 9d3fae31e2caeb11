// Package traffic is the middle of perigee: it moves bytes between ranks as a description says, and measures how long
// that takes. It has no code; its parts do.
//
// Every benchmark is a description from which each rank can compute what every rank transfers, and takes the same way.
// Read the parts in this order:
//
//	matrix   counts the bytes that each rank sends to each other
//	load     describes traffic by pure functions: Pattern, Blocks, Exchange
//	session  agrees with the other ranks on loads, and holds agents, buffers, files and connections for them
//	play     prepares plans of loads, runs them, verifies every byte where asked, and gathers the times at rank 0
//	series   holds stamps and distributions, and the form in which they travel
//	overlap  finds messages of different patterns that ran at the same time
//
// load, series and overlap touch no memory, network or file, and matrix no more than the file that Load reads, so
// tests and the simulation of tools/simulate use them as they are, and tools that read results import matrix and
// series without any transport. session and play join a world (package spmd), which knows no transfers, with an engine
// (package nixl), which knows no ranks.
//
// Units are the same in all parts: bytes; nanoseconds, of the host's own clock until play puts stamps on the common
// time line of rank 0's host; ranks from 0. What a user did wrong is a fault with the kind Script or Input, what an
// engine cannot do one of the kind Engine, Resource, Timeout or RankLost.
//
// To add a kind of traffic, add a type to package load: memory, connections, timing, gathering and verification come
// with it.
package traffic
