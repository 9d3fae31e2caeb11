package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Folders are made where the path leads, and not behind links of strangers; what is not wanted is removed.
func TestMakeParents(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.Mkdir("kept", 0o700), os.Symlink(filepath.Join(dir, "kept", "behind"), "own"), os.WriteFile("file", nil, 0o600))
	for _, path := range []string{"a/b/c/file", "own/x/file", "kept/file", "./a/../a/d/file"} {
		place, made, err := MakeParents(path, 0o710)
		must(t, err)
		if f, err := place.Open(os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		place.Close()
		made.Close(true) // stays, since something is in it
	}
	for _, path := range []string{"a", "a/b", "a/b/c", "a/d", "kept/behind", "kept/behind/x"} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeDir|0o710 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	place, made, err := MakeParents("gone/b/c/file", 0o700)
	must(t, err, place.Close())
	made.Close(true)
	if _, err := os.Lstat("gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	for path, want := range map[string]error{"file/x/y": unix.ENOTDIR, "/proc/none/x": unix.ENOENT, "": unix.ENOENT} {
		_, made, err := MakeParents(path, 0o700)
		made.Close(true)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, os.Mkdir("shared", 0o777), os.Chmod("shared", 0o777|os.ModeSticky), os.Symlink(filepath.Join(dir, "kept"), "shared/link"),
		os.Lchown("shared/link", stranger, stranger))
	_, made, err = MakeParents("shared/link/new/file", 0o700)
	made.Close(false)
	if _, there := os.Lstat("kept/new"); !errors.Is(err, errAstray) || there == nil {
		t.Errorf("behind a link of another user: %v, %v", err, there)
	}
}

// A folder is made or taken as it is, but neither one of a stranger nor one behind a stranger's link.
func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.Mkdir("there", 0o700), os.WriteFile("file", nil, 0o600), os.Symlink("there", "own"))
	for _, path := range []string{"there", "a/b/c", "a/d/", "own", "own/e"} {
		must(t, MakeFolder(path, 0o755))
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if err := MakeFolder("file", 0o755); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, os.Mkdir("shared", 0o777), os.Chmod("shared", 0o777|os.ModeSticky), os.Symlink(filepath.Join(dir, "there"), "shared/link"),
		os.Lchown("shared/link", stranger, stranger), os.Mkdir("shared/theirs", 0o755), os.Chown("shared/theirs", stranger, stranger))
	for _, path := range []string{"shared/link/new", "shared/theirs"} {
		if err := MakeFolder(path, 0o755); err == nil {
			t.Errorf("%s: taken", path)
		}
	}
	if _, err := os.Lstat("there/new"); err == nil {
		t.Error("made behind a link of another user")
	}
}
