package capi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// segmentPrefix begins the names of the files through which UCX's transport posix shares memory.
const segmentPrefix = "ucx_shm_posix_"

const (
	folder    = "/dev/shm"
	processes = "/proc"
)

// settled is how old a segment's file must be before Sweep takes it for left over. UCX removes the name of a file a
// moment after it has made it.
const settled = time.Second

// abandoned is how old a file must be before SweepOld takes it for one of an earlier job.
const abandoned = time.Minute

// lately is how young a file must be for Sweep to remove it where this process may not see all that could use it,
// such as another container's with the same /dev/shm: one that a rank left behind was made a moment before the rank
// was killed.
const lately = 15 * time.Second

// Sweep removes what ranks that were killed while UCX made a segment have left in /dev/shm: files of this user that
// were made at or after since, the start of the job, and that no process of this host has open or mapped. It returns
// their names. It is for the launcher, after all ranks have ended; it costs one look at the
// user's processes if there is such a file, and a second if there is one that is younger than that, else nothing.
func Sweep(since time.Time) ([]string, error) {
	now := time.Now()
	if old, _, err := leftOver(folder, since, now, lately); err == nil && len(old) > 0 &&
		(seesHost(processes) != nil || seesOwn(processes) != nil) {
		since = now.Add(-lately)
	}
	removed, young, err := sweep(folder, processes, since, time.Now())
	if err != nil || !young {
		return removed, err
	}
	time.Sleep(settled)
	late, _, err := sweep(folder, processes, since, time.Now())
	return append(removed, late...), err
}

// SweepOld removes what jobs of this user have left that ended long ago: some launchers kill all ranks at once, so
// that none is left to call Sweep. It returns the names. It is for the start of a job, and costs nothing if there is
// no such file. Nothing is removed, and the error says why, where this process may not see all that could use the
// files.
func SweepOld() ([]string, error) {
	left, _, err := leftOver(folder, time.Time{}, time.Now(), abandoned)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	if err := seesHost(processes); err != nil {
		return nil, err
	}
	return sweepOld(processes, left)
}

// sweepOld is SweepOld on a host all of whose processes have a folder in proc.
func sweepOld(proc string, left map[fileID]string) ([]string, error) {
	if err := seesOwn(proc); err != nil {
		return nil, err
	}
	return remove(proc, left)
}

// initialPIDs is the inode of the namespace of all processes of a host (PROC_PID_INIT_INO of the kernel).
const initialPIDs = 0xEFFFFFFC

// seesHost reports why there may be processes on this host that have no folder in proc: those outside of a container,
// which may have the same /dev/shm, and those that its option hidepid hides.
func seesHost(proc string) error {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(proc, "self/ns/pid"), &st); err != nil {
		return err
	}
	if st.Ino != initialPIDs {
		return errors.New("in a container not all processes of the host can be seen")
	}
	_, err := os.ReadFile(filepath.Join(proc, "1/status"))
	return err
}

// seesOwn reports why inUse may not find all that processes of this user have open or mapped: a process with other
// capabilities, or one that has made itself private, lets no other look.
func seesOwn(proc string) error {
	list, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return err
	}
	for _, p := range list {
		if filepath.Base(p) == "1" {
			continue // init is no rank, and is closed to root in some machines
		}
		if err := seesProcess(p); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// seesProcess is seesOwn for one process. One that has ended is an error of the kinds that seesOwn passes over.
func seesProcess(p string) error {
	status, err := os.ReadFile(filepath.Join(p, "status"))
	if err != nil {
		return err
	}
	own, threads, ended := false, "", false
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch value := strings.Fields(value); key {
		case "Uid":
			own = slices.Contains(value, strconv.Itoa(os.Geteuid()))
		case "Threads":
			threads = strings.Join(value, " ")
		case "State":
			ended = len(value) > 0 && (value[0] == "Z" || value[0] == "X")
		}
	}
	switch {
	case !own:
		return nil
	case ended && threads != "0" && threads != "1":
		return fmt.Errorf("%s: its first thread has ended, so that its files cannot be seen", p)
	case ended:
		return nil
	}
	if _, err := os.ReadDir(filepath.Join(p, "fd")); err != nil {
		return err
	}
	_, err = os.ReadFile(filepath.Join(p, "maps"))
	return err
}

// sweep is one look. young reports whether there are files that are too young to be removed now.
func sweep(dir, proc string, since, now time.Time) (removed []string, young bool, err error) {
	left, young, err := leftOver(dir, since, now, settled)
	if err != nil || len(left) == 0 {
		return nil, young, err
	}
	removed, err = remove(proc, left)
	return removed, young, err
}

// remove removes the files that no process uses.
func remove(proc string, left map[fileID]string) (removed []string, err error) {
	if err := inUse(proc, left); err != nil {
		return nil, err
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
	return removed, nil
}

// fileID is a file on this host, whatever its name.
type fileID struct{ dev, inode uint64 }

func identity(st fs.FileInfo) fileID {
	sys := st.Sys().(*syscall.Stat_t)
	return fileID{uint64(sys.Dev), sys.Ino}
}

// leftOver lists the files that may have been left over, by identity: those of at least an age.
func leftOver(dir string, since, now time.Time, age time.Duration) (left map[fileID]string, young bool, err error) {
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
		if now.Sub(st.ModTime()) < age {
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
