package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// litter lists the shared places in which perigee or its libraries could leave
// something. Temporary files need no list: each process has its own folder.
type litter map[string][]string

func lookForLitter() litter {
	return litter{shm: Names(shm), sysV: abandoned()}
}

const (
	shm  = "/dev/shm"
	sysV = "/proc/sysvipc/shm" // the kernel's list of System V shared memory
)

// abandoned returns the IDs of the shared memory that no process has attached.
func abandoned() []string {
	data, _ := os.ReadFile(sysV)
	var list []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 6 && f[6] == "0" {
			list = append(list, "ucx "+f[1])
		}
	}
	return list
}

// check fails the test if there is litter that was not there before. What a
// living process holds is no litter: it is that of another test or program.
func (l litter) check(t testing.TB) {
	t.Helper()
	for dir, now := range lookForLitter() {
		for _, name := range now {
			if slices.Contains(l[dir], name) {
				continue
			}
			ours := strings.Contains(name, "perigee") || strings.Contains(name, "ucx") || strings.Contains(name, "nixl")
			if ours && !held(filepath.Join(dir, name)) {
				t.Errorf("%s is left behind", filepath.Join(dir, name))
			}
		}
	}
}

// held reports whether a file is gone after all, or open or mapped in a process.
// UCX opens a file some time before it maps it, and removes its name then.
func held(path string) bool {
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && target == path {
			return true
		}
	}
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, m := range maps {
		if data, err := os.ReadFile(m); err == nil && bytes.Contains(data, []byte(path)) {
			return true
		}
	}
	if strings.HasPrefix(path, sysV) {
		return !slices.Contains(abandoned(), filepath.Base(path))
	}
	_, err := os.Stat(path)
	return err != nil
}
