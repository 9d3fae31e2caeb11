package file

import (
	"io/fs"
	"path"
	"strings"
)

// Stems lists the files of an embedded file system that match a pattern, sorted, by their names without folders and
// extensions. It panics if the pattern is malformed.
func Stems(files fs.FS, pattern string) []string {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err)
	}
	for i, name := range names {
		names[i] = strings.TrimSuffix(path.Base(name), path.Ext(name))
	}
	return names
}
