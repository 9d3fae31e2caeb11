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
		os.WriteFile("file", nil, 0o644), os.Symlink("open/in", "link"),
		os.Symlink("sticky/file", "good"), os.Symlink("loop", "loop"), os.Chmod("open", all), os.Chmod("sticky", all|os.ModeSticky))
	for path, want := range map[string]string{
		".": "", "file": "", dir + "/sticky": "", "sticky/file": "", "good": "",
		"open": "/open can be written by its group or by others (mode 0777)", "open/in": "/open can be written by",
		"link": "/open can be written by", "loop": "too many", "none": "/none: no such file",
	} {
		err := Guarded(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	must(t, os.WriteFile("group", nil, 0o644), os.Chown("group", -1, stranger), os.Chmod("group", 0o664),
		os.Mkdir("theirs", 0o755), os.WriteFile("theirs/mine", nil, 0o644), os.Chown("theirs", stranger, stranger),
		os.Symlink("../file", "sticky/link"), os.Lchown("sticky/link", stranger, stranger))
	for path, want := range map[string]string{"theirs/mine": "/theirs belongs to user 65533",
		"group": "/group can be written by its group or by others (mode 0664)", "sticky/link": "/link belongs to user 65533"} {
		if err := Guarded(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestGroups: a group of one's own number may write, as where the umask is 002, unless it has more members.
func TestGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	own := uint32(os.Geteuid())
	for _, c := range []struct {
		mode, gid uint32
		want      bool
	}{
		{0o755, own + 1, false}, {0o775, own + 1, true}, {0o777, own, true}, {0o757, own, true}, {0o775, own, shared(groupsFile, own)},
	} {
		if got := OthersMayWrite(path, c.mode, c.gid); got != c.want {
			t.Errorf("mode %#o, group %d: %v", c.mode, c.gid, got)
		}
	}
	groups := filepath.Join(t.TempDir(), "group")
	must(t, os.WriteFile(groups, []byte("ann:x:1:\nben:x:2:ben\ncid:x:3:ann\nall:x:4:ann,ben\nbad\n"), 0o600))
	for gid, want := range []bool{false, false, false, true, true} {
		if got := shared(groups, uint32(gid)); got != want {
			t.Errorf("group %d: %v", gid, got)
		}
	}
}
