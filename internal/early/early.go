//go:build cgo

// Package early does what must come before Go's runtime starts: it bounds GOMAXPROCS, and refuses limits and a
// GOMEMLIMIT with which the runtime would end the process with a dump and the exit code of a wrong command line. Import
// it for that; it exports nothing. Without cgo it is empty.
package early

// #cgo CFLAGS: -O2 -Wall -Wextra -std=gnu11
import "C"
