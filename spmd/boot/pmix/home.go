package pmix

import (
	"os"
	"path/filepath"

	"perigee/internal/regular"
)

// safeHome reports whether PMIx may look for its settings and components in a home: it runs what is there. That holds
// where only root and this user can have put any of it there, or can put some there later.
func safeHome(home string) bool {
	own := filepath.Join(home, ".pmix")
	for _, dir := range []string{home, own, filepath.Join(own, "components")} {
		if _, err := os.Lstat(dir); err != nil && dir != home {
			return true // no other user can make it
		}
		if regular.GuardedFolder(dir) != nil {
			return false
		}
		if dir == home {
			continue
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			return false
		}
		for _, f := range files {
			if !f.IsDir() && regular.Guarded(filepath.Join(dir, f.Name())) != nil {
				return false
			}
		}
	}
	return true
}
