// Package atomicfile writes a file, or a folder of files, as a whole or not at
// all. Until everything is written and flushed to the disk ([WriteSoon] waits less
// for that), it lies under a temporary name beside its destination; then one rename
// puts it in place. An error, a full disk or a killed process leaves the destination
// as it was.
//
// What a killed process leaves behind is its temporary folder, or, on file systems
// without files that have no name, its temporary file. The name of either is a dot,
// the destination's name and [TempMark].
package atomicfile

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
)

// TempMark is part of the name of everything that is not finished.
const TempMark = ".perigee-tmp-"

const bufferBytes = 1 << 16

// Write writes the file path with what fill writes. perm is the permission of
// the file before the umask, whether path existed or not. A symbolic link
// stays and the file it points to is replaced; a pipe, a terminal or another
// device cannot be replaced and is written to as it stands.
//
// An error of fill comes back as it is if it is a fault, any other error as a
// fault of the kind Output.
func Write(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	return WriteSoon(path, perm, 0, fill)
}

// WriteSoon is Write for a process that may be killed at any moment. If the disk takes
// longer than patience, unless that is 0, to flush what is written, the file gets its
// place before that. WriteSoon still returns only when all is flushed. A loss of power in
// between may leave a file with holes.
func WriteSoon(path string, perm fs.FileMode, patience time.Duration, fill func(io.Writer) error) error {
	target, err := Resolve(path)
	if err != nil {
		return outputError(path, err)
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return fault.New(fault.Output, "cannot write %s: it is a folder", path)
	case err == nil && !info.Mode().IsRegular():
		return outputError(path, writeDevice(target, fill))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return outputError(path, err)
	}
	return outputError(path, replace(target, perm, patience, fill))
}

// flush is replaced in tests.
var flush = (*os.File).Sync

// replace writes target under a temporary name and renames it.
func replace(target string, perm fs.FileMode, patience time.Duration, fill func(io.Writer) error) (err error) {
	f, name, err := createTemp(target, perm)
	if err != nil {
		return err
	}
	done := false // stays false if fill panics, too
	defer func() {
		if !done {
			f.Close()
			if name != "" {
				os.Remove(name)
			}
		}
	}()
	if err := fillFile(f, fill); err != nil {
		return err
	}
	flushed, err := flushFor(f, patience)
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = giveName(f, target); err != nil {
			return err
		}
	}
	if err := os.Rename(name, target); err != nil {
		return err
	}
	done = true
	return cmp.Or(<-flushed, f.Close(), syncFolder(filepath.Dir(target)))
}

// flushFor flushes f, and returns when that is done or, unless it is 0, when patience is
// over. An error that comes later is the one value of flushed, which is closed at the end.
func flushFor(f *os.File, patience time.Duration) (flushed <-chan error, err error) {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- flush(f)
	}()
	var late <-chan time.Time // never, without a bound
	if patience > 0 {
		late = time.After(patience)
	}
	select {
	case err := <-ended:
		return ended, err
	case <-late:
		return ended, nil
	}
}

func writeDevice(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// fillFile runs fill on a buffer before f.
func fillFile(f *os.File, fill func(io.Writer) error) error {
	out := bufio.NewWriterSize(f, bufferBytes)
	if err := fill(out); err != nil {
		return err
	}
	return out.Flush()
}

// createTemp makes a new file beside path: without a name where the file system
// can do that, so that a killed process leaves nothing behind. os.CreateTemp
// would not heed the umask.
func createTemp(path string, perm fs.FileMode) (f *os.File, name string, err error) {
	fd, err := unix.Open(folderOf(path), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err == nil {
		return os.NewFile(uintptr(fd), tempName(path)), "", nil // errors do not show the temporary name
	}
	return createNamed(path, perm)
}

// createNamed makes a new file beside path, with a temporary name.
func createNamed(path string, perm fs.FileMode) (f *os.File, name string, err error) {
	for {
		name = tempName(path)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}

// giveName gives a file that has none a temporary name beside path, since only a
// rename can take the place of another file.
func giveName(f *os.File, path string) (string, error) {
	for {
		name := tempName(path)
		err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.AT_FDCWD, name,
			unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// folderOf is filepath.Dir without its cleaning, which would cut a/link/.. short.
func folderOf(path string) string {
	folder, _ := filepath.Split(path)
	return folder + "."
}

// tempName invents a name beside path for something unfinished.
func tempName(path string) string {
	const mostName = 200 // with what is added, names stay below the usual 255 bytes
	folder, name := filepath.Split(path)
	return folder + "." + name[:min(len(name), mostName)] + TempMark + strconv.FormatUint(rand.Uint64(), 36)
}

// Resolve returns the file that takes the place of path when path is written: it follows
// symbolic links, the last of which may point to something that does not exist yet.
func Resolve(path string) (string, error) {
	const mostLinks = 40 // as many as Linux follows
	for range mostLinks {
		link, err := os.Readlink(path)
		if err != nil {
			return path, planted(path) // no link
		}
		if err := planted(path); err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Dir(path) + "/" + link // Join would cut a/link/.. short
		}
		path = link
	}
	return "", errors.New("too many symbolic links")
}

// planted refuses what another user may have put where this process writes, for it to fall over: a link to a file of
// this user, or a pipe. That is so in folders of others, and in those to which all may write, such as /tmp. The kernel
// refuses less, and only where files are opened by their names (fs.protected_symlinks, fs.protected_fifos); links are
// followed here instead. Regular files are replaced.
func planted(path string) error {
	const others = 0o002
	var file, folder unix.Stat_t
	if unix.Lstat(path, &file) != nil || unix.Stat(folderOf(path), &folder) != nil {
		return nil // the caller finds out
	}
	trusted := func(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }
	kind := file.Mode & unix.S_IFMT
	if kind != unix.S_IFLNK && kind != unix.S_IFIFO || trusted(file.Uid) ||
		trusted(folder.Uid) && folder.Mode&others == 0 {
		return nil
	}
	return errors.New("it is a link or a pipe of another user, in a folder of others or to which all may write")
}

// syncFolder makes a rename in folder outlast a loss of power, where the file
// system can do that.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// outputError gives an error without a kind the kind Output and names path.
func outputError(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.New(fault.Output, "cannot write %s: %w", path, withoutTempName(err))
}

// withoutTempName drops the name of a temporary file from what the system
// said: the user does not know that name.
func withoutTempName(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(e.Path, TempMark) {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok && strings.Contains(e.Old, TempMark) {
		return e.Err
	}
	return err
}
