// Package kernel holds what both engines, nixl/capi and nixl/shm, ask of the Linux kernel, and what neither can take
// from the other.
//
// Memory (memory.go): Room refuses a buffer that does not fit into what the host has left, and Populate makes the pages
// of a mapping present, so that no page fault falls into a measurement and a lack of memory is an error of kind
// Resource here instead of a signal or the kernel's killer later. Human formats bytes for messages, in powers of 1024.
//
// Processes (process.go): a ProcessID names a process among all of all hosts, across the reuse of process ids, by the
// boot of its kernel, its namespaces, its pid and its start in clock ticks. It travels in an agent's card, as
// ProcessSize bytes. Watch waits for its end through a pidfd, which costs nothing until then; engines look at
// Watched.Gone where they would otherwise wait for a peer for ever.
//
// Files (queue.go): a Queue carries out one list of Requests at a time, each a piece of a file and of memory, with up
// to QueueDepth of them in the kernel. It speaks Linux AIO (aio.go) or io_uring (uring.go) by system calls alone, as no
// library for them need be installed where perigee runs. Start hands over a list, Step waits and reports the owners of
// requests that have moved all their bytes, Cancel gives up and waits until the kernel no longer uses the memory. A
// failed request is a *RequestError, which names its owner; a machine without an interface is an error of kind Resource
// with the other interface in its hint.
package kernel
