// Package regular says who else could have written what is loaded as code. It goes with the checks of package capi.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const mostLinks = 40 // as many as Linux follows

var errLoop = errors.New("too many symbolic links")

// Guarded returns an error, which names the place, unless what is found at a path is in the hands of root and this user
// alone: the file or folder itself, all folders above it, and all links on the way. No other user owns them, and
// neither a group of more than this user nor others may write to them; in a sticky folder such as /tmp only its owner
// can replace a file. In a container folders above, and links, may be of users outside, root included.
// What is in a folder is not looked at: others may have put it there earlier.
func Guarded(path string) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, steps, links := "/", append([]string{"."}, stepsOf(absolute)...), mostLinks
	var st unix.Stat_t
	for ; len(steps) > 0; steps = steps[1:] {
		if steps[0] == ".." {
			at = filepath.Dir(at) // there is no link in it
			continue
		}
		p := filepath.Join(at, steps[0])
		if err := unix.Lstat(p, &st); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if !trusted(st.Uid) && st.Uid != outsider() {
			return fmt.Errorf("%s belongs to user %d", p, st.Uid)
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFLNK:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			if links--; links < 0 {
				return fmt.Errorf("%s: %w", path, errLoop)
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			steps = append([]string{"."}, append(stepsOf(target), steps[1:]...)...)
			continue
		case OthersMayWrite(p, st.Mode, st.Gid) && !(kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0):
			return fmt.Errorf("%s can be written by its group or by others (mode %#o)", p, st.Mode&0o7777)
		}
		at = p
	}
	if err := unix.Lstat(at, &st); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if !trusted(st.Uid) {
		return fmt.Errorf("%s belongs to user %d", at, st.Uid)
	}
	return nil
}

// GuardedFolder is Guarded for a folder into which others can put no files either, as they can into a sticky one.
func GuardedFolder(dir string) error {
	if err := Guarded(dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if OthersMayWrite(dir, st.Mode, st.Gid) {
		return fmt.Errorf("%s can be written by its group or by others (mode %#o)", dir, st.Mode&0o7777)
	}
	return nil
}

func stepsOf(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
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
	return shared("/etc/group", "/etc/passwd", gid)
}

// shared reports whether a group has other members than the user of its number and name, as far as these lists say, or
// another name than that user: then it is no user's own, and a directory service may know other members.
func shared(groups, users string, gid uint32) bool {
	number := strconv.Itoa(int(gid))
	group, err := user.LookupGroupId(number)
	if _, unknown := errors.AsType[user.UnknownGroupIdError](err); err != nil && !unknown {
		return true
	}
	if err == nil {
		if own, err := user.LookupId(number); err != nil || own.Username != group.Name {
			return true
		}
	}
	return listed(groups, func(fields []string) bool { // name, password, number, members
		return len(fields) == 4 && fields[2] == number && fields[3] != "" && fields[3] != fields[0]
	}) || listed(users, func(fields []string) bool { // name, password, number, group ...
		return len(fields) > 3 && fields[3] == number && fields[2] != number
	})
}

// listed reports whether a line of a file is so.
func listed(file string, is func(fields []string) bool) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(text)) {
		if is(strings.Split(strings.TrimSpace(line), ":")) {
			return true
		}
	}
	return false
}

func trusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// outsider is the number of users who have none in this process's user namespace, or that of root, if all have one.
var outsider = sync.OnceValue(func() uint32 {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || string(bytes.Join(bytes.Fields(users), []byte(" "))) == "0 0 4294967295" {
		return 0
	}
	var number uint32 = 65534
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		fmt.Sscan(string(text), &number)
	}
	return number
})
