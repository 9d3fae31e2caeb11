package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenOwn opens, as os.OpenFile does, a file that only this user writes, such as a ledger. It opens nothing but a
// regular file that belongs to this user, has one name (a second one may lie where it means something else) and was not
// reached by a link; links on the way are followed as by [Locate]. What else has the name is not even opened, so that
// no pipe is waited for and no device acts. What another user puts there meanwhile is refused as well.
func OpenOwn(path string, flag int, perm fs.FileMode) (*os.File, error) {
	f, err := openOwn(path, flag, perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

func openOwn(path string, flag int, perm fs.FileMode) (*os.File, error) {
	w := walk{links: mostLinks}
	p, err := w.from(nil, path, false)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if p.Slash || p.Name == "." {
		return nil, unix.EISDIR
	}
	for range looks {
		found, err := p.Open(unix.O_PATH, 0)
		if err == nil {
			defer found.Close()
			return openFound(found, path, flag)
		}
		if !errors.Is(err, unix.ENOENT) || flag&os.O_CREATE == 0 {
			return nil, err
		}
		fd, err := openat(int(p.Folder.Fd()), p.Name, flag|unix.O_EXCL|unix.O_NOFOLLOW, perm)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, errUnstable
}

// openFound opens what was found, if it is this user's.
func openFound(found *os.File, path string, flag int) (*os.File, error) {
	if flag&os.O_EXCL != 0 {
		return nil, unix.EEXIST
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(found.Fd()), &st); err != nil {
		return nil, err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return nil, errors.New("it is a link, and links are not followed here")
	case kind == unix.S_IFDIR:
		return nil, unix.EISDIR
	case kind != unix.S_IFREG || OfKernel(found):
		return nil, ErrNotRegular
	case st.Uid != uint32(os.Geteuid()):
		return nil, fmt.Errorf("it belongs to another user (%d)", st.Uid)
	case st.Nlink != 1:
		return nil, fmt.Errorf("it has %d names (hard links), wanted one", st.Nlink)
	}
	return Reopen(found, path, flag&^(os.O_CREATE|unix.O_NOFOLLOW))
}

// Reopen opens for use what was opened with O_PATH, to be looked at. name is for messages.
func Reopen(found *os.File, name string, flag int) (*os.File, error) {
	fd, err := openat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(found.Fd())), flag, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
