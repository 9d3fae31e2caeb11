package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"perigee/internal/fault"
	"perigee/internal/regular"
)

// Old says what becomes of a folder that lies at the destination of
// [WriteDir] and is not empty.
type Old int

const (
	Refuse   Old = iota // an error, and nothing changes
	Discard             // it is deleted with all that is in it, once the new one is in its place
	SetAside            // it stays under another name beside the new one
)

// ErrNotEmpty is in the chain of the error with which [Refuse] refuses.
var ErrNotEmpty = errors.New("the folder is not empty")

// Dir is a folder that [WriteDir] is filling.
type Dir struct {
	ctx    context.Context
	folder *os.File // under its temporary name
	above  *os.File
	was    fs.FileInfo // of the folder that was in the place at the start, nil for none
	temp   string
	keep   bool // temp names the only copy of the old folder

	discard bool // temp names the old folder, which is to be deleted
}

// Write adds a file. name has no folder part; perm is the permission before
// the umask.
func (d *Dir) Write(name string, perm fs.FileMode, fill func(io.Writer) error) error {
	if name != filepath.Base(name) || name == "." || name == ".." || name == "/" {
		return fmt.Errorf("a file of a folder: wanted a name, got %q", name)
	}
	if err := d.given(); err != nil {
		return err
	}
	f, err := regular.Place{Folder: d.folder, Name: name}.Open(os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// given returns why the folder is given up, nil if it is not.
func (d *Dir) given() error {
	if d.ctx.Err() == nil {
		return nil
	}
	return fault.New(fault.Interrupt, "%w: nothing is written", context.Cause(d.ctx))
}

// WriteDir makes the folder path with the files that fill adds, and the
// folders above it where they are missing. If path is an empty folder already,
// it is replaced; old decides about one that is not empty. aside is the name
// that such a folder has now, "" if none was set aside. A symbolic link stays
// and the folder it points to is replaced.
//
// Errors are those of [Write], and one of the kind Interrupt if ctx ends before the folder has its place. After an
// error path is as it was.
func WriteDir(ctx context.Context, path string, old Old, fill func(*Dir) error) (aside string, err error) {
	place, made, err := regular.MakeParents(filepath.Clean(path), 0o755)
	done := false // stays false if fill panics, too
	defer func() { made.Close(!done) }()
	if err == nil {
		defer place.Close()
		aside, err = writeDir(ctx, place, old, fill)
	}
	done = err == nil
	return aside, outputError(path, err)
}

func writeDir(ctx context.Context, place regular.Place, old Old, fill func(*Dir) error) (aside string, err error) {
	was, err := checkPlace(place, old)
	if err != nil {
		return "", err
	}
	d, err := makeTempDir(place)
	if err != nil {
		return "", err
	}
	d.ctx, d.was = ctx, was
	defer d.remove()
	if err := fill(d); err != nil {
		return "", err
	}
	if err := d.sync(); err != nil {
		return "", err
	}
	if aside, err = d.place(place.Name, old); err != nil {
		return "", err
	}
	return aside, syncFile(place.Folder, ".")
}

// checkPlace refuses a destination that cannot or must not be replaced, or
// that holds the current folder, before anything is written. It returns what is
// there, nil for nothing.
func checkPlace(place regular.Place, old Old) (fs.FileInfo, error) {
	f, err := place.Open(unix.O_PATH, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("there is a file of that name, wanted a folder")
	}
	if entries, err := list(f); err != nil {
		return nil, err
	} else if old == Refuse && len(entries) > 0 {
		return nil, ErrNotEmpty
	}
	here, err := os.Getwd()
	if err != nil {
		return info, nil // the current folder is gone, so the place cannot hold it
	}
	for {
		if above, err := os.Stat(here); err == nil && os.SameFile(info, above) {
			return nil, errors.New("it is the current folder or one above it, which would be replaced as a whole")
		}
		if here == filepath.Dir(here) {
			return info, nil
		}
		here = filepath.Dir(here)
	}
}

// list returns what is in a folder.
func list(folder *os.File) ([]fs.DirEntry, error) {
	f, err := regular.Place{Folder: folder, Name: "."}.Open(os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

func makeTempDir(place regular.Place) (*Dir, error) {
	for {
		temp := regular.Place{Folder: place.Folder, Name: tempName(place.Name)}
		err := temp.Mkdir(0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d := &Dir{above: temp.Folder, temp: temp.Name}
		if d.folder, err = temp.Open(os.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
			unix.Unlinkat(int(d.above.Fd()), d.temp, unix.AT_REMOVEDIR)
			return nil, err
		}
		return d, nil
	}
}

// remove deletes what is under the temporary name: the unfinished folder, the
// old one, or nothing any more. Another folder, which a user who may write beside it has moved there, stays.
func (d *Dir) remove() {
	defer d.folder.Close()
	if d.keep {
		return
	}
	f, err := regular.Place{Folder: d.above, Name: d.temp}.Open(os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if !d.mayDelete(f) {
		return
	}
	if root, err := os.OpenRoot(fmt.Sprint("/proc/self/fd/", f.Fd())); err == nil {
		names, _ := f.Readdirnames(-1)
		for _, name := range names {
			root.RemoveAll(name)
		}
		root.Close()
	}
	unix.Unlinkat(int(d.above.Fd()), d.temp, unix.AT_REMOVEDIR) // an empty folder, and no other
}

// mayDelete reports whether a folder is the one that was made, or the one that it has replaced and that is to go.
func (d *Dir) mayDelete(f *os.File) bool {
	found, err := f.Stat()
	if err != nil {
		return false
	}
	made, err := d.folder.Stat()
	return err == nil && os.SameFile(found, made) || d.discard && os.SameFile(found, d.was)
}

// sync flushes all files to the disk. Doing it at the end lets the kernel
// write them together.
func (d *Dir) sync() error {
	entries, err := list(d.folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.given(); err != nil {
			return err
		}
		if err := syncFile(d.folder, e.Name()); err != nil {
			return err
		}
	}
	if err := syncFile(d.folder, "."); err != nil {
		return err
	}
	return d.given()
}

// place renames the finished folder.
func (d *Dir) place(name string, old Old) (aside string, err error) {
	folder := int(d.above.Fd())
	err = rename(folder, d.temp, folder, name, 0) // replaces an empty folder, and no other
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return "", err
	}
	if old == Refuse {
		return "", ErrNotEmpty
	}
	if err := exchange(folder, d.temp, name); err != nil {
		return "", err
	}
	if old == Discard && d.unchanged() {
		d.discard = true
		return "", nil
	}
	if aside, err = setAside(folder, d.temp, name); err != nil {
		back := exchange(folder, d.temp, name)
		if d.keep = back != nil; d.keep {
			err = fmt.Errorf("%w; what was there is beside it as %s now, and cannot be moved back: %w", err, d.temp, back)
		}
		return "", err
	}
	return filepath.Join(d.above.Name(), aside), nil
}

// unchanged reports whether the folder that is under the temporary name now is the one that was in the place at the
// start, and nothing has come into it or left it since: another one, or more, was not meant to be discarded.
func (d *Dir) unchanged() bool {
	f, err := regular.Place{Folder: d.above, Name: d.temp}.Open(unix.O_PATH, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && d.was != nil && os.SameFile(info, d.was) && info.ModTime().Equal(d.was.ModTime())
}

// exchange swaps two folders in one step, or in three where the file system
// cannot do that.
func exchange(folder int, temp, name string) error {
	err := rename(folder, temp, folder, name, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return exchangeSlowly(folder, temp, name)
}

func exchangeSlowly(folder int, temp, name string) error {
	between := tempName(name)
	steps := [][2]string{{name, between}, {temp, name}, {between, temp}}
	for n, step := range steps {
		err := rename(folder, step[0], folder, step[1], 0)
		if err == nil {
			continue
		}
		for _, step := range slices.Backward(steps[:n]) {
			if back := rename(folder, step[1], folder, step[0], 0); back != nil {
				return fmt.Errorf("%w; what was there is beside it as %s now, and cannot be moved back: %w", err, between, back)
			}
		}
		return err
	}
	return nil
}

// Aside ends the names of what is set aside, with a number behind it from the second on.
const Aside = ".old"

// MoveAside gives what is at a path the first free name of path.old, path.old2, ..., and returns it.
func MoveAside(path string) (aside string, err error) {
	if aside, err = setAside(unix.AT_FDCWD, path, path); err != nil {
		err = &os.LinkError{Op: "rename", Old: path, New: aside, Err: err}
	}
	return aside, err
}

// setAside renames temp to the first free name of name.old, name.old2, ...
func setAside(folder int, temp, name string) (string, error) {
	for n := 1; ; n++ {
		aside := name + Aside
		if n > 1 {
			aside += fmt.Sprint(n)
		}
		err := rename(folder, temp, folder, aside, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			err = renameToFree(folder, temp, folder, aside)
		}
		if !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
	}
}

// renameToFree is RENAME_NOREPLACE for file systems without it: rename itself
// refuses to replace a folder that is not empty, and an empty one is no loss,
// but a file in the way would be an error without end.
func renameToFree(from int, temp string, to int, name string) error {
	var found unix.Stat_t
	if unix.Fstatat(to, name, &found, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fs.ErrExist
	}
	return rename(from, temp, to, name, 0)
}
