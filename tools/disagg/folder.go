package disagg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// guard refuses a folder of ledgers or jobs that anybody else than root and this user could change, now or when what is
// in it was put there: its jobs run scripts from it as this user, and its ledgers say which jobs are there. A folder
// that does not exist yet is as good as the one that it will be made in.
func (f Folder) guard(dir string) error {
	err := f.guarded(dir)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return fault.New(fault.Output, "the output folder: %w", err).WithHint("--output or OUTPUT_PATH names another one")
	}
	return fault.New(fault.Output, "%w: others could change the scripts of jobs, which run as you", err).
		WithHint("take it over (chown, chmod go-w), let --output or OUTPUT_PATH name a folder that only you can change, " +
			"or trust those who can change this one with --trust-output")
}

// guarded is guard; its error is one of the system where it could not find out.
func (f Folder) guarded(dir string) error {
	if f.Trust {
		return nil
	}
	there := dir
	for {
		_, err := os.Lstat(there)
		if !errors.Is(err, fs.ErrNotExist) || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	err := regular.Guarded(there)
	if err == nil && there == dir {
		err = guardInside(dir)
	}
	return err
}

// guardInside refuses an existing folder to which others may write, even if they cannot replace each other's files
// there, and one that holds what another user has made.
func guardInside(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	if regular.OthersMayWrite(dir, st.Mode, st.Gid) {
		return fmt.Errorf("%s can be written by its group or by others (mode %#o)", dir, info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // gone by now
			continue
		}
		if err != nil {
			return err
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d", filepath.Join(dir, e.Name()), uid)
		}
	}
	return nil
}

// checkPlace refuses what has a name and is not what it is wanted to be. No link is followed. What cannot be looked at
// cannot be written either, which shows then.
func checkPlace(path, wanted string, is func(fs.FileMode) bool) error {
	info, err := os.Lstat(path)
	if err != nil || is(info.Mode()) {
		return nil
	}
	got := "another kind of file"
	if info.Mode()&fs.ModeSymlink != 0 {
		got = "a link"
	}
	return fault.New(fault.Output, "%s: wanted %s, got %s", path, wanted, got).
		WithHint("move it away, or let --output or OUTPUT_PATH name another folder")
}
