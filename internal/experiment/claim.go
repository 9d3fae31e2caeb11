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
	asked string      // as the user wants it
	path  string      // as it is now: asked, or beside it
	n     int         // of path, 0 for asked
	seen  os.FileInfo // as it was at the beginning, or after the last write; nil if it was not there
	free  bool        // nothing at all was there at the beginning
}

func newClaim(path string) claim {
	_, err := os.Lstat(path)
	return claim{asked: path, path: path, seen: regular(path), free: os.IsNotExist(err)}
}

// regular describes a regular file; of a pipe or a device nothing can be said.
func regular(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

// settle finds the place for the next write: another one if another job has written to this one, or if taken says
// that something has come there. isNew says that nothing was there when this job looked.
func (c *claim) settle(taken bool) (path string, isNew bool) {
	now := regular(c.path)
	if now == nil && (c.free || c.seen != nil) { // what has come since is not this job's, whatever it is
		_, err := os.Lstat(c.path)
		taken = taken || err == nil
	}
	if !taken && (now == nil || c.seen != nil && os.SameFile(now, c.seen) && now.ModTime().Equal(c.seen.ModTime())) {
		return c.path, c.seen == nil || now == nil
	}
	c.seen = nil
	for c.n = max(c.n, 1) + 1; ; c.n++ {
		c.path = numbered(c.asked, c.n)
		if _, err := os.Lstat(c.path); os.IsNotExist(err) {
			return c.path, true
		}
	}
}

// numbered is the n-th name for a result, from 1 on: the first is the one that was asked for.
func numbered(asked string, n int) string {
	if n == 1 {
		return asked
	}
	folder, name := filepath.Split(asked)
	stem, ending, _ := strings.Cut(name, ".json")
	return folder + fmt.Sprintf("%s-%d.json%s", stem, n, ending)
}
