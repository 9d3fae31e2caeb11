package regular

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Guarded returns an error, which names the place, unless what is found at a path is in the hands of root and this user
// alone: the file or folder itself, all folders above it, and all links on the way. No other user owns them, and
// neither a group nor others may write to them; in a sticky folder such as /tmp only its owner can replace a file.
// What is in a folder is not looked at: others may have put it there earlier.
func Guarded(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return guarded(absolute, 0)
}

func guarded(path string, links int) error {
	if links > mostLinks {
		return fmt.Errorf("%s: %w", path, errLoop)
	}
	for p := path; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d", p, st.Uid)
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFLNK:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(p), target)
			}
			if err := guarded(target, links+1); err != nil {
				return err
			}
		case st.Mode&0o022 != 0 && !(kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0):
			return fmt.Errorf("%s can be written by its group or by others (mode %#o)", p, st.Mode&0o7777)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}
