// Package scenarios holds the scenarios that are part of perigee. Each is also
// an example of the Lua API.
package scenarios

import (
	"embed"
	"strings"

	"perigee/internal/embedded"
)

//go:embed *.lua
var files embed.FS

// Names lists the shipped scenarios, sorted.
func Names() []string {
	return embedded.Names(files, ".")
}

// Source returns the text of a shipped scenario. Its name may be written with
// hyphens or underscores.
func Source(name string) (file, source string, ok bool) {
	file = strings.ReplaceAll(name, "-", "_") + ".lua"
	data, err := files.ReadFile(file)
	return file, string(data), err == nil
}
