package capi

import (
	"errors"
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

const segmentFolder = "/dev/shm"

const (
	// settled is how old a file must be before Sweep removes it: UCX removes the name of a file a moment after it has
	// made it.
	settled = time.Second
	// abandoned is how old a file must be before SweepOld removes it: jobs that start now have younger ones.
	abandoned = time.Minute
)

// Sweep removes what killed ranks of a job that began at since have left in /dev/shm, and returns the names. UCX leaves
// the file of a segment behind where a process is killed while it makes one. Sweep is for the launcher, after all ranks
// have ended. It waits for a second where a file is younger than that.
func Sweep(since time.Time) ([]string, error) {
	left, young, err := leftOver(segmentFolder, since, time.Now(), settled)
	if young {
		time.Sleep(settled)
		left, _, err = leftOver(segmentFolder, since, time.Now(), settled)
	}
	if err != nil {
		return nil, err
	}
	return remove(segmentFolder, left), nil
}

// SweepOld removes what earlier jobs of this user have left in /dev/shm, and returns the names. Some launchers kill all
// ranks at once, so that none is left to call Sweep. It is for the start of a job.
func SweepOld() ([]string, error) {
	left, _, err := leftOver(segmentFolder, time.Time{}, time.Now(), abandoned)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	if err := inContainer(); err != nil {
		return nil, err
	}
	return remove(segmentFolder, left), nil
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

// leftOver returns the names of this user's segments in dir that were made at or after since, have an age, and are not
// in use. young reports whether there are younger ones.
func leftOver(dir string, since, now time.Time, age time.Duration) (left map[string]bool, young bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	left = map[string]bool{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), segmentPrefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() || info.ModTime().Before(since) {
			continue
		}
		if now.Sub(info.ModTime()) < age {
			young = true
			continue
		}
		left[e.Name()] = true
	}
	if len(left) > 0 {
		dropUsed(left)
	}
	return left, young, err
}

// dropUsed drops the names of files that a process has open or mapped. Processes into which this user cannot look are
// those of others, and use none of the user's files.
func dropUsed(left map[string]bool) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // only a malformed pattern is an error
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
}

// remove removes files of a folder, and returns their paths.
func remove(dir string, names map[string]bool) (removed []string) {
	for name := range names {
		path := filepath.Join(dir, name)
		if os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}
