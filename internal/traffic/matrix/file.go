package matrix

import (
	"errors"
	"io/fs"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/file"
)

// Load reads a matrix from a file, as [ReadText] does.
func Load(path string) (*Matrix, error) {
	f, err := file.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Input, "matrix %s: there is no such file", path).
			WithHint("check the spelling; in a configuration, a relative path starts at its folder")
	}
	if err != nil {
		return nil, fault.New(fault.Input, "matrix: %w", err)
	}
	defer f.Close()
	return ReadText(path, f)
}
