// Package embedded looks into the folders of files that are part of perigee.
package embedded

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Names lists the files of a folder without their extensions, sorted. A folder that
// is not there is a defect of perigee, and panics.
func Names(files fs.FS, folder string) []string {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(names)
	return names
}
