package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Without an umask others still cannot replace what a new folder holds.
func TestFoldersWithoutUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	parent := filepath.Join(t.TempDir(), "not", "there")
	out := filepath.Join(parent, "out")
	write := func(d *Dir) error {
		return d.Write("f", 0o600, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err })
	}
	if _, err := WriteDir(t.Context(), out, Refuse, write); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(parent), parent, out} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
}
