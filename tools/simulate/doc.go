// Package simulate is `perigee simulate`: it counts what the ranks of a large job send each other, without that job.
//
// The ranks are the real ones: they report to a coordinator, meet, compare clocks and prepare patterns with the code of
// every job, and their messages are framed as on a link. Only the links are memory, and no engine moves the bytes. So
// the counts are those of a real job of thousands of ranks, in messages and bytes by phase, and show that it works at
// all; how long it would take they do not show.
//
// run.go lets the ranks meet and counts, by wrapping their connections. engine.go has the engine that prepares
// everything and moves nothing; its cards have the size of real ones. workload.go reads the patterns of
// sequential-ct-perftest, or makes one up, and computes from pauses and meetings alone when each pattern starts at the
// earliest. memory.go estimates what a simulation takes from measurements, and refuses what does not fit, of kind
// Resource.
//
// The simulated ranks share what is equal at all, such as the ledger of sessions and the digests of patterns: a copy
// for each of ten thousand ranks would take the memory of a cluster.
package simulate
