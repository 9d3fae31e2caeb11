package capi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// segmentPrefix begins the names of the files through which UCX's transport posix shares memory.
const segmentPrefix = "ucx_shm_posix_"

// settled is how old a segment's file must be before Sweep takes it for left over. UCX removes the name of a file a
// moment after it has made it.
const settled = time.Second

// Sweep removes what ranks that were killed while UCX made a segment have left in /dev/shm: files of this user that
// were made at or after since, the start of the job, and that no process of this host has open or mapped. It returns
// their names. It is for the launcher, after all ranks have ended; it costs one look at the
// user's processes if there is such a file, and a second if there is one that is younger than that, else nothing.
func Sweep(since time.Time) ([]string, error) {
	removed, young, err := sweep("/dev/shm", "/proc", since, time.Now())
	if err != nil || !young {
		return removed, err
	}
	time.Sleep(settled)
	late, _, err := sweep("/dev/shm", "/proc", since, time.Now())
	return append(removed, late...), err
}

// sweep is one look. young reports whether there are files that are too young to be removed now.
func sweep(dir, proc string, since, now time.Time) (removed []string, young bool, err error) {
	left, young, err := leftOver(dir, since, now)
	if err != nil || len(left) == 0 {
		return nil, young, err
	}
	if err := inUse(proc, left); err != nil {
		return nil, young, err
	}
	for id, path := range left {
		// Another file may have the name by now.
		if st, err := os.Lstat(path); err != nil || identity(st) != id {
			continue
		}
		if err := os.Remove(path); err == nil {
			removed = append(removed, path)
		}
	}
	return removed, young, nil
}

// fileID is a file on this host, whatever its name.
type fileID struct{ dev, inode uint64 }

func identity(st fs.FileInfo) fileID {
	sys := st.Sys().(*syscall.Stat_t)
	return fileID{uint64(sys.Dev), sys.Ino}
}

// leftOver lists the files that may have been left over, by identity.
func leftOver(dir string, since, now time.Time) (left map[fileID]string, young bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	left = map[fileID]string{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), segmentPrefix) {
			continue
		}
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() ||
			st.ModTime().Before(since) {
			continue
		}
		if now.Sub(st.ModTime()) < settled {
			young = true
			continue
		}
		left[identity(st)] = filepath.Join(dir, e.Name())
	}
	return left, young, err
}

// inUse drops the files that a process has open or mapped. Processes of other users, into which this one may not
// look, have none of its files.
func inUse(proc string, left map[fileID]string) error {
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		// Through the link: the name may be gone, the file is not.
		if st, err := os.Stat(link); err == nil {
			delete(left, identity(st))
		}
	}
	tables, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "maps"))
	if err != nil {
		return err
	}
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // the process has ended, or is another user's
		}
		for line := range strings.Lines(string(text)) {
			var major, minor uint32
			var inode uint64
			// address permissions offset device inode name
			_, err := fmt.Sscanf(line, "%s %s %s %x:%x %d", new(string), new(string), new(string), &major, &minor,
				&inode)
			if err == nil {
				delete(left, fileID{unix.Mkdev(major, minor), inode})
			}
		}
	}
	return nil
}
