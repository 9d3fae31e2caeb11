//go:build cgo

// Package early does what Go's runtime does not: before it starts, GOMAXPROCS is bounded, and a GOMEMLIMIT that it
// cannot read, and too few descriptors for it, are refused; and where it gets no memory or no thread, now or later, the
// process ends with a line and its own exit code, where the runtime would end it with a dump and the code of a wrong
// command line. Import it for that. Without cgo it does nothing.
package early

// #cgo CFLAGS: -O2 -Wall -Wextra -std=gnu11
// #cgo LDFLAGS: -Wl,--wrap=mmap -Wl,--wrap=fatalf -Wl,--wrap=abort
// extern _Bool perigee_stdout_closed;
import "C"

// StdoutClosed reports whether the process was started without a standard output. The runtime has opened /dev/null in
// its place, where what is written is lost.
func StdoutClosed() bool { return bool(C.perigee_stdout_closed) }
