// Package shm is the transfer engine for ranks of one host: it copies, by the
// processor, straight between the buffers of two processes. It needs no
// library and no cgo.
//
// A buffer is an anonymous memory file (memfd) of sealed size. Its card names
// the owner's process and file descriptors; a peer opens them through /proc and
// maps the same pages. A transfer is then one copy by its initiator, into the
// target's memory (WRITE) or out of it (READ). The target does nothing and need
// not even run.
//
// The copy belongs to the initiator's own time: there is no post apart from it,
// so the stamps Start and Posted of a run are the same. Batch.Post copies in a
// goroutine, so that a script can do something in between.
//
// What a finished WRITE has stored is visible to the target as soon as the
// target learns by any synchronising means (a message, a barrier) that the run
// is over: the copy ends before End is stamped, and whatever carries the news
// orders the stores before it.
//
// Files are read and written through Linux AIO or io_uring, with up to 256 requests under way; Posted is then when the
// first of them, or all, have been handed to the kernel.
//
// A peer's death does not invalidate its pages: they live as long as a process maps
// them. So that a run does not keep writing to a dead peer, the engine watches for the exit of
// peers (pidfd), and the next run returns an error that names the peer.
//
// # Reading order
//
// shm.go has the agent, memory.go and buffer.go its memory, card.go how peers learn of it. batch.go copies, file.go
// reads and writes files, list.go prepares lists of descriptors. notice.go and inbox.go carry notices through memory
// of the receiver, in which each sender has a ring.
package shm
