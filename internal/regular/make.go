package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Made are folders that [MakeParents] has made, the highest first.
type Made []Place

// MakeParents makes the folders above path, as far as they are missing, and finds its place, as [Locate] does: no link
// of another user has a folder made where it leads. perm is the permission before the umask. What was made comes back
// also beside an error, to be closed.
func MakeParents(path string, perm fs.FileMode) (Place, Made, error) {
	place, err := Locate(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return place, nil, err
	}
	above, made, err := MakeParents(filepath.Dir(path), perm)
	if err != nil {
		return place, made, err
	}
	err = above.Mkdir(perm)
	switch {
	case err == nil:
		made = append(made, above)
	case errors.Is(err, fs.ErrExist):
		above.Close()
	default:
		err = &fs.PathError{Op: "mkdir", Path: above.Path(), Err: err}
		above.Close()
		return place, made, err
	}
	place, err = Locate(path)
	return place, made, err
}

// MakeFolder makes a folder, and those above it, as far as they are missing. It follows no link of another user, and
// refuses a folder of another user, who could change what is put into it. perm is the permission before the umask.
func MakeFolder(path string, perm fs.FileMode) error {
	path = filepath.Clean(path)
	place, made, err := MakeParents(path, perm)
	done := false
	defer func() { made.Close(!done) }()
	if err != nil {
		return err
	}
	defer place.Close()
	err = place.Mkdir(perm)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	f, err := place.Open(unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var found unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &found); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if place.Foreign(found) {
		return fmt.Errorf("%s belongs to user %d", path, found.Uid)
	}
	done = true
	return nil
}

// Close forgets the folders, and removes them if they are not wanted.
func (m Made) Close(remove bool) {
	for _, place := range slices.Backward(m) {
		if remove {
			unix.Unlinkat(int(place.Folder.Fd()), place.Name, unix.AT_REMOVEDIR) // unless something is in it
		}
		place.Close()
	}
}
