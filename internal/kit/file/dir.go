package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"perigee/internal/kit/fault"
)

// Old says what becomes of a folder that lies at the destination of [WriteDir] and is not empty.
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
	ctx  context.Context
	temp string
}

// Write adds a file. name has no folder part; perm is the permission before the umask.
func (d *Dir) Write(name string, perm fs.FileMode, fill func(io.Writer) error) error {
	if err := d.ended(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.temp, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("%s: %w", name, errors.Unwrap(err))
	}
	return errors.Join(fillFile(f, fill), f.Close())
}

// ended returns why nothing is to be written any more.
func (d *Dir) ended() error {
	if d.ctx.Err() == nil {
		return nil
	}
	return fault.New(fault.Interrupt, "%w: nothing is written", context.Cause(d.ctx))
}

// WriteDir makes the folder path with the files that fill adds, and the folders above it where they are missing. An
// empty folder is replaced; old decides about one that is not empty. aside is the path that such a folder has now, ""
// if none was set aside. A link stays, and the folder to which it leads is replaced.
//
// Errors are those of [Write], and one of the kind Interrupt if ctx ends before the folder has its place. After an
// error what was at path is still there.
func WriteDir(ctx context.Context, path string, old Old, fill func(*Dir) error) (aside string, err error) {
	defer func() { err = outputError(path, err) }()
	target, err := Target(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	if err := checkFolder(target, old); err != nil {
		return "", err
	}
	above := filepath.Dir(target)
	if err := os.MkdirAll(above, 0o777); err != nil {
		return "", err
	}
	d := &Dir{ctx, tempName(target)}
	if err := os.Mkdir(d.temp, 0o777); err != nil {
		return "", err
	}
	defer os.RemoveAll(d.temp) // unless it was renamed
	if err := fill(d); err != nil {
		return "", err
	}
	if err := d.sync(); err != nil {
		return "", err
	}
	if aside, err = d.place(target, old); err != nil {
		return "", err
	}
	return aside, syncFile(above)
}

// checkFolder refuses a destination that cannot or must not be replaced, or that holds the current folder, before
// anything is written.
func checkFolder(path string, old Old) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("there is a file of that name, wanted a folder")
	}
	if entries, err := os.ReadDir(path); err != nil {
		return err
	} else if old == Refuse && len(entries) > 0 {
		return ErrNotEmpty
	}
	if here, err := os.Getwd(); err == nil && Below(here, path) {
		return errors.New("it is the current folder or one above it, which would be replaced as a whole")
	}
	return nil
}

// sync flushes all files to the disk. Doing it at the end lets the kernel write them together.
func (d *Dir) sync() error {
	entries, err := os.ReadDir(d.temp)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.ended(); err != nil {
			return err
		}
		if err := syncFile(filepath.Join(d.temp, e.Name())); err != nil {
			return err
		}
	}
	if err := syncFile(d.temp); err != nil {
		return err
	}
	return d.ended()
}

// place renames the finished folder.
func (d *Dir) place(path string, old Old) (aside string, err error) {
	err = unix.Rename(d.temp, path)   // replaces an empty folder, and no other
	if !errors.Is(err, fs.ErrExist) { // which is also ENOTEMPTY
		return "", err
	}
	if old == Refuse {
		return "", ErrNotEmpty
	}
	if aside, err = MoveAside(path); err != nil {
		return "", err
	}
	if err := unix.Rename(d.temp, path); err != nil {
		return "", errors.Join(err, os.Rename(aside, path))
	}
	if old == Discard {
		os.RemoveAll(aside)
		aside = ""
	}
	return aside, nil
}

// Aside ends the names of what is set aside, with a number behind it from the second on.
const Aside = ".old"

// MoveAside gives what is at a path the first free name of path.old, path.old2, ..., and returns it.
func MoveAside(path string) (aside string, err error) {
	aside = path + Aside
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); err != nil { // of another error than "does not exist" Rename says the same
			return aside, os.Rename(path, aside)
		}
		aside = fmt.Sprint(path, Aside, n)
	}
}
