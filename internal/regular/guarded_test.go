package regular

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
		{0o755, own + 1, false}, {0o775, own + 1, true}, {0o777, own, true}, {0o757, own, true},
		{0o775, own, shared("/etc/group", "/etc/passwd", own)},
	} {
		if got := OthersMayWrite(path, c.mode, c.gid); got != c.want {
			t.Errorf("mode %#o, group %d: %v", c.mode, c.gid, got)
		}
	}
	const unknown = 4_000_000_000 // no group of this system: what counts are the lists
	groups, users := filepath.Join(t.TempDir(), "group"), filepath.Join(t.TempDir(), "passwd")
	must(t, os.WriteFile(groups, []byte("ann:x:4000000000:\nben:x:4000000001:ben\ncid:x:4000000002:ann\nall:x:4000000003:ann,ben\nbad\n"), 0o600),
		os.WriteFile(users, []byte("ann:x:4000000000:4000000000:Ann:/:/bin/sh\ndan:x:5:4000000001::/:\nbad\n"), 0o600))
	for i, want := range []bool{false, true, true, true, false} {
		if got := shared(groups, users, unknown+uint32(i)); got != want {
			t.Errorf("group %d: %v", unknown+i, got)
		}
	}
	missing := filepath.Join(t.TempDir(), "none")
	if shared(missing, missing, unknown) || !shared(t.TempDir(), missing, unknown) || !shared(missing, t.TempDir(), unknown) {
		t.Error("lists that are not there, or cannot be read")
	}
	// A group of a user's number, but of another name, is not that user's: who is in it only its directory knows.
	text, err := os.ReadFile("/etc/group")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		if len(fields) != 4 {
			continue
		}
		gid, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			continue
		}
		if u, err := user.LookupId(fields[2]); err == nil && u.Username != fields[0] && !shared(missing, missing, uint32(gid)) {
			t.Errorf("group %s is not that of user %s", fields[0], u.Username)
		}
	}
}

// TestGuardedSteps: a link's ".." starts where the folder before it really is, as in the kernel.
func TestGuardedSteps(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	must(t, os.MkdirAll("open/in/deep", 0o755), os.Mkdir("file", 0o755), os.Chmod("open", 0o777), os.Symlink("open/in", "short"),
		os.Mkdir("safe", 0o755), os.Symlink("safe", "good"), os.Symlink("good/../file", "fine"), os.Symlink("short/../file", "astray"),
		os.Mkdir("open/file", 0o755), os.Symlink("/", "root"))
	for path, want := range map[string]string{
		"fine": "", "root": "", "root/": "", "good": "", "astray": "/open can be written by", "safe/none": "/safe/none: no such file",
	} {
		err := Guarded(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestGuardedInContainer: the folders above belong to a user outside, as where only one user is known inside.
func TestGuardedInContainer(t *testing.T) {
	if path := os.Getenv("PERIGEE_TEST_GUARDED"); path != "" {
		for _, p := range []string{path, filepath.Join(path, "link")} {
			if err := Guarded(p); err != nil {
				t.Errorf("%s: %v", p, err)
			}
		}
		if err := Guarded("/"); err == nil || !strings.Contains(err.Error(), "/ belongs to user") {
			t.Errorf("a folder of a user outside: %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has folders to give away")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	inner := filepath.Join(dir, "inner")
	must(t, os.Mkdir(inner, 0o755), os.Symlink(".", filepath.Join(inner, "link")), os.Chown(inner, stranger, stranger))
	must(t, os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)) // both are this test's
	for p := dir; p != filepath.Dir(p); p = filepath.Dir(p) {
		if info, err := os.Stat(p); err != nil || info.Mode()&0o001 == 0 {
			t.Skipf("others cannot reach %s", p)
		}
	}
	binary := filepath.Join(dir, "test")
	data, err := os.ReadFile("/proc/self/exe")
	must(t, err, os.WriteFile(binary, data, 0o755))
	cmd := exec.Command(binary, "-test.run=^TestGuardedInContainer$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PERIGEE_TEST_GUARDED="+inner)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: stranger, HostID: stranger, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: stranger, HostID: stranger, Size: 1}},
		Credential:  &syscall.Credential{Uid: stranger, Gid: stranger, NoSetGroups: true}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skip("no user namespaces here: ", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An access control list may let others write, though the group is this user's alone: the bits of the mode do not say.
func TestAccessControlLists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o664), os.Chown(path, -1, os.Geteuid()))
	may := func() bool {
		var st unix.Stat_t
		must(t, unix.Stat(path, &st))
		return OthersMayWrite(path, st.Mode, st.Gid)
	}
	if may() {
		t.Skip("the group of this user has other members")
	}
	const owner, user, group, mask, others = 1, 2, 4, 16, 32 // as in linux/posix_acl.h
	list := binary.LittleEndian.AppendUint32(nil, 2)         // the version
	for _, entry := range [][3]uint32{{owner, 6, 0}, {user, 6, stranger}, {group, 6, 0}, {mask, 6, 0}, {others, 4, 0}} {
		list = binary.LittleEndian.AppendUint32(list, entry[0]|entry[1]<<16)
		list = binary.LittleEndian.AppendUint32(list, entry[2])
	}
	must(t, unix.Setxattr(path, "system.posix_acl_access", list, 0))
	if !may() {
		t.Error("a file with an access control list passes for this user's alone")
	}
}
