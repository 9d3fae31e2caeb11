// Package version says which perigee this is.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is set by the Makefile at link time; without it, it is what the Go
// command knows.
var Version = ""

// Build describes the binary.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	CGO     bool   `json:"cgo"`
}

// Get returns the description of the running binary.
func Get() Build {
	b := Build{Version: Version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "CGO_ENABLED":
			b.CGO = s.Value == "1"
		}
	}
	return b
}
