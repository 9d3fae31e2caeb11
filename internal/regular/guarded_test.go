package regular

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuarded(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	const all = 0o777
	must(t, os.Mkdir("open", 0o755), os.Mkdir("sticky", 0o755), os.Mkdir("open/in", 0o755), os.WriteFile("sticky/file", nil, 0o644),
		os.WriteFile("file", nil, 0o644), os.WriteFile("group", nil, 0o644), os.Chmod("group", 0o664), os.Symlink("open/in", "link"),
		os.Symlink("sticky/file", "good"), os.Symlink("loop", "loop"), os.Chmod("open", all), os.Chmod("sticky", all|os.ModeSticky))
	for path, want := range map[string]string{
		".": "", "file": "", dir + "/sticky": "", "sticky/file": "", "good": "",
		"open": "/open can be written by its group or by others (mode 0777)", "open/in": "/open can be written by",
		"link": "/open can be written by", "group": "/group can be written by its group or by others (mode 0664)",
		"loop": "too many", "none": "/none: no such file",
	} {
		err := Guarded(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	must(t, os.Mkdir("theirs", 0o755), os.WriteFile("theirs/mine", nil, 0o644), os.Chown("theirs", stranger, stranger),
		os.Symlink("../file", "sticky/link"), os.Lchown("sticky/link", stranger, stranger))
	for path, want := range map[string]string{"theirs/mine": "/theirs belongs to user 65533", "sticky/link": "/link belongs to user 65533"} {
		if err := Guarded(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
