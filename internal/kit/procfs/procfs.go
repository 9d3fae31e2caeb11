// Package procfs reads what the kernel shows of processes below /proc.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stat is a part of /proc/PID/stat.
type Stat struct {
	Name   string // the kernel's, of at most 15 characters, which may be any
	State  byte   // R, S, D, T (stopped), t (stopped by a debugger), Z, X ...
	Parent int    // 0 if it is in another PID namespace
	Start  uint64 // in clock ticks since the host has started
}

// Ended reports whether the process has ended, though it may not have been waited for.
func (s Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }

// Dir is the folder of a process of this PID namespace.
func Dir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// ReadStat reads the stat of the process that has a folder, such as /proc/4711.
func ReadStat(dir string) (Stat, error) {
	path := filepath.Join(dir, "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	s, ok := parse(data)
	if !ok {
		return Stat{}, fmt.Errorf("%s: %.80q is not what the kernel writes", path, data)
	}
	return s, nil
}

// parse reads the fields behind the name, which is in parentheses and may itself hold blanks and parentheses.
func parse(data []byte) (s Stat, ok bool) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return s, false
	}
	const state, parent, start = 0, 1, 19
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) <= start {
		return s, false
	}
	var errs [2]error
	s.Name, s.State = string(data[open+1:end]), fields[state][0]
	s.Parent, errs[0] = strconv.Atoi(fields[parent])
	s.Start, errs[1] = strconv.ParseUint(fields[start], 10, 64)
	return s, errs == [2]error{}
}

// OwnProgram is the file of this process's program.
const OwnProgram = "/proc/self/exe"

// Runs reports whether the process that has a folder runs the program in a file. The error says that it is not known
// what it runs.
func Runs(dir, program string) (bool, error) {
	wanted, err := os.Stat(program)
	if err != nil {
		return false, err
	}
	its, err := os.Stat(filepath.Join(dir, "exe"))
	return err == nil && os.SameFile(wanted, its), err
}
