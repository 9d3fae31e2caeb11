// Package memory reports how much memory a host can still give to this process.
package memory

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Available is what the kernel thinks can be taken without swapping, in bytes,
// and no more than what is left within the limits of the process's cgroups
// (version 2). root is the folder that holds proc and sys, so "/" but in tests.
// It fails where the kernel does not say.
func Available(root string) (int64, error) {
	available, err := keyedNumber(filepath.Join(root, "proc/meminfo"), "MemAvailable:")
	if err != nil {
		return 0, err
	}
	return min(available*1024, cgroupMemory(root)), nil
}

// cgroupMemory is what the process's cgroup and those above it leave to it.
func cgroupMemory(root string) int64 {
	left := int64(math.MaxInt64)
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return left
	}
	for line := range strings.Lines(string(data)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
			left = min(left, cgroupLeft(filepath.Join(root, "sys/fs/cgroup", path)))
			if path == "/" {
				break
			}
		}
	}
	return left
}

// cgroupLeft is the limit of one cgroup without what cannot be reclaimed of its use.
func cgroupLeft(folder string) int64 {
	limit, err := number(filepath.Join(folder, "memory.max"))
	if err != nil { // "max" is no number and no limit
		return math.MaxInt64
	}
	used, err := number(filepath.Join(folder, "memory.current"))
	if err != nil {
		return math.MaxInt64
	}
	for _, key := range []string{"active_file", "inactive_file"} {
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
