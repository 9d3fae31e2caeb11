// Package wire carries messages between ranks.
//
// An Endpoint is one rank's access to all others. Two implementations exist: TCP, and Memory, a network inside one
// process for tests and simulations. Messages from one rank on one channel arrive in the order in which they were
// sent.
//
// # Links
//
// Two ranks have one link, which carries messages both ways. The rank that first sends to the other dials all its
// addresses, each 200 ms after the one before it (Race), and confirms the first connection that stands. Where both dial
// at the same time the lower rank refuses the other's connection (see peer). A rank does not dial again after its link
// has ended: messages may be lost with it.
//
// # Handshake
//
// Both ends prove that they know the job's secret, over fresh nonces (see handshake.go); the last message admits the
// dialer, or says that it has reached another rank, or that the acceptor is dialling as well. A listener with a
// Challenge sends it first, for dialers that read the secret from it (munge). A connection whose
// other end has not proven the secret within ten seconds is closed, and no more of it is read than a message of fixed
// length. A listener runs at most 256 handshakes at a time; others wait in the kernel.
//
// # Frames
//
// After the handshake everything travels in frames: a head of 20 bytes and its tag, then a payload of up to 1 MiB and
// its tag. The head says which collective of which channel the message belongs to, so that a receiver notices a peer
// that is in another one. The tags are GMAC under a key per link and direction, and count the frames: a frame that was
// altered, repeated, left out or injected ends the link with ErrForged. Nothing is encrypted.
//
// Connections to a coordinator (package boot/watch) are the same frames read as a stream: Conn.
//
// # Waiting
//
// A receiver first looks at the link itself, giving up its core in between, then waits for the link in the kernel, and
// only after two milliseconds leaves it to the pump, which reads the links for which no receiver waits (pump.go).
// A message that comes soon costs neither a wake-up in Go's scheduler nor a timer, and since a link carries both
// directions its acknowledgement travels with the next message back.
//
// # Ends
//
// A link whose peer closes it, or whose host is gone, fails the receivers of that rank once what had arrived is
// consumed. Keep-alive, and on links with bytes under way a look at what the kernel repeats (silence.go), find a host
// that is gone or cut off within seven seconds. A shorter outage ends no link if it is over before the kernel's last
// repeat or probe of that time, 4 s after its begin at the earliest (3 s on Linux before 6.15, see repeatPause). A rank
// that is only stopped loses no link: its kernel answers for it.
package wire
