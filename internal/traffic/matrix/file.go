package matrix

import (
	"errors"
	"io/fs"
	"os"

	"perigee/internal/fault"
	"perigee/internal/file"
)

// Load reads a matrix from a file, as [ReadText] does. check, if there is one, may refuse the file that was opened: it
// may be another than its name led to before.
func Load(path string, check func(*os.File) error) (*Matrix, error) {
	f, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Input, "matrix %s: there is no such file", path).
			WithHint("check the spelling; in a configuration, a relative path starts at its folder")
	}
	if err != nil {
		return nil, fault.New(fault.Input, "matrix: %w", err)
	}
	defer f.Close()
	if check != nil {
		if err := check(f); err != nil {
			return nil, err
		}
	}
	return ReadText(path, f)
}

// Unreadable is the error of a matrix in a file that the user has not named: the configuration of someone else may name
// any, to have a part of it in a message. It has no word of the file's text.
func Unreadable(path string) *fault.Error {
	return fault.New(fault.Input, "matrix %s: it is unreadable, or no matrix", path)
}
