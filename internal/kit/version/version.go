// Package version says which perigee this is: the release, the commit that the Makefile sets at link time (or that go
// build has recorded), the Go release, and whether it was built with cgo, without which there is neither NIXL nor GPU
// memory. --version, every result, every log and every page name it. Nothing is imported here, so that all packages
// can.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is the release that this source becomes.
const Version = "0.1.0"

// Commit is set by the Makefile at link time.
var Commit = ""

// Build describes the binary.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed,omitempty"` // the sources were not those of the commit; else Commit may say so: -dirty
	Go      string `json:"go"`
	CGO     bool   `json:"cgo"` // without it there is no NIXL and no GPU memory
}

// String returns the release and, where it is known, the commit.
func (b Build) String() string {
	text := b.Version
	if b.Commit != "" {
		text += " " + b.Commit
	}
	if b.Changed {
		text += dirty
	}
	return text
}

// dirty is what git describe adds to a commit where sources were changed.
const dirty = "-dirty"

// Same reports whether two builds are of the same sources, whatever they were built for and with. Where neither knows
// its commit the releases decide.
func (b Build) Same(other Build) bool {
	mine, changed := b.source()
	theirs, alsoChanged := other.source()
	switch {
	case b.Version != other.Version:
		return false
	case mine == "" || theirs == "":
		return mine == theirs
	}
	return changed == alsoChanged && (strings.HasPrefix(mine, theirs) || strings.HasPrefix(theirs, mine))
}

// source is the commit, in as many digits as are known, or the tag, and whether the sources were changed since; "" if
// it is not known.
func (b Build) source() (commit string, changed bool) {
	commit, changed = strings.CutSuffix(b.Commit, dirty)
	if i := strings.LastIndex(commit, "-g"); i >= 0 { // TAG-NUMBER-gCOMMIT
		commit = commit[i+len("-g"):]
	}
	if commit == "unknown" {
		commit = ""
	}
	return commit, changed || b.Changed
}

// Get returns the description of the running binary.
func Get() Build {
	b := Build{Version: Version, Commit: Commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	given := b.Commit != ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && !given:
			b.Commit = s.Value
		case s.Key == "vcs.modified" && !given:
			b.Changed = s.Value == "true"
		case s.Key == "CGO_ENABLED":
			b.CGO = s.Value == "1"
		}
	}
	return b
}
