//go:build !cgo

package early

// StdoutClosed is not known.
func StdoutClosed() bool { return false }
