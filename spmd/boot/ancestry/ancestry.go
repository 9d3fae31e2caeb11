// Package ancestry finds the process that started this one as a rank, and waits for
// its end.
//
// A rank must notice that its launcher has died: mpirun that is killed with kill -9
// leaves its ranks running, and they would occupy their cores for ever. The launcher is one
// of the process's ancestors. Between the two there may be others, such as a shell
// script that the user starts instead of perigee; each of them got the rank's
// variables from the launcher, which itself does not have them. So the launcher is
// the nearest ancestor whose environment lacks one of them.
//
// A process may also be detached on purpose: scripts start it in the background, or with
// nohup, and end. Such a process ignores SIGINT or SIGHUP, where the launcher does not. Then
// the launcher may end before it, and that is no failure. That it has another session than the
// script says nothing: what starts a container, su and sudo begin one for what they start, and
// wait for it. But what starts a process with its own session and ends at once without having
// waited, as setsid -f does, has detached it. The rule is:
//
//   - If an ancestor between the rank and the launcher ends first, a rank that was started
//     so has been detached, and nothing is watched from then on. So it is if both have
//     ended when the first of them is noticed: the launcher may have ended because of the
//     other. But where the launcher ends because the process that started it has ended,
//     and takes what is below it along, the rank is an orphan.
//   - Any other rank is an orphan then, too: launchers kill the scripts that they have
//     started, and timeout(1), or another process below these, may keep that from the rank.
//     It has [reprieve], in which it may end for another reason.
//   - If the launcher ends first, the rank is an orphan.
//   - If the rank has been adopted by process 1 before it looked, it is detached.
//
// In a container with its own PID namespace, in which all processes are the rank's, the launcher is not seen. There its
// end is that of the socket on which it listens, if the two share a network namespace ([AtPorts]). Nothing in such a
// container outlives its first process, so no rank in it is detached.
//
// Processes are held by pidfds, whose numbers the kernel does not give to others, and
// which cost no wake-ups while nothing happens. On kernels before 5.3, which have
// none, a start time distinguishes a process from a later one of the same number, and is
// looked at every second.
package ancestry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/procfs"
)

// Process is another process of this host.
type Process struct {
	PID  int    // 0 if it is not seen
	Name string // the kernel's, of at most 15 characters; "" if it is hidden
}

// String names the process for a message: mpirun (process 4711).
func (p Process) String() string {
	switch {
	case p.PID == 0:
		return p.Name
	case p.Name == "":
		return fmt.Sprintf("process %d", p.PID)
	}
	return fmt.Sprintf("%s (process %d)", p.Name, p.PID)
}

// maxDepth bounds the way to the launcher, which is shorter than any sane one.
const maxDepth = 64

// Launcher is the watched ancestry of this process.
type Launcher struct {
	Process           // the launcher itself
	handle  handle    // of the launcher
	between []watched // the ancestors below it, the rank's parent first
	apart   bool      // the rank was started so as to outlive these
	since   time.Time
	forkers []watched // those of them that may have begun the rank's session, and have not been seen to wait
	gone    []Process // those of forkers that have ended in time to have detached the rank
	pairs   []string  // KEY=VALUE, which the launcher has given to the rank
	proc    string
	self    int
	also    []watched // other processes without which the ranks are orphans
	starter watched   // what has started the launcher; without a handle where that does not count
}

type watched struct {
	Process
	handle
}

// Find looks for the launcher of this process. variables are KEY=VALUE pairs that the
// launcher has given to its rank. It returns nil where there is no launcher to watch:
// the rank is detached, or the launcher is process 1, whose end ends all others. The error
// is ErrOutside where the launcher is in another PID namespace, and ErrAdopted where it may be.
func Find(variables []string) (*Launcher, error) {
	self, err := os.Readlink("/proc/self")
	if err == nil && self != strconv.Itoa(os.Getpid()) {
		return nil, ErrOutside // and so is what /proc shows
	}
	return find("/proc", os.Getpid(), variables, ignored)
}

// ErrOutside says that all processes of this PID namespace are the rank's, and its launcher is in another one.
// ErrAdopted says that the rank is a child of process 1 of a namespace other than the host's first: that may be the
// init of the rank's container, which does not have the rank's variables, or the rank is detached from a launcher in
// here.
var (
	ErrOutside = errors.New("it is in another PID namespace")
	ErrAdopted = errors.New("process 1 of this PID namespace is the parent")
)

// find is Find for a process that was started with some signals ignored.
func find(proc string, self int, variables []string, ignored uint64) (*Launcher, error) {
	l := &Launcher{pairs: variables, proc: proc, self: self, since: time.Now()}
	exits := 0 // from 1, the first of l.between that may be the launcher, or have had the variables: it exits
	for child := self; len(l.between) < maxDepth; {
		parent, h, err := holdParent(proc, child)
		if (err != nil || h == nil) && exits > 0 {
			w := l.between[exits-1]
			closeAll(l.between[exits:])
			l.between = l.between[:exits-1]
			return l.found(w, ignored), nil
		}
		if err == nil && h == nil {
			err = outside(proc, child, variables)
		}
		if err != nil || h == nil {
			l.Close()
			return nil, err
		}
		w := watched{Process{parent, nameOf(proc, parent)}, h}
		if !carries(proc, parent, variables) {
			if !exiting(proc, parent) && !h.ended() {
				return l.found(w, ignored), nil
			}
			exits = cmp.Or(exits, len(l.between)+1)
		}
		l.between = append(l.between, w)
		child = parent
	}
	l.Close()
	return nil, fmt.Errorf("more than %d ancestors have the rank's variables", maxDepth)
}

// found takes a process for the launcher of a rank that was started with some signals ignored.
func (l *Launcher) found(w watched, ignored uint64) *Launcher {
	l.Process, l.handle = w.Process, w.handle
	l.apart = len(l.between) > 0 && ignored&background&^ignoredBy(l.proc, w.PID) != 0
	l.findForkers()
	return l
}

// outside returns ErrOutside if the rank, or an ancestor with its variables, is process 1 of a PID namespace, or a
// child of a process 1 that has them, too, and ErrAdopted if it is a child of another process 1 of a namespace.
func outside(proc string, pid int, variables []string) error {
	switch parent, err := parentOf(proc, pid); {
	case err != nil:
		return nil
	case parent == 0, parent == 1 && carries(proc, 1, variables):
		return ErrOutside
	case parent == 1 && !inFirstNamespace():
		return ErrAdopted
	}
	return nil
}

// inFirstNamespace reports whether this process sees all processes of its host. Tests replace it.
var inFirstNamespace = func() bool {
	const first = "pid:[4026531836]" // the kernel's PROC_PID_INIT_INO
	own, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || own == first
}

// background are the signals that a shell has a process ignore that it starts in the background, and nohup.
const background = 1<<(unix.SIGINT-1) | 1<<(unix.SIGHUP-1)

// ignored are those of them that this process was started with: later it may handle them.
var ignored = func() (mask uint64) {
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGHUP} {
		if signal.Ignored(s) {
			mask |= 1 << (s - 1)
		}
	}
	return mask
}()

// leadsSession reports whether a process has begun its session, so that its parent has another. The parent may be gone.
func leadsSession(proc string, pid int) bool {
	s, err := statOf(proc, pid)
	return err == nil && s.Session == pid
}

// ignoredBy returns the signals that a process ignores, all of them if that is unknown.
func ignoredBy(proc string, pid int) uint64 {
	data, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	_, rest, _ := strings.Cut(string(data), "\nSigIgn:")
	text, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
	if err != nil {
		return ^uint64(0)
	}
	return mask
}

// holdParent makes a handle of the parent of a process. It is nil if that is process
// 1, or in another PID namespace, where its number reads as 0.
func holdParent(proc string, child int) (parent int, h handle, err error) {
	if parent, err = parentOf(proc, child); err != nil || parent <= 1 {
		return 0, nil, err
	}
	if h, err = hold(proc, parent); errors.Is(err, os.ErrNotExist) {
		h, err = holdHidden(proc, parent, child)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
		return 0, nil, fmt.Errorf("process %d, an ancestor of this one: %w", parent, err)
	}
	// It may have ended between the two, and its number may have gone to another.
	again, errAgain := parentOf(proc, child)
	if err == nil && errAgain == nil && again == parent {
		return parent, h, nil
	}
	if h != nil {
		h.close()
	}
	return 0, nil, errAgain // the process that has adopted the child is not its launcher
}

// Depth is how many ancestors of this process have all of these KEY=VALUE pairs, up to the first that lacks them and
// is called like a launcher: what starts a container may lack them, too, and stand below others that have them. name is
// the name of that one; if there is none, of the first that lacks them, "" if all have them.
func Depth(variables []string, isLauncher func(name string) bool) (depth int, name string) {
	for pid := range ancestors {
		if carries("/proc", pid, variables) {
			depth++
			continue
		}
		its := nameOf("/proc", pid)
		if isLauncher(its) {
			return depth, its
		}
		name = cmp.Or(name, its)
	}
	return depth, name
}

// ancestors yields the ancestors of this process that it sees, from its parent up to the one below process 1.
func ancestors(yield func(pid int) bool) {
	child := os.Getpid()
	for range maxDepth {
		parent, err := parentOf("/proc", child)
		if err != nil || parent <= 1 || !yield(parent) {
			return
		}
		child = parent
	}
}

// Title is the command line of the nearest ancestor with a name, which programs may change to say what they do; "" if
// there is none or it is hidden.
func Title(name string) string {
	for pid := range ancestors {
		if nameOf("/proc", pid) == name {
			data, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			return strings.TrimRight(strings.ReplaceAll(string(data), "\x00", " "), " ")
		}
	}
	return ""
}

// MindStarter makes the end of the process that has started the launcher count where the launcher ends with ancestors
// of the rank below it.
func (l *Launcher) MindStarter() (err error) {
	l.starter.PID, l.starter.handle, err = holdParent("/proc", l.PID)
	return err
}

// Also makes the end of another process count as that of the launcher.
func (l *Launcher) Also(pid int) error {
	h, err := hold("/proc", pid)
	if err != nil {
		return err
	}
	l.also = append(l.also, watched{Process{pid, nameOf("/proc", pid)}, h})
	return nil
}

// Rename takes the nearest ancestor with one of these names for the launcher, where another process was taken for it:
// what starts a container may drop the rank's variables. known is false if there is none.
func (l *Launcher) Rename(names ...string) (known bool, err error) {
	if slices.Contains(names, l.Name) {
		return true, nil
	}
	return l.raise(func(p Process) bool { return slices.Contains(names, p.Name) })
}

// raise takes the nearest ancestor that fits for the launcher. What was taken for it is between the two then.
func (l *Launcher) raise(fits func(p Process) bool) (found bool, err error) {
	above := []watched{{l.Process, l.handle}}
	for len(l.between)+len(above) < maxDepth {
		child := above[len(above)-1].PID
		parent, h, err := holdParent(l.proc, child)
		if err != nil || h == nil {
			closeAll(above[1:])
			return false, err
		}
		p := Process{parent, nameOf(l.proc, parent)}
		if fits(p) {
			l.between = append(l.between, above...)
			l.Process, l.handle = p, h
			l.apart = l.apart || l.startedApart(above)
			l.findForkers()
			return true, nil
		}
		above = append(above, watched{p, h})
	}
	closeAll(above[1:])
	return false, nil
}

// startedApart reports whether one of these processes, each of which the next has started, and the launcher the last,
// was started so as to outlive the launcher.
func (l *Launcher) startedApart(list []watched) bool {
	return len(list) > 1 && ignoredBy(l.proc, list[0].PID)&background&^ignoredBy(l.proc, l.PID) != 0
}

// LacksVariables reports whether the launcher is known not to have the rank's variables. Those of processes of other
// users, and in other user namespaces, are closed to this one.
func (l *Launcher) LacksVariables() bool {
	_, err := environ(l.proc, l.PID)
	return err == nil && !carries(l.proc, l.PID, l.pairs)
}

func closeAll(list []watched) {
	for _, w := range list {
		w.close()
	}
}

// reprieve is how long a rank goes on whose parent, or one above it, has ended: what has ended that may end the rank,
// or the launcher.
const reprieve = time.Second

// forking is how long what detaches a process by its own session, as setsid -f does, may take to end behind it, on
// a busy machine. Whether it waits is looked at so often until then.
const (
	forking  = 500 * time.Millisecond
	lookEach = 10 * time.Millisecond
)

// findForkers lists the ancestors below the launcher up to the last whose child has another session, as far as they do
// not wait.
func (l *Launcher) findForkers() {
	child, last := l.self, 0
	l.forkers = nil
	for i, w := range l.between {
		if leadsSession(l.proc, child) {
			last = i + 1
		}
		child = w.PID
	}
	l.forkers = slices.Clone(l.between[:last])
	l.lookAtForkers()
}

// lookAtForkers forgets those that wait, and keeps in mind those that have ended: Wait may notice it up to [lookEvery]
// later, on kernels without pidfds.
func (l *Launcher) lookAtForkers() {
	l.forkers = slices.DeleteFunc(l.forkers, func(w watched) bool {
		if w.ended() {
			if time.Since(l.since) < forking {
				l.gone = append(l.gone, w.Process)
			}
			return true
		}
		s, err := statOf(l.proc, w.PID)
		return err == nil && s.State == 'S'
	})
}

// detached reports whether the rank is to outlive an ancestor that has ended now, or has been seen to have ended.
func (l *Launcher) detached(ended Process) bool {
	is := func(w watched) bool { return w.Process == ended }
	return l.apart || slices.Contains(l.gone, ended) ||
		time.Since(l.since) < forking && slices.ContainsFunc(l.forkers, is)
}

// Wait returns when the launcher has ended, or an ancestor of the rank below it, and which process that was. orphan is
// false if the rank was detached, or ctx has ended, before that.
func (l *Launcher) Wait(ctx context.Context) (ended Process, orphan bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := func(all []watched) <-chan Process {
		ended := make(chan Process, len(all))
		for _, p := range all {
			go func() {
				if p.wait(ctx) {
					ended <- p.Process
				}
			}()
		}
		return ended
	}
	all := append([]watched{{l.Process, l.handle}}, l.also...)
	launcher, between := wait(all), wait(l.between)
	looks := time.NewTicker(lookEach)
	defer looks.Stop()
	left := func(w watched) bool { return l.detached(w.Process) && w.ended() }
	for {
		select {
		case <-looks.C:
			l.lookAtForkers()
			// What ends after the launcher detaches nothing.
			if len(l.forkers) == 0 || time.Since(l.since) > forking || l.handle.ended() {
				looks.Stop()
			}
		case p := <-launcher:
			return p, l.dragged() || !slices.ContainsFunc(l.between, left)
		case p := <-between:
			if slices.ContainsFunc(l.between, left) || l.dragged() {
				return l.Process, l.dragged()
			}
			if l.takenOver(p) {
				continue
			}
			select {
			case p := <-launcher:
				return p, true
			case <-time.After(reprieve):
				// What is only looked at from time to time may have ended meanwhile.
				if i := slices.IndexFunc(all, func(w watched) bool { return w.ended() }); i >= 0 {
					p = all[i].Process
				}
				return p, true
			case <-ctx.Done():
				return Process{}, false
			}
		case <-ctx.Done():
			return Process{}, false
		}
	}
}

// takenOver reports whether what an ancestor has left that has ended is now the child of one above it, which has asked
// for that (PR_SET_CHILD_SUBREAPER) and so waits for it.
func (l *Launcher) takenOver(ended Process) bool {
	child := l.self
	for i, w := range l.between {
		if w.Process != ended {
			if !w.ended() { // one that has may be shown no more, and has left the rank to the same process
				child = w.PID
			}
			continue
		}
		parent, err := parentOf(l.proc, child)
		above := append(slices.Clone(l.between[i+1:]), watched{l.Process, l.handle})
		return err == nil && slices.ContainsFunc(above, func(w watched) bool { return w.PID == parent })
	}
	return false
}

// dragged reports whether what has started the launcher has ended, or is about to: then the launcher ends, too, if it
// has not.
func (l *Launcher) dragged() bool {
	return l.starter.handle != nil && (exiting("/proc", l.starter.PID) || l.starter.ended())
}

// Below reports whether a process is one of those between this one and the launcher.
func (l *Launcher) Below(p Process) bool {
	return slices.ContainsFunc(l.between, func(w watched) bool { return w.Process == p })
}

// Close lets go of the processes. It must not be called during a Wait.
func (l *Launcher) Close() {
	if l.handle != nil {
		l.handle.close()
	}
	closeAll(l.between)
	closeAll(l.also)
	if l.starter.handle != nil {
		l.starter.close()
	}
}

// carries reports whether a process was started with all of the variables. The
// environment of another user's process cannot be read: such a process, slurmstepd
// for instance, is no wrapper of the user's.
func carries(proc string, pid int, variables []string) bool {
	data, err := environ(proc, pid)
	if err != nil {
		return false
	}
	has := map[string]bool{}
	for kv := range bytes.SplitSeq(data, []byte{0}) {
		has[string(kv)] = true
	}
	for _, kv := range variables {
		if !has[kv] {
			return false
		}
	}
	return true
}

func environ(proc string, pid int) ([]byte, error) {
	return os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "environ"))
}

func nameOf(proc string, pid int) string {
	s, _ := statOf(proc, pid)
	return s.Name
}

// exiting reports whether a process has begun to end.
func exiting(proc string, pid int) bool {
	s, err := statOf(proc, pid)
	return err == nil && s.Exiting()
}

func parentOf(proc string, pid int) (int, error) {
	s, err := statOf(proc, pid)
	return s.Parent, err
}

func statOf(proc string, pid int) (procfs.Stat, error) {
	return procfs.ReadStat(filepath.Join(proc, strconv.Itoa(pid)))
}
