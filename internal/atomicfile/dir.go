package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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
	temp string
	keep bool // temp holds the only copy of the old folder
}

// Write adds a file. name has no folder part; perm is the permission before
// the umask.
func (d *Dir) Write(name string, perm fs.FileMode, fill func(io.Writer) error) error {
	if name != filepath.Base(name) || name == "." || name == ".." || name == "/" {
		return fmt.Errorf("a file of a folder: wanted a name, got %q", name)
	}
	f, err := os.OpenFile(filepath.Join(d.temp, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// WriteDir makes the folder path with the files that fill adds, and the
// folders above it where they are missing. If path is an empty folder already,
// it is replaced; old decides about one that is not empty. aside is the name
// that such a folder has now, "" if none was set aside. A symbolic link stays
// and the folder it points to is replaced.
//
// Errors are those of [Write]. After an error path is as it was.
func WriteDir(path string, old Old, fill func(*Dir) error) (aside string, err error) {
	target, err := Resolve(filepath.Clean(path))
	if err == nil {
		aside, err = writeDir(target, old, fill)
	}
	return aside, outputError(path, err)
}

func writeDir(target string, old Old, fill func(*Dir) error) (aside string, err error) {
	if err := checkPlace(target, old); err != nil {
		return "", err
	}
	made, err := makeParents(filepath.Dir(target))
	if err != nil {
		return "", err
	}
	done := false
	defer func() {
		if !done {
			removeEmpty(made)
		}
	}()
	d, err := makeTempDir(target)
	if err != nil {
		return "", err
	}
	defer d.remove()
	if err := fill(d); err != nil {
		return "", err
	}
	if err := d.sync(); err != nil {
		return "", err
	}
	if aside, err = d.place(target, old); err != nil {
		return "", err
	}
	done = true
	return aside, syncFolder(filepath.Dir(target))
}

// checkPlace refuses a destination that cannot or must not be replaced, or
// that holds the current folder, before anything is written.
func checkPlace(target string, old Old) error {
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("there is a file of that name, wanted a folder")
	}
	if entries, err := os.ReadDir(target); err != nil {
		return err
	} else if old == Refuse && len(entries) > 0 {
		return ErrNotEmpty
	}
	here, err := os.Getwd()
	if err != nil {
		return nil // the current folder is gone, so target cannot hold it
	}
	for {
		if above, err := os.Stat(here); err == nil && os.SameFile(info, above) {
			return errors.New("it is the current folder or one above it, which would be replaced as a whole")
		}
		if here == filepath.Dir(here) {
			return nil
		}
		here = filepath.Dir(here)
	}
}

// makeParents makes folder and the folders above it and returns those that it
// made, the deepest first.
func makeParents(folder string) ([]string, error) {
	var missing []string
	for above := folder; ; above = filepath.Dir(above) {
		if _, err := os.Stat(above); !errors.Is(err, fs.ErrNotExist) || above == filepath.Dir(above) {
			break
		}
		missing = append(missing, above)
	}
	err := os.MkdirAll(folder, 0o755)
	if err != nil {
		removeEmpty(missing)
	}
	return missing, err
}

func removeEmpty(folders []string) {
	for _, f := range folders {
		_ = unix.Rmdir(f) // not os.Remove: a file may have taken its place
	}
}

func makeTempDir(target string) (*Dir, error) {
	for {
		temp := tempName(target)
		err := os.Mkdir(temp, 0o755)
		if err == nil {
			return &Dir{temp: temp}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
}

// remove deletes what is under the temporary name: the unfinished folder, the
// old one, or nothing any more.
func (d *Dir) remove() {
	if !d.keep {
		os.RemoveAll(d.temp)
	}
}

// sync flushes all files to the disk. Doing it at the end lets the kernel
// write them together.
func (d *Dir) sync() error {
	entries, err := os.ReadDir(d.temp)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := syncFolder(filepath.Join(d.temp, e.Name())); err != nil {
			return err
		}
	}
	return syncFolder(d.temp)
}

// place renames the finished folder to target.
func (d *Dir) place(target string, old Old) (aside string, err error) {
	err = unix.Rename(d.temp, target) // replaces an empty folder, and no other
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return "", err
	}
	if old == Refuse {
		return "", ErrNotEmpty
	}
	if err := exchange(d.temp, target); err != nil {
		return "", err
	}
	if old == Discard {
		return "", nil
	}
	if aside, err = setAside(d.temp, target); err != nil {
		back := exchange(d.temp, target)
		d.keep = back != nil
		return "", errors.Join(err, back)
	}
	return aside, nil
}

// exchange swaps two folders in one step, or in three where the file system
// cannot do that.
func exchange(temp, target string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, target, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return exchangeSlowly(temp, target)
}

func exchangeSlowly(temp, target string) error {
	between := tempName(target)
	if err := os.Rename(target, between); err != nil {
		return err
	}
	if err := os.Rename(temp, target); err != nil {
		return errors.Join(err, os.Rename(between, target))
	}
	return os.Rename(between, temp)
}

// setAside renames temp to the first free name of target.old, target.old2, ...
func setAside(temp, target string) (string, error) {
	for n := 1; ; n++ {
		aside := target + ".old"
		if n > 1 {
			aside += fmt.Sprint(n)
		}
		err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, aside, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			err = renameToFree(temp, aside)
		}
		if !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
	}
}

// renameToFree is RENAME_NOREPLACE for file systems without it: rename itself
// refuses to replace a folder that is not empty, and an empty one is no loss,
// but a file in the way would be an error without end.
func renameToFree(temp, aside string) error {
	if _, err := os.Lstat(aside); err == nil {
		return fs.ErrExist
	}
	return os.Rename(temp, aside)
}
