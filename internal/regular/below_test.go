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

// Hidden files are not below a folder, unless the folder itself is hidden.
func TestHidden(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	err := errors.Join(os.MkdirAll(".home/.ssh/keys", 0o700), os.MkdirAll(".home/a.b", 0o700), os.Symlink(".ssh", ".home/link"),
		os.Mkdir(".home/..2026", 0o700), os.Symlink("..2026", ".home/..data"), os.Symlink("..data/file", ".home/volume"), os.WriteFile(".home/..2026/file", nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	folders := Inside(".home")
	for path, held := range map[string]bool{
		".home/file": true, ".home/a.b/c.d": true, ".home": true, ".home/.ssh/../file": true,
		".home/.file": false, ".home/.ssh": false, ".home/.ssh/keys/file": false, ".home/a.b/.file": false, ".home/..2026/.file": false,
		".home/volume": true, ".home/..data/file": true, ".home/a.b/..file": true,
		".home/link/file": false,
	} {
		if got := folders.Hold(path); got != held {
			t.Errorf("%s: held %v, want %v", path, got, held)
		}
	}
}

// The folder of a file is the one in which the kernel finds it.
func TestFolderOf(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := errors.Join(os.MkdirAll("real/sub", 0o700), os.Mkdir("home", 0o700), os.Symlink("../real/sub", "home/proj")); err != nil {
		t.Fatal(err)
	}
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"home/proj/c", "m", "home/proj/m"}, {"home/proj/c", "../m", "home/proj/../m"}, {"home/proj/../c", "m", at + "/real/m"},
		{"c", "../m", "../m"}, {"c", "m", "m"},
	} {
		if got := Beside(c[0], c[1]); got != c[2] {
			t.Errorf("%s beside %s: %s, want %s", c[1], c[0], got, c[2])
		}
	}
	for path, want := range map[string]string{
		"x": ".", "./x": ".", "../x": "..", "../../a/x": "../../a", "real/x": "real", "/a/b": "/a", "/b": "/",
		"home/proj/x": "home/proj", "home/proj/../x": at + "/real", "real/sub/../x": at + "/real", "../" + filepath.Base(dir) + "/home/../x": at,
		dir + "/home/proj/../x": at + "/real", "none/../x": "none/../",
	} {
		if got := FolderOf(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
