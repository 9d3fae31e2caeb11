package ancestry

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrNoListener says that no process of this network namespace listens on a port.
var ErrNoListener = errors.New("no process listens on it")

// Listener returns the process of this network namespace that listens on a TCP port.
// Only processes of the same user can be found. Of several with the same socket it is
// the one with the lowest number: the one that the others were forked from.
func Listener(port int) (pid int, err error) { return listener("/proc", port) }

func listener(proc string, port int) (int, error) {
	sockets, err := socketsAt(proc, port)
	if err != nil {
		return 0, err
	}
	return holder(proc, port, sockets)
}

// socketsAt are the links of the sockets that listen on a port.
func socketsAt(proc string, port int) (map[string]bool, error) {
	sockets := map[string]bool{}
	err := listening(proc, port, func(socket string) (more bool) {
		sockets[socket] = true
		return true
	})
	if err == nil && len(sockets) == 0 {
		err = fmt.Errorf("TCP port %d: %w", port, ErrNoListener)
	}
	return sockets, err
}

// holder is the process that holds one of the sockets that listen on a port.
func holder(proc string, port int, sockets map[string]bool) (int, error) {
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

// listenState is TCP_LISTEN in the kernel's table of sockets, halfOpenState TCP_SYN_RECV.
const listenState, halfOpenState = "0A", "03"

// listening calls found with the links of the sockets of this network namespace that listen on a port, as they are in
// /proc/PID/fd, socket:[INODE], until it returns false.
func listening(proc string, port int, found func(socket string) (more bool)) error {
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "self", "net", name))
		if os.IsNotExist(err) && name == "tcp6" {
			return nil // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		more, err := listeningIn(f, port, found)
		f.Close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// listeningIn reads the kernel's table of sockets, as far as those that listen: it begins with these, behind a heading,
// and kernels before 4.4 put the half-open connections of each behind it. A line has a number, the local address as
// HEX:PORT, the remote one, the state, and the inode as its tenth field.
func listeningIn(table io.Reader, port int, found func(socket string) (more bool)) (more bool, err error) {
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(table)
	lines.Scan()
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == halfOpenState {
			continue
		}
		if len(fields) <= 9 || fields[3] != listenState {
			break
		}
		if strings.HasSuffix(fields[1], suffix) && !found("socket:["+fields[9]+"]") {
			return false, nil
		}
	}
	return true, lines.Err()
}

// AtPorts is a launcher that is seen by its listening sockets only: its end is that of the first of them. Ports of this
// network namespace at which none listens do not count; the error is ErrNoListener if none is left.
func AtPorts(ports []int) (*Launcher, error) {
	l := &Launcher{proc: "/proc"}
	for _, port := range ports {
		p := atPort(port)
		if there, err := p.handle.(socket).listens(); err != nil || !there {
			continue
		}
		if l.handle == nil {
			l.Process, l.handle = p.Process, p.handle
		} else {
			l.also = append(l.also, p)
		}
	}
	if l.handle == nil {
		return nil, ErrNoListener
	}
	return l, nil
}

func atPort(port int) watched {
	return watched{Process{Name: fmt.Sprint("at TCP port ", port)}, socket(port)}
}

// ListensAt reports whether the launcher is seen to listen on a TCP port of this network namespace.
func (l *Launcher) ListensAt(port int) bool {
	sockets, err := socketsAt(l.proc, port)
	return err == nil && holds(l.proc, l.PID, sockets)
}

// AlsoListener makes the end of the process that listens on a TCP port count as that of the launcher, or the end of its
// socket where it is closed to this process: it is in another user namespace, say. All processes are searched for it.
func (l *Launcher) AlsoListener(port int) error {
	sockets, err := socketsAt(l.proc, port)
	if err != nil {
		return err
	}
	return l.alsoHolder(port, sockets)
}

func (l *Launcher) alsoHolder(port int, sockets map[string]bool) error {
	pid, err := holder(l.proc, port, sockets)
	if err != nil {
		l.also = append(l.also, atPort(port))
		return nil
	}
	return l.Also(pid)
}

// Relisten takes the ancestor that listens on a TCP port for the launcher, where another process was taken for it.
// Another process that listens there counts, too ([Launcher.AlsoListener]), unless it is below what was taken for the
// launcher: then that has adopted the rank, which is detached from the one that listens.
func (l *Launcher) Relisten(port int) error {
	sockets, err := socketsAt(l.proc, port)
	if err != nil || holds(l.proc, l.PID, sockets) {
		return err
	}
	if raised, err := l.raise(func(p Process) bool { return holds(l.proc, p.PID, sockets) }); raised || err != nil {
		return err
	}
	pid, err := holder(l.proc, port, sockets)
	for err == nil && pid > 1 && pid != l.PID {
		pid, err = parentOf(l.proc, pid)
	}
	if err == nil && pid == l.PID {
		return nil
	}
	return l.alsoHolder(port, sockets)
}

// socket is one that listens on a TCP port.
type socket int

func (s socket) listens() (yes bool, err error) {
	err = listening("/proc", int(s), func(string) (more bool) {
		yes = true
		return false
	})
	return yes, err
}

func (s socket) wait(ctx context.Context) bool { return look(ctx, s.ended) }

// ended looks several times before it says so: the kernel's table may change while it is read.
func (s socket) ended() bool {
	const looks, pause = 3, 50 * time.Millisecond
	for range looks {
		if there, err := s.listens(); err != nil || there {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

func (socket) close() {}

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
