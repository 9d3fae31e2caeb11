// Package nixl moves bytes between the buffers of agents, one agent per rank. Two engines implement the same
// interfaces: capi drives NVIDIA's NIXL library (loaded at run time), and shm copies through memory shared by the
// processes of one host. The package has no notion of worlds or scripts: a peer is a number, and what a peer needs in
// order to reach an agent's buffers is the agent's card, a few opaque bytes that the caller sends to the peer.
//
// The life of an agent: Alloc the buffers, pass each peer's Card to AddPeer, Connect and Poll until Connected, prepare
// batches, run them any number of times, Close. A live agent can Disconnect from peers, which is also how to leave out
// a peer that died, and connect again. Notices are short messages between agents, ordered with the transfers to the
// same peer.
//
// Read nixl.go for the interfaces, which are the promises of every engine; package nixltest proves them, and a new
// engine is one that passes it. poll.go and pipeline.go have the two loops that are the same for all engines: waiting
// for what needs an agent to make progress, and keeping several runs of the same transfers under way. check.go has the
// checks of descriptors that both engines make, so that both word them alike.
//
// Sizes and offsets are bytes. Stamps are nanoseconds of CLOCK_MONOTONIC, which all processes of a host share (package
// clock); an engine takes them itself, as close to the transfer as it can, for capi in C. An agent is for one
// goroutine at a time, so that no lock of ours lies in the measured time.
//
// A wait ends early with ErrAborted, when the caller's flag is set, or with a *TimeoutError that names the peers that
// are not through. Either makes the batch unusable, as bytes of it may still arrive; its memory stays until the agent
// is closed. Other errors are faults of the kinds Engine, Resource, RankLost and Usage.
package nixl
