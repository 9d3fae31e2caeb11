package file

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
)

// TempMark is part of the name of everything that is not finished.
const TempMark = ".perigee-tmp-"

// Write writes the file path with what fill writes. A link stays, and the file to which it leads is replaced. Devices,
// pipes and what /dev/stdout and other links to open files lead to are written as they stand.
//
// An error of fill comes back as it is if it is a fault, any other error as a fault of the kind Output.
func Write(path string, fill func(io.Writer) error) error {
	_, err := WriteClaimed(context.Background(), At(path), fill)
	return err
}

// Claim says where a file goes. It is asked before anything is written, and again when all is, since others may have
// taken the place meanwhile. If it is to be new, the file replaces nothing there; where something has come to it in the
// last moment, Claim is asked again with taken, and names another path.
type Claim func(taken bool) (path string, isNew bool)

// At claims a path, whatever is there.
func At(path string) Claim { return func(bool) (string, bool) { return path, false } }

// hurry is how long a process that is told to end waits for the disk. mpirun kills its ranks a second after it has told
// them.
const hurry = 200 * time.Millisecond

// WriteClaimed is Write to the place that claim says. If ctx has ended, as the process may be killed then, and the disk
// takes long to flush what is written, the file gets its place before that: a loss of power may leave it with holes.
// WriteClaimed returns what it has put there, nil if it has not, and for a device.
func WriteClaimed(ctx context.Context, claim Claim, fill func(io.Writer) error) (put fs.FileInfo, err error) {
	path, _ := claim(false)
	defer func() { err = outputError(path, err) }()
	target, stands, err := locate(path)
	if err != nil {
		return nil, err
	}
	if stands {
		return nil, writeAsItStands(target, fill)
	}
	f, err := createTemp(target)
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // if it still has that name, also if fill panics
	defer f.Close()
	if err := fillFile(f, fill); err != nil {
		return nil, err
	}
	flushed, err := flushFor(ctx, f)
	if err != nil {
		return nil, err
	}
	if put, err = f.Stat(); err != nil {
		return nil, err
	}
	for taken := false; ; taken = true {
		var isNew bool
		path, isNew = claim(taken)
		if target, _, err = locate(path); err == nil {
			err = place(f, target, isNew)
		}
		switch {
		case err == nil:
			return put, cmp.Or(<-flushed, f.Close(), syncFile(filepath.Dir(target)))
		case errors.Is(err, unix.EXDEV): // path is a link to elsewhere
			return WriteClaimed(ctx, claim, fill)
		case !isNew || !errors.Is(err, fs.ErrExist) && !errors.Is(err, errFolder):
			return nil, err
		}
	}
}

// CanWrite finds out whether Write can write a file. It leaves nothing behind.
func CanWrite(path string) error {
	target, stands, err := locate(path)
	if err == nil && stands {
		return nil
	}
	var f *os.File
	if err == nil {
		f, err = createTemp(target)
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return fmt.Errorf("folder %s: %w", filepath.Dir(cmp.Or(target, path)), e)
	}
	if err != nil {
		return err
	}
	os.Remove(f.Name()) // if it has a name
	return f.Close()
}

var (
	errFolder = errors.New("it is a folder")
	errMount  = errors.New("the file is mounted alone, so that nothing can replace it: mount its folder instead")
)

// locate returns the path that is written for a path, and whether what is there is written as it stands.
func locate(path string) (target string, stands bool, err error) {
	if target, err = Target(path); err != nil {
		return "", false, err
	}
	open := descriptor.MatchString(target)
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !open && !strings.HasSuffix(target, "/"):
		return target, false, nil
	case err != nil:
		return target, false, errors.Unwrap(err)
	case info.IsDir():
		return "", false, errFolder
	case open:
		return target, true, writable(target)
	case info.Mode().IsRegular() && isMount(target):
		return "", false, errMount
	}
	return target, !info.Mode().IsRegular(), nil
}

// writable returns an error if a path stands for a descriptor of this process that is open for reading only.
func writable(path string) error {
	fd, own := Descriptor(path)
	if !own {
		return nil
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
		err = errors.New("it is open for reading only")
	}
	return err
}

// isMount reports whether something is mounted on a file, as far as the kernel says so (since 5.8).
func isMount(path string) bool {
	var found unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, 0, &found)
	return err == nil && found.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// writeAsItStands writes to a device, a pipe or an open file. A descriptor of this process is duplicated: opened anew,
// a file would be written from its start, and a socket cannot be opened at all.
func writeAsItStands(path string, fill func(io.Writer) error) (err error) {
	var f *os.File
	fd, own := Descriptor(path)
	if !own {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	} else if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		f = os.NewFile(uintptr(fd), path)
	}
	if err != nil {
		return err
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// fillFile runs fill on a buffer before f.
func fillFile(f *os.File, fill func(io.Writer) error) error {
	const bufferBytes = 1 << 16
	out := bufio.NewWriterSize(f, bufferBytes)
	if err := fill(out); err != nil {
		return err
	}
	return out.Flush()
}

// createTemp makes a new file beside another. Where the file system can do that it has no name, so that a killed
// process leaves nothing behind: Name is one that it can get. That of os.CreateTemp would not heed the umask.
func createTemp(target string) (*os.File, error) {
	temp := tempName(target)
	fd, err := unix.Open(filepath.Dir(target), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err == nil {
		return os.NewFile(uintptr(fd), temp), nil
	}
	return os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// tempName invents a name beside a file or folder for it as long as it is unfinished.
func tempName(target string) string {
	const mostName = 200 // with what is added, names stay below the usual 255 bytes
	folder, name := filepath.Split(target)
	return folder + "." + name[:min(len(name), mostName)] + TempMark + strconv.FormatUint(rand.Uint64(), 36)
}

// place gives the file that createTemp has made its name. A new one replaces nothing, where the file system can do
// that.
func place(f *os.File, target string, isNew bool) error {
	link := func(name string) error {
		open := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
		return unix.Linkat(unix.AT_FDCWD, open, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	}
	if isNew {
		err := link(target)
		if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, unix.EXDEV) {
			return err
		}
		if _, err := os.Lstat(target); err == nil {
			return fs.ErrExist
		}
	}
	if _, err := os.Lstat(f.Name()); err != nil {
		if err := link(f.Name()); err != nil {
			return err
		}
	}
	return unix.Rename(f.Name(), target)
}

// flush is replaced in tests.
var flush = (*os.File).Sync

// flushFor flushes f, and returns when that is done or, some time after ctx has ended, without it. An error that comes
// later is the one value of flushed, which is closed at the end.
func flushFor(ctx context.Context, f *os.File) (flushed <-chan error, err error) {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- flush(f)
	}()
	select {
	case err := <-ended:
		return ended, err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return ended, err
	case <-time.After(hurry):
		return ended, nil
	}
}

// syncFile flushes a file, or a folder, so that a rename in it outlasts a loss of power where the file system can do
// that.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flush(f); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// Missing is the folder of a path, if there is none of its name; "" otherwise.
func Missing(path string) string {
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return folder
	}
	return ""
}

// outputError gives an error without a kind the kind Output and names path, and not the temporary name.
func outputError(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(e.Path, TempMark) {
		err = e.Err
	}
	e := fault.New(fault.Output, "cannot write %s: %w", path, err)
	if folder := Missing(path); folder != "" {
		e = e.WithHint("mkdir -p %s", folder)
	}
	return e
}
