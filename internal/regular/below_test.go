package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Paths lead where the kernel follows them: behind a link ".." is not the folder in which the link is.
func TestHoldFollowsAsTheKernel(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	err := errors.Join(os.MkdirAll("in/below", 0o700), os.MkdirAll("out/sub", 0o700), os.WriteFile("out/secret", nil, 0o600),
		os.Symlink("../out/sub", "in/away"), os.Symlink("below", "in/here"), os.Symlink("nowhere", "in/dangling"))
	if err != nil {
		t.Fatal(err)
	}
	folders := Inside("in")
	for path, held := range map[string]bool{
		"in/file": true, "in/new/file": true, "in/below/../file": true, "in/here/../file": true, "in//below/": true,
		"in/away/../secret": false, "in/away/../new": false, "in/away/new": false, "out/secret": false,
		"in/dangling": false, "in/dangling/../file": false, "in/new/../file": false, "in/..": false, "": false, "/": false,
	} {
		for _, path := range []string{path, dir + "/" + path} {
			if got := folders.Hold(path); got != held {
				t.Errorf("%s: held %v, want %v", path, got, held)
			}
			file, err := os.Open(path)
			if err != nil {
				continue
			}
			if folders.HoldOpen(file) != held && filepath.Clean(path) != "/" {
				t.Errorf("%s: open it is held %v", path, !held)
			}
			file.Close()
		}
	}
}
