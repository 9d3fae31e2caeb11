// Package scenarios holds the scenarios that are part of perigee. Each is also an example of the Lua API, and
// described in docs/scenarios.md.
//
// A scenario is a Lua file: it declares its options in a list at its top, and its function run is called on every rank
// with their values. To add one, add a file here; `perigee scenarios` lists it, and completion, manual pages and
// `perigee run NAME --help` know its options. The files are embedded, so that a single binary runs on hosts that have
// nothing else.
package scenarios

import (
	"embed"
	"strings"

	"perigee/internal/kit/file"
)

//go:embed *.lua
var files embed.FS

// Names lists the shipped scenarios, sorted.
func Names() []string { return file.Stems(files, "*.lua") }

// Source returns the text of a shipped scenario. Its name may be written with
// hyphens or underscores.
func Source(name string) (file, source string, ok bool) {
	file = strings.ReplaceAll(name, "-", "_") + ".lua"
	data, err := files.ReadFile(file)
	return file, string(data), err == nil
}
