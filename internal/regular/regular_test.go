package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("12345"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(file, 5); err != nil || string(data) != "12345" {
		t.Errorf("got %q, %v", data, err)
	}
	for path, want := range map[string]error{pipe: ErrNotRegular, link: ErrNotRegular, "/dev/zero": ErrNotRegular, "/proc/self/status": ErrNotRegular, "/sys/kernel/mm/transparent_hugepage/enabled": ErrNotRegular, dir: syscall.EISDIR, filepath.Join(dir, "no"): os.ErrNotExist} {
		if _, err := Read(path, 5); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := Read(file, 4); err == nil || !strings.Contains(err.Error(), "it is larger than 4 bytes") {
		t.Errorf("got %v", err)
	}
}
