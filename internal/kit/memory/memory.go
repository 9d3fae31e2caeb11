// Package memory asks the kernel for memory: how much this process can still get, and files that live in memory alone.
//
// Available, Usable, Limited and Room (memory.go) serve plans: a session adds up the buffers of all ranks of a host and
// refuses a job that does not fit, as the kernel would otherwise kill one of its processes half way, without a word.
// All three count bytes. Available is the lower of MemAvailable in /proc/meminfo and the room below the limits of all
// cgroups above the process, where page cache counts as room since the kernel can take it back. Limited looks at
// ulimit, and names the command that shows the limit. Neither knows what other processes take a moment later, so a plan
// uses four fifths of it.
//
// CreateFile, SealFile and OpenFile (file.go) make memory that processes of one host share: the segments of ranks in
// spmd/host, the buffers of nixl/shm, and the job's secret in spmd/boot. A memory file has no name in any file system,
// so it is gone with the last process that holds it, however that ended, and no other user can make one of the same
// name before. Another process opens it as /proc/PID/fd/FD, where the kernel lets only the same user, and root, do so;
// the two numbers travel in the card of the process that made it. Its size is sealed before it is announced, since an
// access behind the end of a file that has shrunk ends the process with SIGBUS.
package memory

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Available returns the memory that the kernel thinks can be taken without swapping, in bytes,
// and no more than what is left within the limits of the process's cgroups, of
// version 1 or 2. root is the folder that holds proc and sys, so "/" but in tests.
// It fails where the kernel does not say.
func Available(root string) (int64, error) {
	available, err := keyedNumber(filepath.Join(root, "proc/meminfo"), "MemAvailable:")
	if err != nil {
		return 0, err
	}
	return min(available*1024, cgroupMemory(root)), nil
}

// Usable is the part of the available memory that work may be planned to take: what plans leave out, and the rest of
// the host, need some, too.
func Usable(available int64) int64 { return available / 5 * 4 }

// Room returns how many bytes a process may take at once, such as a text or a list of a scenario: Usable of those that
// are available, or half of what a limit of the process leaves, with the command that shows that limit, if it is less.
// Go's runtime ends a process that asks for what it does not get.
func Room(root string) (bytes int64, command string) {
	bytes = math.MaxInt64
	if available, err := Available(root); err == nil {
		bytes = Usable(available)
	}
	if left, name := Limited(); left/2 < bytes {
		return left / 2, name
	}
	return bytes, ""
}

// Limited returns the bytes that the limits on this process's address space and data leave to it, and the command
// that shows the tighter of them; without limits it is math.MaxInt64, and none.
func Limited() (left int64, command string) {
	left = math.MaxInt64
	for _, l := range []struct {
		resource     int
		key, command string
	}{{unix.RLIMIT_AS, "VmSize:", "ulimit -v"}, {unix.RLIMIT_DATA, "VmData:", "ulimit -d"}} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(l.resource, &limit); err != nil || limit.Cur > math.MaxInt64 {
			continue
		}
		if used, err := keyedNumber("/proc/self/status", l.key); err == nil {
			if n := max(int64(limit.Cur)-used*1024, 0); n < left {
				left, command = n, l.command
			}
		}
	}
	return left, command
}

// cgroupMemory returns the bytes that the process's cgroup and those above it leave to it.
func cgroupMemory(root string) int64 {
	left := int64(math.MaxInt64)
	for _, folder := range Cgroups(root, "memory") {
		left = min(left, version1.leftIn(folder), version2.leftIn(folder))
	}
	return left
}

// Cgroups returns the folders of the process's cgroup and those above it that can have a controller's files, of version
// 1 or 2. In a container the path may be the host's: then only the top is there, which is the container's own.
func Cgroups(root, controller string) (folders []string) {
	data, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it there are none
	for line := range strings.Lines(string(data)) {
		// NUMBER:CONTROLLERS:PATH, where version 2 has number 0 and no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		top := ""
		switch {
		case slices.Contains(strings.Split(parts[1], ","), controller):
			if top = controller; !isThere(filepath.Join(root, "sys/fs/cgroup", top)) {
				top = parts[1] // some containers lack the link from cpu to cpu,cpuacct
			}
		case parts[0] != "0" || parts[1] != "":
			continue
		}
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			folders = append(folders, filepath.Join(root, "sys/fs/cgroup", top, path))
			if path == "/" {
				break
			}
		}
	}
	return folders
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// version holds the names of the files of a version of cgroups.
type version struct {
	limit, used string
	cached      []string // keys of memory.stat that can be reclaimed
}

var (
	version1 = version{
		"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"},
	}
	version2 = version{"memory.max", "memory.current", []string{"active_file", "inactive_file"}}
)

// leftIn is the limit of one cgroup without what cannot be reclaimed of its use.
func (v version) leftIn(folder string) int64 {
	limit, err := number(filepath.Join(folder, v.limit))
	if err != nil { // "max" is no number and no limit
		return math.MaxInt64
	}
	used, err := number(filepath.Join(folder, v.used))
	if err != nil {
		return math.MaxInt64
	}
	for _, key := range v.cached {
		if cached, err := keyedNumber(filepath.Join(folder, "memory.stat"), key); err == nil {
			used -= cached
		}
	}
	return max(limit-max(used, 0), 0)
}

func number(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// keyedNumber finds the line that begins with a key, and its number.
func keyedNumber(path, key string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, errors.New(path + " has no " + key)
}
