package regular

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrOutside is the error of a file that is in none of the folders in which it may be, whether it is there or not.
var ErrOutside = errors.New("it is outside of the folders from which it may be read")

// Folders are folders below which files may be read, absolute and without links. Hidden files and folders in them,
// whose names begin with a dot, are not among these: in a home they hold what only other programs should read. Names
// that begin with two dots are not hidden: so Kubernetes names the folders of its volumes.
type Folders []string

// Inside allows what is below one folder.
func Inside(folder string) Folders {
	f := Folders{}
	f.Add(folder)
	return f
}

// Add adds a folder: the one that the path leads to now. One that leads nowhere allows nothing.
func (f *Folders) Add(folder string) {
	if at, err := unlinked(folder); err == nil {
		*f = append(*f, at)
	}
}

// Hold reports whether a file, or what it links to, is below one of the folders.
func (f Folders) Hold(path string) bool {
	at, err := unlinked(path)
	return err == nil && f.have(at)
}

// HoldOpen is Hold for an open file: there may be a link in the place of its name since.
func (f Folders) HoldOpen(file *os.File) bool {
	at, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Fd()))
	return err == nil && f.have(at)
}

// Open is [Open] of a file below one of the folders; the error of another wraps ErrOutside.
func (f Folders) Open(path string) (*os.File, error) {
	if !f.Hold(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrOutside}
	}
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	if !f.HoldOpen(file) {
		file.Close()
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrOutside}
	}
	return file, nil
}

// Read is [Read] of a file below one of the folders; the error of another wraps ErrOutside.
func (f Folders) Read(path string, most int64) ([]byte, error) {
	file, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, most)
}

// FolderOf is the folder of a file. Unlike that of filepath.Dir it is the one in which the kernel finds the file, also
// where the path has a link before "..".
func FolderOf(path string) string {
	folder, _ := filepath.Split(path)
	named := false
	for part := range strings.SplitSeq(folder, "/") {
		if part == ".." && named {
			if at, err := unlinked(folder); err == nil {
				return at
			}
			return folder // which is not there
		}
		named = named || part != "" && part != "." && part != ".."
	}
	return filepath.Dir(path)
}

// Beside is the path of what a file names relative to its folder, as the kernel finds it.
func Beside(file, path string) string {
	folder := FolderOf(file)
	if folder != "." && strings.Contains(path, "..") {
		return folder + "/" + path // the folder may be a link, of which nothing is left when the path is cleaned
	}
	return filepath.Join(folder, path)
}

// have is Hold for an absolute path without links.
func (f Folders) have(path string) bool {
	return slices.ContainsFunc(f, func(folder string) bool {
		rel, err := filepath.Rel(folder, path)
		return err == nil && rel != ".." && !strings.HasPrefix(rel, "../") && !hidden(rel)
	})
}

// hidden reports whether a part of a clean relative path is hidden.
func hidden(rel string) bool {
	for part := range strings.SplitSeq(rel, "/") {
		if part != "." && strings.HasPrefix(part, ".") && !strings.HasPrefix(part, "..") {
			return true
		}
	}
	return false
}

// unlinked is an absolute path without links, as far as its folders are there. It follows a path as the kernel does:
// behind a link ".." is the folder above the one that the link leads to.
func unlinked(path string) (string, error) {
	if !filepath.IsAbs(path) {
		folder, err := os.Getwd()
		if err != nil {
			return "", err
		}
		path = folder + "/" + path
	}
	for rest, at := "", path; ; {
		full, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(full, rest), nil
		}
		at = strings.TrimRight(at, "/")
		_, linked := os.Readlink(at)
		folder, name := filepath.Split(at)
		if linked == nil || folder == "" || name == ".." {
			return "", err // a link to nowhere, or a folder in it: a file might appear there
		}
		rest, at = filepath.Join(name, rest), folder
	}
}
