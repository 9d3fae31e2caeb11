package ancestry

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoListener says that no process of this network namespace listens on a port.
var ErrNoListener = errors.New("no process listens on it")

// Listener returns the process of this network namespace that listens on a TCP port.
// Only processes of the same user can be found. Of several with the same socket it is
// the one with the lowest number: the one that the others were forked from.
func Listener(port int) (pid int, err error) { return listener("/proc", port) }

func listener(proc string, port int) (int, error) {
	sockets := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		err := listening(filepath.Join(proc, "self", "net", table), port, sockets)
		if err != nil && (table == "tcp" || !os.IsNotExist(err)) { // a kernel without IPv6 has no tcp6
			return 0, err
		}
	}
	if len(sockets) == 0 {
		return 0, fmt.Errorf("TCP port %d: %w", port, ErrNoListener)
	}
	all, err := os.ReadDir(proc)
	if err != nil {
		return 0, err
	}
	lowest := 0
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && (lowest == 0 || pid < lowest) && holds(proc, pid, sockets) {
			lowest = pid
		}
	}
	if lowest == 0 {
		return 0, fmt.Errorf("the process that listens on TCP port %d belongs to another user", port)
	}
	return lowest, nil
}

// SharesNetwork reports whether the launcher is known to be in this process's network
// namespace. /proc/PID/ns says so only to its owner; but each namespace has files of
// its own below /proc/PID/net, which anyone may look at.
func (l *Launcher) SharesNetwork() bool {
	own, err := os.Stat("/proc/self/net/tcp")
	if err != nil {
		return false
	}
	its, err := os.Stat(filepath.Join("/proc", strconv.Itoa(l.PID), "net", "tcp"))
	return err == nil && os.SameFile(own, its)
}

// listenState is TCP_LISTEN in the kernel's table of sockets.
const listenState = "0A"

// listening adds the links of the sockets that listen on a port, as they are in
// /proc/PID/fd: socket:[INODE]. A line of the table has a number, the local address
// as HEX:PORT, the remote one, the state, and the inode as its tenth field.
func listening(table string, port int, sockets map[string]bool) error {
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && strings.HasSuffix(fields[1], suffix) &&
			fields[3] == listenState {
			sockets["socket:["+fields[9]+"]"] = true
		}
	}
	return lines.Err()
}

func holds(proc string, pid int, sockets map[string]bool) bool {
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // of another user, or just ended
	}
	for _, fd := range fds {
		if link, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && sockets[link] {
			return true
		}
	}
	return false
}
