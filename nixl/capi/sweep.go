package capi

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// segments matches the files through which UCX's transport posix shares memory.
const segments = "/dev/shm/ucx_shm_posix_*"

// abandoned is how old a file must be before SweepOld removes it: jobs that start now have younger ones.
const abandoned = time.Minute

// Sweep removes what killed ranks of a job that began at since have left in /dev/shm, and returns the names. UCX leaves
// the file of a segment behind where a process is killed while it makes one. Sweep is for the launcher, after all ranks
// have ended.
func Sweep(since time.Time) (removed []string) { return remove(leftOver(segments, since, time.Now())) }

// SweepOld removes what earlier jobs of this user have left in /dev/shm, and returns the names. Some launchers kill all
// ranks at once, so that none is left to call Sweep. It is for the start of a job.
func SweepOld() (removed []string, err error) {
	left := leftOver(segments, time.Time{}, time.Now().Add(-abandoned))
	if len(left) == 0 {
		return nil, nil
	}
	if err := inContainer(); err != nil {
		return nil, err
	}
	return remove(left), nil
}

// initialPIDs is the inode of the namespace of all processes of a host (PROC_PID_INIT_INO of the kernel).
const initialPIDs = 0xEFFFFFFC

// inContainer is an error in a container. Its /dev/shm can be the host's, where jobs of this user run that cannot be
// seen from here.
func inContainer() error {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return err
	}
	if st.Ino != initialPIDs {
		return errors.New("in a container not all processes of the host can be seen")
	}
	return nil
}

// leftOver returns this user's segments that were made between two times and that no process has open or mapped, by
// their names. Processes into which this user cannot look are those of others, and use none of the user's files.
func leftOver(pattern string, from, to time.Time) map[string]string {
	left := map[string]string{}
	paths, _ := filepath.Glob(pattern) // only a malformed pattern is an error
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() &&
			!info.ModTime().Before(from) && !info.ModTime().After(to) {
			left[filepath.Base(path)] = path
		}
	}
	if len(left) == 0 {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			delete(left, filepath.Base(target))
		}
	}
	tables, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, table := range tables {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			delete(left, filepath.Base(strings.TrimSpace(line))) // a line ends with the file's path
		}
	}
	return left
}

// remove removes files, and returns the paths of those that it could remove.
func remove(left map[string]string) (removed []string) {
	for _, path := range left {
		if os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}
