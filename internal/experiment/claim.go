package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// claim is a result's place. Another job may write to the same file while this one runs:
// then the later of the two must not replace the result of the other and say that all is
// well. It takes a place beside it.
type claim struct {
	path string
	seen os.FileInfo // as it was at the beginning, or after the last write; nil if it was not there
}

func newClaim(path string) claim {
	c := claim{path: path}
	c.wrote()
	return c
}

// wrote notes that this job has written the file.
func (c *claim) wrote() { c.seen = regular(c.path) }

// regular describes a regular file; of a pipe or a device nothing can be said.
func regular(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

// move takes another place if another job has written to this one, and returns the old
// place, "" otherwise.
func (c *claim) move() (taken string) {
	now := regular(c.path)
	if now == nil || c.seen != nil && os.SameFile(now, c.seen) && now.ModTime().Equal(c.seen.ModTime()) {
		return ""
	}
	taken = c.path
	folder, name := filepath.Split(c.path)
	stem, ending, _ := strings.Cut(name, ".json")
	for n := 2; ; n++ {
		c.path = filepath.Join(folder, fmt.Sprintf("%s-%d.json%s", stem, n, ending))
		if _, err := os.Lstat(c.path); os.IsNotExist(err) {
			c.seen = nil
			return taken
		}
	}
}
