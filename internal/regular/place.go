package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Place is where a path leads: a name in an open folder, whatever becomes of the path meanwhile.
type Place struct {
	Folder *os.File // calls such as openat start here; it cannot be read
	Name   string   // one step, "." for the folder itself; there may be nothing of this name
	Slash  bool     // the path ends in a slash: it wants a folder

	// The name is a link in /proc to no folder. The kernel alone can follow it, to a pipe that has no path for one.
	Magic bool
}

// Close closes the folder.
func (p Place) Close() error { return p.Folder.Close() }

// Path is a path of the place, as it was found.
func (p Place) Path() string { return filepath.Join(p.Folder.Name(), p.Name) }

// Locate returns the place that is written when path is written. It follows links as the kernel does, the last of which
// may lead to nothing yet, but not those by which another user could lead this process astray: a link that another user
// than root has made in a folder to which others may write leads only to folders of that user. Each step starts from
// the folder that was looked at: a link that comes between the look and the step changes nothing.
func Locate(path string) (Place, error) {
	w := walk{links: mostLinks}
	return w.from(nil, path, true)
}

const mostLinks = 40 // as many as Linux follows

// looks is how often a name may be something else than at the look before.
const looks = 100

var (
	errLoop     = errors.New("too many symbolic links")
	errUnstable = errors.New("something else takes its place again and again")
	errAstray   = errors.New("it is a link of another user, in a folder of others or to which all may write, and leads " +
		"away from that user's folders: name the place itself")
)

// walk takes the steps of a path.
type walk struct{ links int }

// from starts at a folder, nil for the current one.
func (w *walk) from(folder *os.File, path string, follow bool) (Place, error) {
	steps := stepsOf(path)
	p := Place{Name: ".", Slash: strings.HasSuffix(path, "/")}
	if last := len(steps) - 1; last >= 0 && steps[last] != "." && steps[last] != ".." {
		steps, p.Name = steps[:last], steps[last]
	}
	at, start, name := unix.AT_FDCWD, ".", "."
	switch {
	case path == "":
		return p, unix.ENOENT
	case path[0] == '/':
		start, name = "/", "/"
	case folder != nil:
		at, name = int(folder.Fd()), folder.Name()
	}
	fd, err := openat(at, start, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return p, err
	}
	p.Folder = os.NewFile(uintptr(fd), name)
	for _, step := range steps {
		next, err := w.step(Place{Folder: p.Folder, Name: step})
		p.Folder.Close()
		if err != nil {
			return p, err
		}
		p.Folder = next
	}
	if !follow {
		return p, nil
	}
	found, target, err := w.look(p)
	if errors.Is(err, unix.ENOENT) || err == nil && !isLink(found) {
		return p, nil
	}
	if err == nil && !p.Foreign(found) && p.isMagic() {
		p.Magic = true
		return p, nil
	}
	defer p.Close()
	if err != nil {
		return p, err
	}
	q, err := w.follow(p, found, target)
	q.Slash = q.Slash || p.Slash
	return q, err
}

// isMagic reports whether a link of the place is one in /proc to no folder.
func (p Place) isMagic() bool {
	if !onProc(p.Folder) {
		return false
	}
	fd, err := openat(int(p.Folder.Fd()), p.Name, unix.O_PATH, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var end unix.Stat_t
	return unix.Fstat(fd, &end) == nil && end.Mode&unix.S_IFMT != unix.S_IFDIR
}

// step opens a folder, or that to which a link leads.
func (w *walk) step(p Place) (*os.File, error) {
	for range looks {
		// With O_DIRECTORY it is also mounted, where that is done on demand.
		fd, err := openat(int(p.Folder.Fd()), p.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), p.Path()), nil
		}
		if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			return nil, err
		}
		found, target, err := w.look(p)
		switch {
		case err != nil:
			return nil, err
		case isLink(found) && onProc(p.Folder):
			// The kernel's own links may lead where no path does, such as into another container.
			fd, err := openat(int(p.Folder.Fd()), p.Name, unix.O_PATH|unix.O_DIRECTORY, 0)
			return os.NewFile(uintptr(fd), p.Path()), err
		case isLink(found):
			q, err := w.follow(p, found, target+"/.")
			return q.Folder, err
		case found.Mode&unix.S_IFMT != unix.S_IFDIR:
			return nil, unix.ENOTDIR
		}
	}
	return nil, errUnstable
}

// look says what has a name, and where it leads if it is a link.
func (w *walk) look(p Place) (found unix.Stat_t, target string, err error) {
	fd, err := openat(int(p.Folder.Fd()), p.Name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return found, "", err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &found); err != nil || !isLink(found) {
		return found, "", err
	}
	if w.links--; w.links < 0 {
		return found, "", errLoop
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	return found, string(text[:max(n, 0)]), err
}

// follow goes where a link leads that was found at p.
func (w *walk) follow(p Place, link unix.Stat_t, target string) (Place, error) {
	q, err := w.from(p.Folder, target, true)
	if err != nil || !p.Foreign(link) {
		return q, err
	}
	var end unix.Stat_t
	// What a link in /proc leads to can change at any time.
	if err = unix.Fstat(int(q.Folder.Fd()), &end); err == nil && (end.Uid != link.Uid || q.Magic) {
		err = fmt.Errorf("%s: %w", p.Path(), errAstray)
	}
	if err != nil {
		q.Close()
		q.Folder = nil
	}
	return q, err
}

// Foreign reports whether what was found at the place may have been put there by another user, root apart, for this
// process to fall over: it belongs to another user, and so does the folder, or all may write to it.
func (p Place) Foreign(found unix.Stat_t) bool {
	const others = 0o002
	var folder unix.Stat_t
	if trusted(found.Uid) || unix.Fstat(int(p.Folder.Fd()), &folder) != nil {
		return false
	}
	if folder.Mode&others != 0 {
		return true
	}
	// In a container the users outside have one number, root included, whose files are mounted there.
	outside := outsider()
	return !trusted(folder.Uid) && !(found.Uid == outside && folder.Uid == outside)
}

func trusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// outsider is the number of users who have none in this process's user namespace, or that of root, if all have one.
var outsider = sync.OnceValue(func() uint32 {
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || string(bytes.Join(bytes.Fields(users), []byte(" "))) == "0 0 4294967295" {
		return 0
	}
	var number uint32 = 65534
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		fmt.Sscan(string(text), &number)
	}
	return number
})

func isLink(st unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

func onProc(f *os.File) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &s) == nil && uint32(s.Type) == unix.PROC_SUPER_MAGIC
}

// Open opens what has the name, or makes it, but follows no link, unless it is Magic.
func (p Place) Open(flag int, perm fs.FileMode) (*os.File, error) {
	if !p.Magic {
		flag |= unix.O_NOFOLLOW
	}
	fd, err := openat(int(p.Folder.Fd()), p.Name, flag, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p.Path()), nil
}

// Descriptor is the number of the descriptor of this process that a Magic place stands for, if it stands for one.
func (p Place) Descriptor() (fd int, ok bool) {
	own, err := os.Stat("/proc/self/fd")
	if err != nil || !p.Magic {
		return 0, false
	}
	if folder, err := p.Folder.Stat(); err != nil || !os.SameFile(folder, own) {
		return 0, false
	}
	fd, err = strconv.Atoi(p.Name)
	return fd, err == nil
}

func openat(folder int, name string, flags int, perm fs.FileMode) (fd int, err error) {
	err = Uninterrupted(func() error {
		fd, err = unix.Openat(folder, name, flags|unix.O_CLOEXEC|unix.O_LARGEFILE, uint32(perm.Perm()))
		return err
	})
	return fd, err
}

// Uninterrupted calls again what a signal has interrupted, as package os does: NFS and FUSE let signals do that.
func Uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Mkdir makes a folder of the name.
func (p Place) Mkdir(perm fs.FileMode) error {
	return Uninterrupted(func() error { return unix.Mkdirat(int(p.Folder.Fd()), p.Name, uint32(perm.Perm())) })
}
