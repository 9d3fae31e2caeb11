// Package atomicfile writes a file, or a folder of files, as a whole or not at
// all. Until everything is written and flushed to the disk ([WriteSoon] waits less
// for that), it lies under a temporary name beside its destination; then one rename
// puts it in place. An error, a full disk or a killed process leaves the destination
// as it was.
//
// What a killed process leaves behind is its temporary folder, or, on file systems
// without files that have no name, its temporary file. Elsewhere a file has its temporary
// name only from the moment when it is whole to the rename. The name of either is a dot,
// the destination's name and [TempMark].
package atomicfile

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

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// TempMark is part of the name of everything that is not finished.
const TempMark = ".perigee-tmp-"

const bufferBytes = 1 << 16

// Write writes the file path with what fill writes. perm is the permission of
// the file before the umask, whether path existed or not. A symbolic link
// stays and the file it points to is replaced; a pipe, a terminal or another
// device cannot be replaced and is written to as it stands. So is what /dev/stdout
// and other links to open files lead to: a file there keeps what is in it.
//
// An error of fill comes back as it is if it is a fault, any other error as a
// fault of the kind Output.
func Write(path string, perm fs.FileMode, fill func(io.Writer) error) error {
	_, err := WriteClaimed(context.Background(), At(path), perm, 0, fill)
	return err
}

// WriteSoon is Write for a process that may be killed at any moment. If the disk takes
// longer than patience to flush what is written, the file gets its place before that.
// WriteSoon still returns only when all is flushed. A loss of power in between may leave
// a file with holes.
func WriteSoon(path string, perm fs.FileMode, patience time.Duration, fill func(io.Writer) error) error {
	_, err := WriteClaimed(Ended(), At(path), perm, patience, fill)
	return err
}

// Ended is a context that has ended, for WriteClaimed.
func Ended() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}

// Claim says where a file goes. It is asked before anything is written, and again when all is, since others may have
// taken the place meanwhile. If it is to be new, the file replaces nothing there; where something has come to it in the
// last moment, Claim is asked again with taken, and names another path.
type Claim func(taken bool) (path string, isNew bool)

// At claims a path, whatever is there.
func At(path string) Claim { return func(bool) (string, bool) { return path, false } }

// WriteClaimed writes to the place that claim says: as Write until ctx ends, from then on as WriteSoon. It returns what
// it has put there, nil if it has not, and for a device.
func WriteClaimed(ctx context.Context, claim Claim, perm fs.FileMode, patience time.Duration,
	fill func(io.Writer) error) (fs.FileInfo, error) {
	path, _ := claim(false)
	place, err := regular.Locate(path)
	if err != nil {
		return nil, outputError(path, err)
	}
	defer place.Close()
	device, err := lookAt(place)
	if err != nil {
		return nil, outputError(path, err)
	}
	if device != nil {
		return nil, outputError(path, writeDevice(device, place, path, fill))
	}
	return replace(ctx, path, place, claim, perm, patience, fill)
}

// CanWrite finds out whether Write can write a file. It leaves nothing behind.
func CanWrite(path string) error {
	place, err := regular.Locate(path)
	if _, ok := errors.AsType[unix.Errno](err); ok {
		err = fmt.Errorf("folder %s: %w", filepath.Dir(path), err)
	}
	if err != nil {
		return err
	}
	defer place.Close()
	device, err := lookAt(place)
	if err != nil {
		return err
	}
	if device != nil {
		return device.Close()
	}
	f, name, err := createTemp(place, 0o600)
	if err != nil {
		return fmt.Errorf("folder %s: %w", place.Folder.Name(), err)
	}
	if name != "" {
		unix.Unlinkat(int(place.Folder.Fd()), name, 0)
	}
	return f.Close()
}

// lookAt returns what cannot be replaced, and is written to as it stands: it is opened to be looked at only. Links that
// come after Locate are replaced.
func lookAt(place regular.Place) (device *os.File, err error) {
	if place.Slash || place.Name == "." {
		return nil, errFolder
	}
	f, err := place.Open(unix.O_PATH, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &found)
	switch kind := found.Mode & unix.S_IFMT; {
	case err != nil:
	case kind == unix.S_IFDIR:
		err = errFolder
	case place.Magic:
		if err = writable(place); err == nil {
			return f, nil
		}
	case kind == unix.S_IFREG || kind == unix.S_IFLNK:
		if err = replaceable(place, found); err == nil && isMount(f) {
			err = errMount
		}
	case place.Foreign(found):
		err = errors.New("it is a pipe of another user, in a folder of others or to which all may write")
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// replaceable returns an error if the kernel lets only its owner, or that of the folder, replace what was found.
func replaceable(place regular.Place, found unix.Stat_t) error {
	var folder unix.Stat_t
	if err := unix.Fstat(int(place.Folder.Fd()), &folder); err != nil {
		return err
	}
	own := uint32(os.Geteuid())
	if folder.Mode&unix.S_ISVTX == 0 || found.Uid == own || folder.Uid == own || ownsAll() {
		return nil
	}
	return fmt.Errorf("it belongs to another user (%d), and in %s, a sticky folder, only owners replace their files", found.Uid,
		place.Folder.Name())
}

// errMount is the error of a file that was given to a container alone: no rename can take its place.
var errMount = errors.New("the file is mounted alone, so that nothing can replace it: mount its folder instead")

// isMount reports whether something is mounted on a file, as far as the kernel says so (since 5.8).
func isMount(f *os.File) bool {
	var found unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, 0, &found)
	return err == nil && found.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// ownsAll reports whether this process may do what owners of files may.
func ownsAll() bool {
	header, sets := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_FOWNER) != 0
}

var errFolder = errors.New("it is a folder")

// flush is replaced in tests.
var flush = (*os.File).Sync

// replace writes a file under a temporary name beside path, which is place, and renames it to where claim says.
func replace(ctx context.Context, path string, place regular.Place, claim Claim, perm fs.FileMode,
	patience time.Duration, fill func(io.Writer) error) (put fs.FileInfo, err error) {
	defer func() { err = outputError(path, err) }()
	f, name, err := createTemp(place, perm)
	if err != nil {
		return nil, err
	}
	done := false // stays false if fill panics, too
	defer func() {
		if !done {
			f.Close()
			if name != "" {
				unix.Unlinkat(int(place.Folder.Fd()), name, 0)
			}
		}
	}()
	if err := fillFile(f, fill); err != nil {
		return nil, err
	}
	flushed, err := flushFor(ctx, f, patience)
	if err != nil {
		return nil, err
	}
	if put, err = f.Stat(); err != nil {
		return nil, err
	}
	at := place // of path
	for taken := false; ; taken = true {
		to, isNew := claim(taken)
		if name == "" {
			if name, err = giveName(f, place); err != nil {
				return nil, err
			}
		}
		if to != path {
			path = to
			if at, err = regular.Locate(path); err != nil {
				return nil, err
			}
			defer at.Close()
		}
		err := moveTo(place, name, at, isNew)
		if errors.Is(err, unix.EXDEV) { // path is a link to elsewhere
			return WriteClaimed(ctx, claim, perm, patience, fill)
		}
		if isNew && errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	done = true
	return put, cmp.Or(<-flushed, f.Close(), syncFile(at.Folder, "."))
}

// moveTo renames what has the name temp in the folder of place to the place to.
func moveTo(place regular.Place, temp string, to regular.Place, isNew bool) error {
	from, folder := int(place.Folder.Fd()), int(to.Folder.Fd())
	if !isNew {
		return rename(from, temp, folder, to.Name, 0)
	}
	err := rename(from, temp, folder, to.Name, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	return linkNew(from, temp, folder, to.Name)
}

// linkNew renames to a name that is not there, on a file system that cannot do that in one step.
func linkNew(from int, temp string, folder int, name string) error {
	err := link(from, temp, folder, name, 0)
	if err == nil {
		return regular.Uninterrupted(func() error { return unix.Unlinkat(from, temp, 0) })
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.EXDEV) {
		return err
	}
	return renameToFree(from, temp, folder, name) // there are no further names for a file, either: a look must do
}

// flushFor flushes f, and returns when that is done or, after ctx has ended, when patience is
// over. An error that comes later is the one value of flushed, which is closed at the end.
func flushFor(ctx context.Context, f *os.File, patience time.Duration) (flushed <-chan error, err error) {
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
	case <-time.After(patience):
		return ended, nil
	}
}

// writable returns an error if a place is a descriptor of this process that it was not given, such as the one that Go's
// runtime opens in the place of a closed standard output, or one that is open for reading only.
func writable(place regular.Place) error {
	fd, own := place.Descriptor()
	if !own {
		return nil
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
		return errors.New("it is closed")
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
		err = errors.New("it is open for reading only")
	}
	return err
}

func writeDevice(device *os.File, place regular.Place, path string, fill func(io.Writer) error) error {
	defer device.Close()
	f, err := openDevice(device, place, path)
	if err != nil {
		return err
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// openDevice opens what is written to as it stands. A descriptor of this process is duplicated: opened anew, a file
// would be written from its start, and a socket cannot be opened at all. A file of another process is appended to.
func openDevice(device *os.File, place regular.Place, path string) (*os.File, error) {
	fd, own := place.Descriptor()
	if !own {
		return regular.Reopen(device, path, os.O_WRONLY|os.O_APPEND)
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// fillFile runs fill on a buffer before f.
func fillFile(f *os.File, fill func(io.Writer) error) error {
	out := bufio.NewWriterSize(f, bufferBytes)
	if err := fill(out); err != nil {
		return err
	}
	return out.Flush()
}

// createTemp makes a new file in a folder: without a name where the file system
// can do that, so that a killed process leaves nothing behind. os.CreateTemp
// would not heed the umask.
func createTemp(place regular.Place, perm fs.FileMode) (f *os.File, name string, err error) {
	flags := unix.O_TMPFILE | unix.O_WRONLY | unix.O_CLOEXEC
	var fd int
	err = regular.Uninterrupted(func() error {
		fd, err = unix.Openat(int(place.Folder.Fd()), ".", flags, uint32(perm.Perm()))
		return err
	})
	if err == nil {
		return os.NewFile(uintptr(fd), tempName(place.Name)), "", nil // errors do not show the temporary name
	}
	return createNamed(place, perm)
}

// createNamed makes a new file beside another, with a temporary name.
func createNamed(place regular.Place, perm fs.FileMode) (f *os.File, name string, err error) {
	for {
		temp := regular.Place{Folder: place.Folder, Name: tempName(place.Name)}
		f, err := temp.Open(os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, temp.Name, err
		}
	}
}

// giveName gives a file that has none a temporary name beside place, since only a
// rename can take the place of another file.
func giveName(f *os.File, place regular.Place) (string, error) {
	for {
		name := tempName(place.Name)
		open := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
		err := link(unix.AT_FDCWD, open, int(place.Folder.Fd()), name, unix.AT_SYMLINK_FOLLOW)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// tempName invents a name for something unfinished.
func tempName(name string) string {
	const mostName = 200 // with what is added, names stay below the usual 255 bytes
	return "." + name[:min(len(name), mostName)] + TempMark + strconv.FormatUint(rand.Uint64(), 36)
}

// link gives a file of the folder from a further name, in the folder to.
func link(from int, old string, to int, new string, flags int) error {
	return regular.Uninterrupted(func() error { return unix.Linkat(from, old, to, new, flags) })
}

// renameat is replaced in tests.
var renameat = unix.Renameat

// rename renames a file of the folder from to one of the folder to. flags are those of renameat2.
func rename(from int, old string, to int, new string, flags uint) error {
	return regular.Uninterrupted(func() error {
		if flags == 0 {
			return renameat(from, old, to, new) // file systems that lack the other have this
		}
		return unix.Renameat2(from, old, to, new, flags)
	})
}

// syncFile flushes a file of a folder, or the folder itself: a rename in it then outlasts a loss of power, where the
// file system can do that.
func syncFile(folder *os.File, name string) error {
	f, err := regular.Place{Folder: folder, Name: name}.Open(os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flush(f); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
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
	return err
}
