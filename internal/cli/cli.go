// Package cli holds what a command is given by main instead of reaching for
// it itself, so that every command runs in a test's process.
package cli

import "io"

// Streams are a command's surroundings. main binds one for kong, and a
// command's Run method takes it as an argument.
type Streams struct {
	In  io.Reader
	Out io.Writer // what was asked for
	Err io.Writer // what is said about it

	// Env returns the value of an environment variable, "" where it is unset.
	Env func(name string) string
}
