package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMoveAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, want := range []string{path + ".old", path + ".old2"} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		aside, err := MoveAside(path)
		if _, gone := os.Lstat(path); err != nil || aside != want || !errors.Is(gone, fs.ErrNotExist) {
			t.Errorf("%s, %v, wanted %s; %v", aside, err, want, gone)
		}
	}
	if _, err := MoveAside(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("nothing there: %v", err)
	}
}
