package file

import (
	"os"
	"path/filepath"
	"strings"
)

// SamePlace reports whether two paths name one place, whether or not there is a file yet.
func SamePlace(a, b string) bool {
	a, b = placeOf(a), placeOf(b)
	return a == b || filepath.Base(a) == filepath.Base(b) && Same(filepath.Dir(a), filepath.Dir(b))
}

// Below reports whether a path names a place in a folder, or in one below it.
func Below(path, folder string) bool {
	folder = placeOf(folder)
	for at := placeOf(path); ; at = filepath.Dir(at) {
		if at == folder || Same(at, folder) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// Same reports whether two paths lead to one file or folder, which may be mounted in several places.
func Same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// placeOf is the absolute path of a place, without links as far as there are files. What ".." leads to after a link the
// file system knows.
func placeOf(path string) string {
	if !filepath.IsAbs(path) {
		wd, _ := os.Getwd() // fails where the current folder is gone, and nothing can lie in it
		path = wd + "/" + path
	}
	for folder, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			return filepath.Join(real, rest)
		}
		folder = strings.TrimRight(folder, "/")
		cut := strings.LastIndexByte(folder, '/')
		folder, rest = folder[:cut+1], filepath.Join(folder[cut+1:], rest)
	}
}
