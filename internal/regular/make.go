package regular

import (
	"errors"
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
	err = unix.Mkdirat(int(above.Folder.Fd()), above.Name, uint32(perm.Perm()))
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

// Close forgets the folders, and removes them if they are not wanted.
func (m Made) Close(remove bool) {
	for _, place := range slices.Backward(m) {
		if remove {
			unix.Unlinkat(int(place.Folder.Fd()), place.Name, unix.AT_REMOVEDIR) // unless something is in it
		}
		place.Close()
	}
}
