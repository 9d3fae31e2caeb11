// Package scenarios holds the scenarios that are part of perigee. Each is also
// an example of the Lua API.
package scenarios

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Names lists the shipped scenarios, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(names)
	return names
}

// Source returns the text of a shipped scenario. Its name may be written with
// hyphens or underscores.
func Source(name string) (file, source string, ok bool) {
	file = strings.ReplaceAll(name, "-", "_") + ".lua"
	data, err := files.ReadFile(file)
	return file, string(data), err == nil
}
