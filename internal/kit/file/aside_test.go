package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perigee/internal/kit/must"
)

func TestMoveAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, want := range []string{path + ".old", path + ".old2"} {
		must.Do(t, os.Mkdir(path, 0o700))
		aside, err := MoveAside(path)
		if _, gone := os.Lstat(path); err != nil || aside != want || !errors.Is(gone, fs.ErrNotExist) {
			t.Errorf("%s, %v, wanted %s; %v", aside, err, want, gone)
		}
	}
	if _, err := MoveAside(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("nothing there: %v", err)
	}
}
