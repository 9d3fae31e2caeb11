package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const stranger = 65533

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// resolved is the path of a place, without links.
func resolved(t *testing.T, path string) (string, error) {
	t.Helper()
	p, err := Locate(path)
	if err != nil {
		return "", err
	}
	defer p.Close()
	folder, err := os.Readlink(fmt.Sprint("/proc/self/fd/", p.Folder.Fd()))
	must(t, err)
	return filepath.Join(folder, p.Name), nil
}

func TestLocate(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	must(t, os.MkdirAll("a/b/c", 0o755), os.WriteFile("a/file", nil, 0o644), os.Symlink("a/b", "short"),
		os.Symlink(dir+"/short/c", "chain"), os.Symlink("../file", "a/b/up"), os.Symlink("chain/new", "dangling"),
		os.Symlink("loop", "loop"), os.Symlink("a/b/", "slash"))
	for path, want := range map[string]string{
		"a/file": "a/file", "new": "new", "./a//b/../b/new": "a/b/new", dir + "/a/file": "a/file", "short/up": "a/file",
		"chain/new": "a/b/c/new", "dangling": "a/b/c/new", "chain/..": "a/b", "short/../file": "a/file", ".": ".",
		"short": "a/b", "short/": "a/b", "slash": "a/b", "/proc/self/cwd/short/x": "a/b/x",
	} {
		got, err := resolved(t, path)
		if want := filepath.Join(dir, want); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", path, got, err, want)
		}
	}
	for path, want := range map[string]error{
		"": syscall.ENOENT, "none/x": syscall.ENOENT, "a/file/x": syscall.ENOTDIR, "loop": errLoop, "loop/x": errLoop,
		"a\x00/b": syscall.EINVAL, strings.Repeat("x", 300) + "/x": syscall.ENAMETOOLONG, "dangling/x": syscall.ENOENT,
	} {
		if got, err := resolved(t, path); !errors.Is(err, want) {
			t.Errorf("%q: got %s, %v, want %v", path, got, err, want)
		}
	}
}

// Links of other users lead to their own folders only, where they could have been put in the way; links of root and of
// this user lead everywhere.
func TestLocateWithStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(dir)
	must(t, os.Chmod(dir, 0o755), os.Mkdir("mine", 0o755), os.Mkdir("theirs", 0o755), os.Mkdir("third", 0o755),
		os.Chown("theirs", stranger, stranger), os.Chown("third", stranger-1, stranger-1), os.Mkdir("shared", 0o777))
	for name, target := range map[string]string{
		"mine": "../mine", "theirs": "../theirs", "third": "../third", "around": "../theirs/../mine", "file": "../mine/file",
		"chain": "theirs/back", "good": "../theirs/file",
	} {
		must(t, os.Symlink(target, "shared/"+name), os.Lchown("shared/"+name, stranger, stranger))
	}
	must(t, os.Symlink("../mine", "theirs/back"), os.Lchown("theirs/back", stranger, stranger),
		os.Symlink("shared/mine", "indirect"), os.Symlink("../mine", "shared/own"))
	all := map[string]string{
		"shared/mine/x": "mine/x", "shared/theirs/x": "theirs/x", "shared/third/x": "third/x", "shared/around/x": "mine/x",
		"shared/file": "mine/file", "shared/chain/x": "mine/x", "shared/good": "theirs/file", "indirect/x": "mine/x",
		"shared/own/x": "mine/x", "theirs/back/x": "mine/x", "shared/mine/": "mine",
	}
	safe := []string{"shared/theirs/x", "shared/good", "shared/own/x"}
	for _, folder := range []struct {
		mode  fs.FileMode
		owner int
		safe  bool
	}{{0o755, 0, true}, {0o775, 0, true}, {0o777 | fs.ModeSticky, 0, false}, {0o777, 0, false}, {0o755, stranger, false}} {
		must(t, os.Chown("shared", folder.owner, folder.owner), os.Chmod("shared", folder.mode))
		for path, target := range all {
			allowed := folder.safe
			for _, s := range safe {
				allowed = allowed || path == s
			}
			if strings.Contains(path, "back") || strings.Contains(path, "chain") {
				allowed = false
			}
			got, err := resolved(t, path)
			if allowed && (err != nil || got != filepath.Join(dir, target)) || !allowed && !errors.Is(err, errAstray) {
				t.Errorf("%s in a folder of mode %v of user %d: got %q, %v", path, folder.mode, folder.owner, got, err)
			}
		}
	}
}

func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.WriteFile("file", []byte("old"), 0o600), os.WriteFile("victim", []byte("old"), 0o600),
		os.Symlink("victim", "link"), os.Symlink("none", "dangling"), syscall.Mkfifo("pipe", 0o600), os.Mkdir("folder", 0o700),
		os.WriteFile("two", nil, 0o600), os.Link("two", "names"), os.Symlink(".", "here"))
	const add = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	for _, path := range []string{"file", "new", "here/new"} {
		f, err := OpenOwn(path, add, 0o600)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_, err = f.WriteString("new")
		must(t, err, f.Close())
	}
	for path, want := range map[string]string{"file": "oldnew", "new": "newnew"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := OpenOwn("file", add|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a new file over an old one: %v", err)
	}
	refused := map[string]string{
		"link": "it is a link", "dangling": "it is a link", "pipe": "wanted a regular file", "folder": "is a directory",
		"folder/": "is a directory", "two": "2 names", "/dev/null": "wanted a regular file",
		"/proc/self/status": "wanted a regular file", "none/x": "no such file",
	}
	if os.Geteuid() == 0 {
		must(t, os.WriteFile("theirs", nil, 0o666), os.Chown("theirs", stranger, stranger))
		refused["theirs"] = "another user (65533)"
	}
	for path, want := range refused {
		for _, flag := range []int{os.O_RDONLY, add, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
			if f, err := OpenOwn(path, flag, 0o600); err == nil || !strings.Contains(err.Error(), "open "+path+": ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, %v, want %q", path, f, err, want)
			}
		}
	}
	if _, err := OpenOwn("none", os.O_RDWR, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	f, err := OpenOwn("file", os.O_RDWR|os.O_TRUNC, 0)
	must(t, err)
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != 0 || f.Name() != "file" {
		t.Errorf("%v %v, %s", info, err, f.Name())
	}
}

// Where all links are trusted, a path leads where the kernel goes.
func TestLocateAsTheKernel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	found, missing := 0, 0
	for range 40 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		t.Chdir(dir)
		path := func() string {
			var steps []string
			for range 1 + random.IntN(5) {
				steps = append(steps, pick("a", "b", "c", "d", "e", ".", "..", "a", "b", ""))
			}
			return pick("", "", dir+"/", "./") + strings.Join(steps, "/") + pick("", "", "", "/")
		}
		for range 30 {
			name := pick("a", "b", "c", "d", "a/b", "a/c", "a/d", "b/a", "b/c", "a/b/e", "c/d")
			switch pick("folder", "folder", "file", "link", "link") {
			case "folder":
				os.Mkdir(name, 0o755)
			case "file":
				os.WriteFile(name, nil, 0o644)
			case "link":
				os.Symlink(path(), name)
			}
		}
		for range 300 {
			path := path()
			var want, got syscall.Stat_t
			errWant := syscall.Stat(path, &want)
			p, errGot := Locate(path)
			if errGot == nil {
				f, err := p.Open(unix.O_PATH, 0)
				if errGot = err; err == nil {
					errGot = syscall.Fstat(int(f.Fd()), &got)
					f.Close()
				}
				if errGot == nil && p.Slash && got.Mode&syscall.S_IFMT != syscall.S_IFDIR {
					errGot = syscall.ENOTDIR
				}
				p.Close()
			}
			if errors.Is(errGot, errLoop) {
				errGot = syscall.ELOOP
			}
			if fmt.Sprint(errWant) != fmt.Sprint(errGot) || want.Ino != got.Ino && errWant == nil {
				tree, _ := exec.Command("ls", "-lR", dir).Output()
				t.Fatalf("%q: inode %d, %v; the kernel has %d, %v\n%s", path, got.Ino, errGot, want.Ino, errWant, tree)
			}
			if errWant == nil {
				found++
			} else {
				missing++
			}
		}
	}
	t.Logf("%d found, %d not", found, missing)
}

// In a container root outside has no number, and neither have other users: their links are followed in folders to which
// only they can write, as are those of root elsewhere.
func TestLocateInAContainer(t *testing.T) {
	if os.Getenv("REGULAR_TEST_CONTAINER") != "" {
		if got, err := resolved(t, "roots/link/x"); err != nil || filepath.Base(filepath.Dir(got)) != "mine" {
			t.Errorf("%s, %v", got, err)
		}
		if got, err := resolved(t, "shared/link/x"); !errors.Is(err, errAstray) {
			t.Errorf("in a folder to which all may write: %s, %v", got, err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir("roots", 0o755), os.Mkdir("shared", 0o777), os.Chmod("shared", 0o777),
		os.Mkdir("mine", 0o755), os.Chown("mine", stranger, stranger), os.Symlink("../mine", "roots/link"), os.Symlink("../mine", "shared/link"))
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestLocateInAContainer$")
	cmd.Env = append(os.Environ(), "REGULAR_TEST_CONTAINER=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Credential: &syscall.Credential{NoSetGroups: true},
		UidMappings: []syscall.SysProcIDMap{{HostID: stranger, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: stranger, Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 && err != nil {
		t.Skip("no user namespaces: ", err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// What a signal interrupts is done again, and nothing else is.
func TestUninterrupted(t *testing.T) {
	for _, want := range []error{nil, unix.ENOENT} {
		calls := 0
		err := Uninterrupted(func() error {
			if calls++; calls < 3 {
				return &fs.PathError{Err: unix.EINTR}
			}
			return want
		})
		if err != want || calls != 3 {
			t.Errorf("%v after %d calls, want %v after 3", err, calls, want)
		}
	}
}
