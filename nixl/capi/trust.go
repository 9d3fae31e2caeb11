package capi

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

// untrusted reports who else could have put a library, or its plugins, where they are: another user than this one and
// root owns a part of the path, or the group or others may write there. In a sticky folder such as /tmp only the
// owner can replace a file.
func untrusted(path string) error {
	paths := []string{path}
	if plugins := filepath.Join(filepath.Dir(path), "plugins"); exists(plugins) {
		paths = append(paths, plugins)
	}
	for _, p := range paths {
		absolute, err := filepath.Abs(p)
		if err == nil {
			err = untrustedWay(absolute, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSettings refuses to go on where UCX would read a ucx.conf that another user could have written: it may name a
// folder of modules, whose code UCX runs. UCX looks into home and into the current folder. What is put there after this
// is not noticed.
func checkSettings(home string) error {
	for _, dir := range []string{home, "."} {
		path := filepath.Join(dir, "ucx.conf")
		if dir == "" || !exists(path) {
			continue
		}
		if err := untrusted(path); err != nil {
			return fault.New(fault.Engine, "UCX would read %s, and run the modules that it names: %w", path, err).
				WithHint("remove it, or take it over (chown, chmod go-w), or start in another folder")
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// maxLinks is how many symbolic links the kernel follows.
const maxLinks = 40

// untrustedWay looks at an absolute path and all folders above it, and at the ways of the links in it.
func untrustedWay(path string, links int) error {
	if links > maxLinks {
		return fmt.Errorf("%s: %w", path, unix.ELOOP)
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
			if err := untrustedWay(target, links+1); err != nil {
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
