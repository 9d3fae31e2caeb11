// Package version says which perigee this is: the release, the commit that the Makefile sets at link time (or that go
// build has recorded), the Go release, and whether it was built with cgo, without which there is neither NIXL nor GPU
// memory. --version, every result, every log and every page name it. Nothing is imported here, so that all packages
// can.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is the release that this source becomes.
const Version = "0.1.0"

// Commit is set by the Makefile at link time.
var Commit = ""

// Build describes the binary.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	CGO     bool   `json:"cgo"` // without it there is no NIXL and no GPU memory
}

// String returns the release and, where it is known, the commit.
func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	return b.Version + " " + b.Commit
}

// Get returns the description of the running binary.
func Get() Build {
	b := Build{Version: Version, Commit: Commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && b.Commit == "":
			b.Commit = s.Value
		case s.Key == "CGO_ENABLED":
			b.CGO = s.Value == "1"
		}
	}
	return b
}
