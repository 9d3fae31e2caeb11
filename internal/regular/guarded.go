package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Guarded returns an error, which names the place, unless what is found at a path is in the hands of root and this user
// alone: the file or folder itself, all folders above it, and all links on the way. No other user owns them, and
// neither a group of more than this user nor others may write to them; in a sticky folder such as /tmp only its owner
// can replace a file.
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
		case OthersMayWrite(p, st.Mode, st.Gid) && !(kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0):
			return fmt.Errorf("%s can be written by its group or by others (mode %#o)", p, st.Mode&0o7777)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// OthersMayWrite reports whether a file or folder of this mode and group can be written by more users than its owner
// and root. A group may be the owner's alone: many systems give each user one of the user's number, and a umask of 002.
func OthersMayWrite(path string, mode, gid uint32) bool {
	const others, group = 0o002, 0o020
	if mode&others != 0 {
		return true
	}
	if mode&group == 0 {
		return false
	}
	if int(gid) != os.Geteuid() {
		return true
	}
	// With an access control list these bits are only a mask of what the list allows.
	if n, err := unix.Lgetxattr(path, "system.posix_acl_access", nil); err == nil && n > 0 {
		return true
	}
	return shared(groupsFile, gid)
}

const groupsFile = "/etc/group"

// shared reports whether a list of groups has other members for a group than the user of the group's name.
func shared(file string, gid uint32) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":") // name, password, number, members
		if len(fields) != 4 || fields[2] != strconv.Itoa(int(gid)) {
			continue
		}
		if fields[3] != "" && fields[3] != fields[0] {
			return true
		}
	}
	return false
}
